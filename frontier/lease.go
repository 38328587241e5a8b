package frontier

import (
	"context"
	"net/netip"
	"time"
)

// lease is the right to ask a server until a time, the when of its slot. When it is withdrawn, tasks that are out may still go on until
// then.
type lease struct {
	slot
	server    *server
	withdrawn bool
}

// grant gives or extends the lease of a server. With a time that has passed, it ends the lease.
func (w *workbench) grant(addr netip.Addr, until time.Time, wait time.Duration, now time.Time) {
	s := w.servers[addr]
	if !until.After(now) {
		if s != nil && s.lease != nil {
			w.expire(s, now)
		}
		return
	}
	if s == nil {
		s = w.newServer(addr)
	}
	if wait > 0 {
		s.rest(now.Add(wait))
	}
	s.told = false
	if s.lease == nil {
		s.lease = &lease{server: s}
	}
	s.lease.withdrawn = false
	w.expiries.put(s.lease, until)
	w.settleServer(s, now)
}

// withdraw keeps back the tasks of a server until the next grant. Its lease goes on for those that are out.
func (w *workbench) withdraw(addr netip.Addr, now time.Time) {
	if s := w.servers[addr]; s != nil && s.lease != nil {
		s.lease.withdrawn = true
		w.settleServer(s, now)
	}
}

// expire ends the lease of a server, and tells the tasks that are out.
func (w *workbench) expire(s *server, now time.Time) {
	w.expiries.remove(s.lease)
	s.lease, s.told = nil, false
	for _, t := range s.out {
		t.expire()
	}
	w.settleServer(s, now)
}

// leased says that no lease is missing for a request to a server.
func (w *workbench) leased(s *server, now time.Time) bool {
	// Both clocks must agree, because the monotonic one stands still while the machine sleeps.
	return !w.cfg.Leases || isFileServer(s.addr) || s.lease != nil && !s.lease.withdrawn && s.lease.when.After(now) && s.lease.when.Round(0).After(now.Round(0))
}

// want notes that a server without a lease has something to ask for.
func (w *workbench) want(s *server) {
	w.timer.remove(s)
	if !s.told {
		s.told = true
		w.wants = append(w.wants, s.addr)
	}
}

// purge removes stale entries from the heads of the queues of a server from which nobody takes tasks.
func (s *server) purge() {
	for o := range s.queue {
		for len(s.queue[o]) > 0 {
			h := s.queue[o][0]
			mine := h.server == s && h.queued[o]
			if mine && len(h.window[o]) > 0 {
				break
			}
			if mine {
				h.queued[o] = false
			}
			s.queue[o].pop()
		}
	}
}

// nextWake returns when time alone changes something: nextDue, the end of a lease, or the next visit that the budget allows.
func (w *workbench) nextWake(now time.Time) time.Time {
	due := sooner(w.nextDue(), w.expiries.first())
	if len(w.ready[Revisit]) > 0 {
		_, visit := w.recrawl.mayVisit(now)
		due = sooner(due, visit)
	}
	return due
}

// Lease returns a context that ends when the lease of the server ends before the task does. Without Config.Leases, and for remote fetches,
// it never ends.
func (t *Task) Lease() context.Context {
	if t.lease == nil {
		return context.Background()
	}
	return t.lease
}

// leases takes what the node learns of leases, and names the servers that need one.
type leases struct{ *front }

// Grant gives this node the lease of a server, or extends it. The server is not asked before wait has passed. If until has passed, the
// lease ends at once, and tasks that are out are told (Task.Lease). Grant has an effect with Config.Leases only.
func (l *leases) Grant(addr netip.Addr, until time.Time, wait time.Duration) {
	l.update(func(now time.Time) { l.bench.grant(addr, until, wait, now) })
}

// Withdraw keeps back the tasks of a server until the next Grant. Tasks that are out may go on until the lease ends.
func (l *leases) Withdraw(addr netip.Addr) {
	l.update(func(now time.Time) { l.bench.withdraw(addr, now) })
}

// Wanted waits for servers that have something to ask for and no lease, and returns those that are new since the last call. It names a
// server again only after a Grant or the end of its lease. It is for one caller. The error is that of the context, or ErrClosed.
func (l *leases) Wanted(ctx context.Context) ([]netip.Addr, error) {
	return awaitSome(ctx, l.front, l.wanted, func() []netip.Addr {
		wants := l.bench.wants
		l.bench.wants = nil
		return wants
	})
}

// SetSpacing multiplies the time between two requests to a server that is overloaded. A factor of 1 ends that.
func (l *leases) SetSpacing(addr netip.Addr, factor float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if factor > 1 {
		l.bench.rules.spacing[addr] = factor
	} else {
		delete(l.bench.rules.spacing, addr)
	}
}

// Gap returns how long a server must be left alone after a request for a page of a host that took the time elapsed, if the next request
// may be for the same host.
func (l *leases) Gap(host string, addr netip.Addr, elapsed, retryAfter time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var delay time.Duration
	if h := l.bench.hosts[host]; h != nil {
		delay = h.crawlDelay
	}
	r, site := &l.bench.rules, l.deps.Site(host)
	return max(r.gap(site, addr, delay, elapsed), r.hostGap(site, addr, delay), r.pause(retryAfter))
}

// OwnServer says whether a server belongs to the operator (Politeness.Own).
func (l *leases) OwnServer(addr netip.Addr) bool { return l.bench.rules.own(addr) }

// HostsAt returns the hosts on the workbench that a server serves, in no order.
func (l *leases) HostsAt(addr netip.Addr) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.bench.servers[addr]; s != nil {
		for h := range s.hosts {
			names = append(names, h.name)
		}
	}
	return names
}

// ServerState is what the workbench knows of a server.
type ServerState struct {
	Addr netip.Addr
	// Wanted says that a host here has something to ask for now, or that a request is out.
	Wanted bool
	// Until is when the lease ends; zero without one.
	Until time.Time
	// Wait is the time until it may be asked.
	Wait time.Duration
	// InFlight counts the requests that are out.
	InFlight int
	// Hosts are up to four of the hosts it serves, of AllHosts.
	Hosts    []string
	AllHosts int
}

// serverHosts is how many hosts a ServerState names.
const serverHosts = 4

// Servers returns the servers on the workbench, in no order. It is slow, because it looks at every host there.
func (l *leases) Servers() []ServerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bench.serverStates(time.Now())
}

// serverStates is Servers for callers with the lock.
func (w *workbench) serverStates(now time.Time) []ServerState {
	out := make([]ServerState, 0, len(w.servers))
	for addr, s := range w.servers {
		st := ServerState{Addr: addr, Wait: max(0, s.next.Sub(now)), InFlight: s.inFlight, AllHosts: len(s.hosts), Wanted: s.inFlight > 0}
		if s.lease != nil {
			st.Until = s.lease.when
		}
		for h := range s.hosts {
			if len(st.Hosts) < serverHosts {
				st.Hosts = append(st.Hosts, h.name)
			}
			due, work := h.due()
			st.Wanted = st.Wanted || work && !due.After(now) && h.suspended == ""
		}
		out = append(out, st)
	}
	return out
}
