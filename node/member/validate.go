package member

import (
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// validate reports all that is wrong with what a node is given.
func validate(cfg Config, deps Deps) error {
	errs := []error{cfg.Validate()}
	report := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !validID(deps.ID) {
		report("id: %q is not %d characters of lower-case hex", deps.ID, IDLen)
	}
	if len(deps.Run) > memberlist.LabelMaxSize {
		report("run: %d bytes, more than %d", len(deps.Run), memberlist.LabelMaxSize)
	}
	for _, key := range deps.Secrets {
		if len(key) != 32 {
			report("secret: %d bytes, not 32", len(key))
		}
	}
	if len(deps.Secrets) == 0 && deps.Transport == nil {
		if !onLoopback(cfg.Bind) {
			report("bind: %q is not loopback, and there is no secret", cfg.Bind)
		}
	}
	if err := checkAddr(deps.PeerAddr, true); err != nil {
		report("peer address: it cannot be dialled: %w", err)
	}
	if deps.Location != nil && !onEarth(*deps.Location) {
		report("location: %v, %v is not on Earth", deps.Location.Lat, deps.Location.Lon)
	}
	return errors.Join(errs...)
}
