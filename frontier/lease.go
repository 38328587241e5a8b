package frontier

import (
	"container/heap"
	"context"
	"net/netip"
	"sync"
	"time"
)

// lease is the right to ask a server, until a time. When it is withdrawn, what is out may still end by then.
type lease struct {
	server    *server
	until     time.Time
	withdrawn bool
	place     int
}

func (l *lease) at() time.Time   { return l.until }
func (l *lease) moved(place int) { l.place = place }

// grant gives, extends or, with a time that is over, ends the lease of a server.
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
		s.next = later(s.next, now.Add(wait))
	}
	s.told = false
	if s.lease == nil {
		s.lease = &lease{server: s, until: until}
		heap.Push(&w.expiries, s.lease)
	} else {
		s.lease.until, s.lease.withdrawn = until, false
		heap.Fix(&w.expiries, s.lease.place)
	}
	w.settleServer(s, now)
}

// withdraw has nothing more asked for of a server.
func (w *workbench) withdraw(addr netip.Addr, now time.Time) {
	if s := w.servers[addr]; s != nil && s.lease != nil {
		s.lease.withdrawn, s.told = true, false
		w.settleServer(s, now)
	}
}

// expire ends the lease of a server. Tasks that are out are told later, without locks.
func (w *workbench) expire(s *server, now time.Time) {
	heap.Remove(&w.expiries, s.lease.place)
	s.lease, s.told = nil, false
	for _, t := range s.out {
		w.expired = append(w.expired, t.expiry)
	}
	w.settleServer(s, now)
}

// leased says that a server may be asked as far as leases go.
func (w *workbench) leased(s *server, now time.Time) bool {
	// By the wall clock, too: the monotonic one stands still while the machine sleeps.
	return !w.cfg.Leases || isFileServer(s.addr) || s.lease != nil && !s.lease.withdrawn && s.lease.until.After(now) && s.lease.until.Round(0).After(now.Round(0))
}

// want notes that a server without a lease has something to be asked for.
func (w *workbench) want(s *server) {
	w.untime(s)
	if !s.told {
		s.told = true
		w.wants = append(w.wants, s.addr)
	}
}

// purge takes entries that are stale from the heads of the queues of a server that nobody takes from meanwhile.
func (w *workbench) purge(s *server) {
	for o := range s.queue {
		for s.queue[o].len() > 0 {
			h := *s.queue[o].peek()
			mine := h.server == s && h.queued[o]
			if mine && h.window[o].len() > 0 {
				break
			}
			if mine {
				h.queued[o] = false
			}
			s.queue[o].pop()
		}
	}
}

// nextWake is when advance has something to do, leases included.
func (w *workbench) nextWake(now time.Time) (time.Time, bool) {
	due, ok := w.nextDue()
	if w.ready[Revisit].len() > 0 {
		if may, at := w.recrawl.mayVisit(now); !may && (!ok || at.Before(due)) {
			due, ok = at, true
		}
	}
	if len(w.expiries) > 0 && (!ok || w.expiries[0].until.Before(due)) {
		return w.expiries[0].until, true
	}
	return due, ok
}

// expiry is whom to tell when the lease of a task's server ends before the task.
type expiry struct {
	// mu guards what follows.
	mu            sync.Mutex
	cancel        func()
	expired, over bool
}

// OnExpire has cancel called once if the lease of the task's server ends before Finish is called: at once, if it has ended already. cancel must not block. Without Config.Leases, and for remote fetches, it is never called.
func (t *Task) OnExpire(cancel func()) {
	l := t.expiry
	if l == nil {
		return
	}
	l.mu.Lock()
	expired := l.expired && !l.over
	if !expired {
		l.cancel = cancel
	}
	l.mu.Unlock()
	if expired {
		cancel()
	}
}

// MayExpire says whether OnExpire may ever call.
func (t *Task) MayExpire() bool { return t.expiry != nil }

