package identity

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Rules are the rules of one crawl. They do not change but by Widen, and are safe for concurrent use.
type Rules struct {
	cfg     Config
	params  params
	include *matcher
	exclude *matcher
	// mu is held while the scope is widened.
	mu     sync.Mutex
	seeded atomic.Pointer[seeded]
}

// New makes the rules of a crawl. The seeds count for the scope only (Config.SeedScope); they are not admitted by being
// seeds. Without seeds, and before any of other nodes are known (Widen), "any" is all and the other scopes are nothing.
func New(cfg Config, seeds []URL) (*Rules, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check URL rules: %w", err)
	}
	r := &Rules{cfg: cfg, params: newParams(cfg.TrackingParams), include: newMatcher(), exclude: newMatcher()}
	if err := r.include.addAll(cfg.Include); err != nil {
		return nil, fmt.Errorf("check URL rules: include.%w", err)
	}
	if err := r.exclude.addAll(cfg.Exclude); err != nil {
		return nil, fmt.Errorf("check URL rules: exclude.%w", err)
	}
	s, err := new(seeded).plus(r.Brought(seeds))
	if err != nil {
		return nil, fmt.Errorf("check URL rules: seeds: %w", err)
	}
	r.seeded.Store(s)
	return r, nil
}

// Resolve gives the identity of a link on the page base, without its tracking parameters. The reason is Accepted, or
// Scheme, Malformed, BadHost, Credentials, TooLong or TooManySegments. The base is an identity; the zero base takes absolute URLs only, as
// for seeds. The URL may share memory with base and ref.
func (r *Rules) Resolve(base URL, ref string) (URL, Reason) {
	u, reason := resolve(base, ref)
	if reason != Accepted {
		return URL{}, reason
	}
	u.Path = r.params.strip(u.Path)
	if u.Len() > r.cfg.MaxURLBytes {
		return URL{}, TooLong
	}
	return u, Accepted
}

// Admit judges whether an identity belongs to the crawl: depth is its distance from a seed in links, hops the redirects
// on the way to it from the link. It allocates nothing but for long queries and, with domains
// in scope, names not seen lately.
func (r *Rules) Admit(u URL, depth, hops int) Reason {
	return r.AdmitWithin(u, depth, hops, r.cfg.MaxDepth)
}

// AdmitWithin is Admit with another largest depth than Config.MaxDepth; 0 is none.
func (r *Rules) AdmitWithin(u URL, depth, hops, most int) Reason {
	switch {
	case u.Len() > r.cfg.MaxURLBytes:
		return TooLong
	case most > 0 && depth > most:
		return TooDeep
	case hops > r.cfg.MaxHops:
		return TooManyHops
	case !r.exclude.empty() && r.exclude.match(u):
		return Excluded
	case !r.within(u):
		return OutOfScope
	}
	return r.cfg.Traps.check(u)
}
