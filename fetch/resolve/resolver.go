// Package resolve turns the names of hosts into addresses: a caching stub resolver for a crawler. It owns the queries to
// recursive name servers, the cache of their answers, and the names that need no server (literals, a static table, the
// hosts file, localhost). It does not judge addresses: whether one may be dialled is decided where it is dialled. Names
// are absolute, search domains are not applied, and names in other scripts must be in their ASCII form. The hosts file
// and resolv.conf are read once. DNSSEC is left to the recursive servers.
package resolve

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Resolver looks up names. It is safe for concurrent use. Close it.
type Resolver struct {
	cfg     Config
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	servers []string                // host:port
	static  map[string][]netip.Addr // by canonical name
	hosts   map[string][]netip.Addr // by canonical name
	good    atomic.Int32            // index of the server that answered last
	slots   chan struct{}           // one element for each lookup under way
	ctx     context.Context         // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	alive   alive

	mu      sync.Mutex
	cache   *cache
	flights map[string]*flight // lookups under way or waiting for a slot
	closed  bool
}

// flight is one lookup that any number of callers wait for.
type flight struct {
	done  chan struct{}
	entry *entry // set before done is closed
}

// Answer is what a lookup found.
type Answer struct {
	// Addrs are the addresses, without duplicates, in the order of the answer; with IPv6, the families alternate. The
	// slice belongs to the caller.
	Addrs []netip.Addr
	// TTL is the time for which lookups will give the same; MaxTTL where no DNS is involved. It is set on failures, too.
	TTL time.Duration
	// Cached reports that no name server was asked and that nothing was waited for.
	Cached bool
	// Elapsed is how long this call waited for servers.
	Elapsed time.Duration
}

// New returns a Resolver. It reads resolv.conf, unless servers are configured, and the hosts file; that they do not
// exist is no error.
func New(cfg Config, deps Deps) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure resolver: %w", err)
	}
	static, err := staticTable(cfg.Hosts)
	if err != nil {
		return nil, fmt.Errorf("configure resolver: %w", err)
	}
	r := &Resolver{
		cfg:     cfg,
		dial:    deps.Dial,
		static:  static,
		slots:   make(chan struct{}, cfg.MaxLookups),
		cache:   newCache(cfg.CacheEntries),
		flights: map[string]*flight{},
		alive:   alive{asking: make(chan struct{}, 1)},
	}
	if r.dial == nil {
		r.dial = new(net.Dialer).DialContext
	}
	for _, s := range cfg.Servers {
		addr, err := serverAddr(s)
		if err != nil {
			return nil, fmt.Errorf("configure resolver: %w", err)
		}
		r.servers = append(r.servers, addr)
	}
	if r.servers == nil {
		path := cmp.Or(deps.ResolvConf, "/etc/resolv.conf")
		text, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("find name servers: %w", err)
		}
		if r.servers, err = parseResolvConf(text); err != nil {
			return nil, fmt.Errorf("parse %s: %w", path, err)
		}
	}
	text, err := readFile(cmp.Or(deps.HostsFile, "/etc/hosts"))
	if err != nil {
		return nil, fmt.Errorf("read hosts file: %w", err)
	}
	r.hosts = parseHosts(text, cfg.IPv6, cfg.MaxAddresses)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Close ends all lookups and waits for their goroutines. Later lookups of names fail with ErrClosed.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// Lookup returns the addresses of host: a name without port, or an IPv4 or IPv6 literal, the latter in brackets or not.
// Callers that ask for the same name at the same time share one lookup; one whose ctx ends leaves without ending it.
// Failures are an *Error with ErrNotFound, ErrTemporary or ErrInvalid, or wrap the error of ctx. Those with ErrNoServer say
// nothing about the host.
func (r *Resolver) Lookup(ctx context.Context, host string) (Answer, error) {
	name, addr, err := parseHost(host)
	if err != nil {
		return Answer{}, &Error{Host: host, Kind: ErrInvalid, Err: err}
	}
	static := Answer{TTL: r.cfg.MaxTTL, Cached: true}
	if addr.IsValid() {
		static.Addrs = []netip.Addr{addr}
		return static, nil
	}
	addrs, err := r.known(name)
	if err != nil {
		return static, &Error{Host: host, Kind: ErrNotFound, Err: err}
	}
	if addrs != nil {
		static.Addrs = slices.Clone(addrs)
		return static, nil
	}

	start := time.Now()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return Answer{}, &Error{Host: host, Kind: ErrTemporary, Err: ErrClosed}
	}
	if e := r.cache.get(name, start); e != nil {
		r.mu.Unlock()
		return e.answer(start, true, 0)
	}
	f := r.flights[name]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.flights[name] = f
		r.wg.Go(func() { r.fly(name, f) })
	}
	r.mu.Unlock()

	select {
	case <-f.done:
		now := time.Now()
		return f.entry.answer(now, false, now.Sub(start))
	case <-ctx.Done():
		return Answer{Elapsed: time.Since(start)}, fmt.Errorf("look up %s: %w", host, context.Cause(ctx))
	}
}

// fly carries a lookup out, keeps what it found and tells those who wait.
func (r *Resolver) fly(name string, f *flight) {
	select {
	case r.slots <- struct{}{}:
		f.entry = r.lookup(name)
		<-r.slots
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		f.entry = &entry{name: name, err: &Error{Host: name, Kind: ErrTemporary, Err: ErrClosed}}
	} else {
		r.cache.put(f.entry)
	}
	delete(r.flights, name)
	close(f.done)
}
