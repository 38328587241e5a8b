package identity

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Rules are the rules of one crawl. Only Widen changes them. They are safe for concurrent use.
type Rules struct {
	cfg     Config
	params  params
	include *Index
	exclude *Index
	// mu is held while the scope is widened.
	mu     sync.Mutex
	seeded atomic.Pointer[seeded]
}

// New makes the rules of a crawl. Seeds widen the scope (Config.SeedScope), but are themselves judged like all other URLs. Before any
// seed is known, here or from another node (Widen), the seed scope "any" admits everything and the others admit nothing.
func New(cfg Config, seeds []URL) (*Rules, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check URL rules: %w", err)
	}
	r := &Rules{cfg: cfg, params: newParams(cfg.TrackingParams)}
	r.include, _ = newSet(cfg.Include) // both are valid
	r.exclude, _ = newSet(cfg.Exclude)
	s, err := new(seeded).plus(r.Brought(seeds))
	if err != nil {
		return nil, fmt.Errorf("check URL rules: seeds: %w", err)
	}
	r.seeded.Store(s)
	return r, nil
}

// Resolve returns the identity of a link on the page base, without its tracking parameters. The reason is Accepted, Scheme, Malformed,
// BadHost, Credentials, TooLong or TooManySegments. The base is an identity. With the zero base only absolute URLs are accepted, as for
// seeds. The URL may share memory with base and ref.
func (r *Rules) Resolve(base URL, ref string) (URL, Reason) {
	u, reason := resolve(base, ref)
	if reason != Accepted {
		return URL{}, reason
	}
	u.Path = r.params.strip(u.Path)
	if u.Len() > maxURLBytes {
		return URL{}, TooLong
	}
	return u, Accepted
}

// Admit says whether an identity belongs to the crawl: depth is its distance from a seed in links, hops the number of redirects that
// led to it from the link, and deepest the largest depth, 0 for any. It allocates only for long queries and, if the scope has domains,
// for names not seen lately.
func (r *Rules) Admit(u URL, depth, hops, deepest int) Reason {
	switch {
	case u.Len() > maxURLBytes:
		return TooLong
	case deepest > 0 && depth > deepest:
		return TooDeep
	case hops > r.cfg.MaxHops:
		return TooManyHops
	case !r.exclude.empty() && r.exclude.has(u):
		return Excluded
	case !r.within(u):
		return OutOfScope
	}
	return checkTraps(u)
}

// Reason says in words why a URL is refused. The zero value is Accepted.
type Reason string

// The reasons. Only logs and messages have them.
const (
	Accepted        Reason = ""
	Scheme          Reason = "scheme"              // neither http nor https
	Malformed       Reason = "malformed"           // no URL by the standard, or a relative URL without a base
	BadHost         Reason = "bad host"            // a name that no web server can have, or port 0
	Credentials     Reason = "credentials"         // a user name or password in the URL, or a long text that may be one
	TooLong         Reason = "too long"            // above maxURLBytes
	TooDeep         Reason = "too deep"            // above the limit on depths
	TooManyHops     Reason = "too many hops"       // above MaxHops
	Excluded        Reason = "excluded"            // matches Exclude
	OutOfScope      Reason = "out of scope"        // matches neither Include nor the scope of the seeds
	TooManyLabels   Reason = "too many labels"     // above maxLabels
	TooManySegments Reason = "too many segments"   // above maxPathSegments, or too many for the parser
	PathLoop        Reason = "path loop"           // the path repeats itself
	TooManyParams   Reason = "too many parameters" // above maxQueryParams
	QueryLoop       Reason = "query loop"          // the query repeats a parameter, or the address of its own page
)

// explained returns the reason in more words, for people who have written the URL.
func (r Reason) explained() string {
	switch r {
	case Scheme:
		return "only http and https can be crawled"
	case Malformed:
		return "this is no complete URL"
	case BadHost:
		return "no web server can have this name or port"
	case Credentials:
		return "a user name or password is in it"
	case TooLong:
		return "it is too long"
	}
	return string(r)
}
