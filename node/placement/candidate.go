package placement

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/assign"
)

// Candidate is a variant of an assigner with a name of its own, so that several variants can decide the same batch. It has the
// keys "name" and "assigner", and any keys of that assigner.
type Candidate map[string]any

var candidateName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// tuning is what a name in Config.Assigners stands for: an assigner and its configuration.
type tuning struct {
	label  string // the name
	method string // the assigner
	cfg    assign.Config
}

// text returns the string under a key, "" if there is none.
func (c Candidate) text(key string) string {
	s, _ := c[key].(string)
	return s
}

// Name returns the name to use in Config.Assigners.
func (c Candidate) Name() string { return c.text("name") }

// tune returns the tuning of the candidate. Keys that it does not have come from base. Errors begin with the key.
func (c Candidate) tune(base assign.Config) (tuning, error) {
	t := tuning{label: c.Name(), method: c.text("assigner"), cfg: base}
	switch {
	case !candidateName.MatchString(t.label):
		return t, fmt.Errorf("name: %q is not of letters, digits, dots, hyphens and underscores", t.label)
	case slices.Contains(assign.Names(), t.label):
		return t, fmt.Errorf("name: %q is the name of an assigner", t.label)
	case !slices.Contains(assign.Names(), t.method):
		return t, fmt.Errorf("assigner: %q is none of %q", t.method, assign.Names())
	}
	keys := maps.Clone(c)
	delete(keys, "name")
	delete(keys, "assigner")
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(map[string]any{t.method: map[string]any(keys)}); err != nil {
		return t, err
	}
	meta, err := toml.Decode(b.String(), &t.cfg)
	if err != nil {
		return t, fmt.Errorf("assigner: %w", err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return t, fmt.Errorf("%s: %s has no such key", unknown[0][len(unknown[0])-1], t.method)
	}
	if err := t.cfg.Validate(); err != nil {
		return t, errors.New(strings.TrimPrefix(err.Error(), t.method+"."))
	}
	return t, nil
}

// candidate returns the candidate with a name, nil if there is none.
func (c Config) candidate(name string) Candidate {
	for _, one := range c.Candidates {
		if one.Name() == name {
			return one
		}
	}
	return nil
}

// tuning returns what a name in Assigners stands for. Keys that a candidate does not have come from base.
func (c Config) tuning(name string, base assign.Config) (tuning, error) {
	if one := c.candidate(name); one != nil {
		return one.tune(base)
	}
	return tuning{label: name, method: name, cfg: base}, nil
}

// first returns the assigner whose choice gets the hosts.
func (c Config) first() string {
	t, _ := c.tuning(c.Assigners[0], assign.Default())
	return t.method
}
