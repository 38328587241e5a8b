// Package resolve is a caching stub resolver for a crawler: it turns host names into addresses. It owns the queries to recursive
// name servers, the cache of their answers, and the names that need no server (literals, a static table, the hosts file,
// localhost). It does not judge addresses: whoever dials one decides whether it may. Names are absolute, in their ASCII form, and
// search domains do not apply. The hosts file is read again when it has changed, resolv.conf when none of its servers answers. DNSSEC
// is left to the recursive servers.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// Resolver looks up names. It is safe for concurrent use. Close it.
type Resolver struct {
	cfg     Config
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	conf    string                   // path of resolv.conf; "" if servers are configured
	servers atomic.Pointer[[]string] // host:port
	static  map[string][]netip.Addr  // by canonical name
	hosts   hostsFile
	good    atomic.Int32 // index of the server that answered last
	alive   alive
	cache   *lru.Cache[string, *entry] // by canonical name
	flights singleflight.Group         // lookups that run or wait for a slot, by canonical name
	slots   chan struct{}              // one element for each running lookup

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts the flights
	mu     sync.Mutex     // held while ctx ends and while wg grows
}

// entry is what is known of a name: addresses, or why there are none. It never changes.
type entry struct {
	addrs   []netip.Addr
	err     error // an *Error
	expires time.Time
}

// answer returns the entry as a caller sees it at now.
func (e *entry) answer(now time.Time, elapsed time.Duration) (Answer, error) {
	return Answer{Addrs: slices.Clone(e.addrs), TTL: max(e.expires.Sub(now), 0), Elapsed: elapsed}, e.err
}

// Answer is what a lookup found.
type Answer struct {
	// Addrs are the distinct addresses in the order of the answer; with IPv6 the families alternate. The slice belongs to the
	// caller.
	Addrs []netip.Addr
	// TTL is how long lookups will return the same: half a minute if it is from the hosts file, a day if it is from
	// neither that nor DNS. It is set on failures, too.
	TTL time.Duration
	// Elapsed is how long this call waited for servers, 0 if it asked none.
	Elapsed time.Duration
	// Local says that no name server has said so: it is an address, localhost, or in the hosts file or the configuration.
	Local bool
}