// fire tells that the lease has ended.
func (l *expiry) fire() {
	l.mu.Lock()
	cancel := l.cancel
	if l.over || l.expired {
		cancel = nil
	}
	l.expired, l.cancel = true, nil
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// end says that the task is over; nil is no task with a lease.
func (l *expiry) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.cancel = true, nil
}

// leases is what the node is told of servers, and tells of them.
type leases struct{ *front }

// Grant gives this node the lease of a server, or extends it; the server is not asked before wait has passed, counted from
// now. With a time until that has passed the lease ends at once, and tasks that are out are told (Task.OnExpire).
// It matters with Config.Leases only.
func (l *leases) Grant(addr netip.Addr, until time.Time, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.bench.grant(addr, until, wait, now)
	l.dispatch(now)
}

// Withdraw has no further task of a server handed out until the next Grant. Those that are out may go on until the lease ends.
func (l *leases) Withdraw(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.bench.withdraw(addr, now)
	l.dispatch(now)
}

// Wanted waits for servers that have something to be asked for and are not leased to this node, and returns those since the
// last call: each once, until the next Grant or the end of a lease. One caller hears of each. The error is that of the
// context, or ErrClosed.
func (l *leases) Wanted(ctx context.Context) ([]netip.Addr, error) {
	return gather(ctx, l.front, l.wanted, func() []netip.Addr {
		wants := l.bench.wants
		l.bench.wants = nil
		return wants
	})
}

// SetSpacing sets the factor by which the time between two requests to a server grows, because it is overloaded; 1 is as
// usual.
func (l *leases) SetSpacing(addr netip.Addr, factor float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if factor > 1 {
		l.bench.rules.spacing[addr] = factor
	} else {
		delete(l.bench.rules.spacing, addr)
	}
}

// Gap is how long a server must be left alone after a request for a host's page that took that long.
func (l *leases) Gap(host string, addr netip.Addr, elapsed, retryAfter time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var delay time.Duration
	if h := l.bench.hosts[host]; h != nil {
		delay = h.crawlDelay
	}
	return l.bench.rules.gap(l.deps.Site(host), addr, delay, retryAfter, elapsed)
}

// OwnServer says whether a server is named as one's own.
func (l *leases) OwnServer(addr netip.Addr) bool { return l.bench.rules.own(addr) }

// HostsAt are the hosts of the workbench that a server serves, in no order.
func (l *leases) HostsAt(addr netip.Addr) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bench.servers[addr]
	if s == nil {
		return nil
	}
	names := make([]string, 0, len(s.hosts))
	for h := range s.hosts {
		names = append(names, h.name)
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
	// Wait is how long it is not to be asked yet.
	Wait time.Duration
	// InFlight counts the requests that are out.
	InFlight int
	// Hosts are up to four of the hosts it serves, and Level is the largest backoff level of all of them.
	Hosts []string
	Level uint8
}

// serverHosts is how many hosts a ServerState names.
const serverHosts = 4

// Servers tells of the servers of the workbench, in no order. It looks at every host there: not for a hot path.
func (l *leases) Servers() []ServerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bench.serverStates(time.Now())
}

func (w *workbench) serverStates(now time.Time) []ServerState {
	at := make(map[*server]int, len(w.servers))
	out := make([]ServerState, 0, len(w.servers))
	for addr, s := range w.servers {
		st := ServerState{Addr: addr, Wait: max(0, s.next.Sub(now)), InFlight: s.inFlight, Wanted: s.inFlight > 0}
		if s.lease != nil {
			st.Until = s.lease.until
		}
		at[s] = len(out)
		out = append(out, st)
	}
	for name, h := range w.hosts {
		i, ok := at[h.server]
		if h.server == nil || !ok {
			continue
		}
		st := &out[i]
		if len(st.Hosts) < serverHosts {
			st.Hosts = append(st.Hosts, name)
		}
		st.Level = max(st.Level, h.level)
		due, work := h.due()
		st.Wanted = st.Wanted || work && !due.After(now) && h.suspended == "" && !h.frozen
	}
	return out
}
