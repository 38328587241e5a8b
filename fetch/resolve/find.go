package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// lookup asks the servers about a canonical name.
func (r *Resolver) lookup(name string) *entry {
	found := r.findAll(name)
	if found.kind == ErrTemporary {
		// Answers from before the last question say nothing about the silence that it met.
		switch silent, probed := r.silent(time.Now().Add(-r.cfg.Timeout)); {
		case silent:
			found.err = fmt.Errorf("%w: %w", ErrNoServer, found.err)
		case probed: // the servers answer now, so ask about the name once more
			found = r.findAll(name)
		}
	}
	return r.conclude(name, found)
}

// findAll asks for the addresses of all families.
func (r *Resolver) findAll(name string) finding {
	ctx, cancel := context.WithTimeout(r.ctx, time.Duration(r.cfg.Attempts)*r.cfg.Timeout)
	defer cancel()
	if !r.cfg.IPv6 {
		return r.find(ctx, name, dns.TypeA)
	}
	var v6 finding
	var wg sync.WaitGroup
	wg.Go(func() { v6 = r.find(ctx, name, dns.TypeAAAA) })
	v4 := r.find(ctx, name, dns.TypeA)
	wg.Wait()
	return merge(v4, v6)
}

// finding is what the servers say about the addresses of a name, in one family or in both.
type finding struct {
	addrs []netip.Addr
	ttl   time.Duration // not clamped; negative if unknown
	kind  error         // nil, ErrNotFound or ErrTemporary
	err   error
}

// find asks for the addresses of one family. It follows aliases if the server does not.
func (r *Resolver) find(ctx context.Context, name string, qtype uint16) finding {
	ttl := maxTTL
	for aliases := maxAliases; ; {
		rep, err := r.query(ctx, name, qtype, aliases)
		if err != nil {
			return finding{kind: ErrTemporary, err: err}
		}
		ttl = min(ttl, rep.ttl)
		switch {
		case rep.addrs != nil:
			return finding{addrs: rep.addrs, ttl: ttl}
		case rep.alias == "":
			return finding{kind: ErrNotFound, err: rep.absent, ttl: ttl}
		}
		aliases -= rep.aliases
		name = rep.alias
	}
}

// merge joins both families, alternating. If one is missing, the other is enough.
func merge(v4, v6 finding) finding {
	switch {
	case v4.kind == nil && v6.kind == nil:
		out := finding{ttl: min(v4.ttl, v6.ttl)}
		for i := range max(len(v4.addrs), len(v6.addrs)) {
			for _, from := range [][]netip.Addr{v4.addrs, v6.addrs} {
				if i < len(from) && len(out.addrs) < maxAddrs && !slices.Contains(out.addrs, from[i]) {
					out.addrs = append(out.addrs, from[i])
				}
			}
		}
		return out
	case v4.kind == nil:
		return v4
	case v6.kind == nil:
		if v4.kind == ErrTemporary { // most servers have IPv4 addresses, so ask again soon
			v6.ttl = min(v6.ttl, temporaryTTL)
		}
		return v6
	case v4.kind == ErrTemporary:
		return v4
	case v6.kind == ErrTemporary:
		return v6
	}
	v4.ttl = min(v4.ttl, v6.ttl)
	return v4
}

// conclude turns a finding into a cache entry.
func (r *Resolver) conclude(name string, f finding) *entry {
	e := &entry{addrs: f.addrs}
	var ttl time.Duration
	switch f.kind {
	case nil:
		ttl = max(f.ttl, minTTL) // find keeps it within maxTTL
	case ErrNotFound:
		if ttl = f.ttl; ttl < 0 {
			ttl = temporaryTTL // without SOA it should not be cached (RFC 2308, section 5), but a little avoids storms
		}
		ttl = min(max(ttl, minTTL), negativeTTL)
	case ErrTemporary:
		ttl = temporaryTTL
		if errors.Is(f.err, ErrNoServer) {
			ttl = 0 // it says nothing about the name, and is over as soon as a server answers
		}
	}
	if f.kind != nil {
		e.err = &Error{Host: name, Kind: f.kind, Err: f.err}
	}
	e.expires = time.Now().Add(ttl)
	return e
}