// New returns a Resolver. It reads the hosts file and, unless servers are configured, resolv.conf. Either may be missing.
func New(cfg Config, deps Deps) (*Resolver, error) {
	servers, static, err := cfg.parse()
	if err != nil {
		return nil, fmt.Errorf("configure resolver: %w", err)
	}
	r := &Resolver{
		cfg:    cfg,
		dial:   deps.Dial,
		static: static,
		slots:  make(chan struct{}, maxLookups),
	}
	r.servers.Store(&servers)
	r.cache, _ = lru.New[string, *entry](maxNames) // it fails only for a size below one
	if r.dial == nil {
		r.dial = new(net.Dialer).DialContext
	}
	if servers == nil {
		r.conf = cmp.Or(deps.ResolvConf, "/etc/resolv.conf")
		if err := r.readConf(); err != nil {
			return nil, err
		}
	}
	r.hosts.path, r.hosts.ipv6 = cmp.Or(deps.HostsFile, "/etc/hosts"), cfg.IPv6
	if err := r.hosts.readLocked(); err != nil {
		return nil, fmt.Errorf("read hosts file: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// readConf takes the name servers of resolv.conf.
func (r *Resolver) readConf() error {
	text, err := readFile(r.conf)
	if err != nil {
		return fmt.Errorf("find name servers: %w", err)
	}
	servers, err := parseResolvConf(text)
	if err != nil {
		return fmt.Errorf("parse %s: %w", r.conf, err)
	}
	r.servers.Store(&servers)
	return nil
}

// Close ends all lookups and waits for their goroutines. Lookups after it fail with ErrClosed.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.wg.Wait()
}

// Lookup returns the addresses of host: a name without port, or an IP literal, an IPv6 one with or without brackets. Concurrent
// callers of one name share one lookup, which goes on if the ctx of one of them ends. Failures are an *Error with ErrNotFound,
// ErrTemporary or ErrInvalid, or wrap the error of ctx. Those with ErrNoServer say nothing about the host.
func (r *Resolver) Lookup(ctx context.Context, host string) (Answer, error) {
	name, addr, err := parseHost(host)
	if err != nil {
		return Answer{}, &Error{Host: host, Kind: ErrInvalid, Err: err}
	}
	static := Answer{TTL: maxTTL, Local: true}
	if addr.IsValid() {
		static.Addrs = []netip.Addr{addr}
		return static, nil
	}
	addrs, err := r.known(name)
	if err != nil {
		return static, &Error{Host: host, Kind: ErrNotFound, Err: err}
	}
	if addrs == nil {
		addrs, static.TTL = r.hosts.find(name), minTTL
	}
	if addrs != nil {
		static.Addrs = slices.Clone(addrs)
		return static, nil
	}

	start := time.Now()
	if e := r.cached(name, start); e != nil {
		return e.answer(start, 0)
	}
	select {
	case flight := <-r.flights.DoChan(name, func() (any, error) { return r.fly(name), nil }):
		now := time.Now()
		return flight.Val.(*entry).answer(now, now.Sub(start))
	case <-ctx.Done():
		return Answer{Elapsed: time.Since(start)}, fmt.Errorf("look up %s: %w", host, context.Cause(ctx))
	}
}

// cached returns the entry of a canonical name if it is still valid at now, else nil.
func (r *Resolver) cached(name string, now time.Time) *entry {
	e, ok := r.cache.Get(name)
	if !ok || !now.Before(e.expires) || r.ctx.Err() != nil {
		return nil
	}
	return e
}

// fly carries out a lookup and caches the result.
func (r *Resolver) fly(name string) *entry {
	r.mu.Lock()
	if r.ctx.Err() == nil {
		r.wg.Add(1) // never after Close has begun to wait
		defer r.wg.Done()
	}
	r.mu.Unlock()
	if e := r.cached(name, time.Now()); e != nil {
		return e // another flight has just ended
	}
	r.slots <- struct{}{} // Close ends those that have one
	defer func() { <-r.slots }()
	if r.ctx.Err() == nil {
		if e := r.lookup(name); r.ctx.Err() == nil {
			r.cache.Add(name, e)
			return e
		}
	}
	return &entry{err: &Error{Host: name, Kind: ErrTemporary, Err: ErrClosed}}
}

// The kinds of failure of a lookup, for errors.Is.
var (
	// ErrNotFound: the name does not exist or has no address. There is no use in asking again soon.
	ErrNotFound = errors.New("host not found")
	// ErrTemporary: all servers failed or were silent about the name.
	ErrTemporary = errors.New("no answer from name servers")
	// ErrNoServer: no server answers any question, or all answer SERVFAIL whatever the question, so this machine's network may be at
	// fault. Such errors are also ErrTemporary.
	ErrNoServer = errors.New("no name server answers at all")
	// ErrInvalid: the host is neither a name nor an address. No server was asked.
	ErrInvalid = errors.New("invalid host name")
	// ErrClosed: the Resolver was closed. Such errors are also ErrTemporary.
	ErrClosed = errors.New("resolver closed")
)

// Error is the failure of a lookup.
type Error struct {
	// Host is the name as given to Lookup, or the canonical name if callers share the failure.
	Host string
	// Kind is ErrNotFound, ErrTemporary or ErrInvalid.
	Kind error
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	return "look up " + e.Host + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Unwrap returns kind and reason.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Reasons of failures.
var (
	errNXDOMAIN  = errors.New("NXDOMAIN")
	errNoAddress = errors.New("no address records")
	errReserved  = errors.New("reserved name") // RFC 6761, RFC 7686
)

// Outcomes of one exchange with one server.
var (
	errStray     = errors.New("not an answer to the query")
	errTruncated = errors.New("truncated")
	errNoEDNS    = errors.New("server does not know EDNS")
	errServer    = errors.New("server failure")          // it answered, so there is no use in asking it again
	errServFail  = fmt.Errorf("%w: SERVFAIL", errServer) // it could not find out, perhaps because it reaches nobody
)
