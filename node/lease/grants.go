package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// grants decides who gets the servers of this grantor. It is pure: time is an argument. It is not safe for concurrent use.
type grants struct {
	cfg     *Config
	boot    uint64
	history *view.History
	entries map[netip.Addr]*grant
	most    int           // bounds the entries
	counts  GrantorStatus // the counters; gauges are filled in by Status
	founded time.Time     // when the founder of an overlay may assume that nobody else is there
	members *members
	lives   lives             // the latest lives of the holders
	known   map[string]uint64 // by holder: up to which life all members have told what it left behind
	ask     bool              // somebody waits for an inquiry
}

// grant is what the grantor knows of one server.
type grant struct {
	holder string    // the latest one
	until  time.Time // from then on it is free
	// claimed: the holder says that a former grantor granted it. A late message may say so wrongly.
	claimed   bool
	boot, id  uint64 // of the holder's latest message that counted
	successor string // the only node that may have it next, until reserved
	reserved  time.Time
	remote    time.Time // until when a peer may download under a lease that its holder has lost, or had in an earlier life
	quiet     time.Time // until when the server must be left alone
}

// request is one item of a message.
type request struct {
	from      string
	boot, id  uint64 // of the message
	addr      netip.Addr
	wish      wire.Wish
	wait      time.Duration // for how long the holder says that the server must be left alone
	successor string
}

const (
	// maxWait bounds how long a holder can have a server left alone.
	maxWait = 24 * time.Hour
	// inquireRetry is when a holder should ask again during an inquiry.
	inquireRetry = 500 * time.Millisecond
	// pruneEvery is how often empty entries are dropped.
	pruneEvery = 10 * time.Second
)

func newGrants(cfg *Config, boot uint64) *grants {
	return &grants{cfg: cfg, boot: boot, history: view.NewHistory(cfg.Window()), entries: map[netip.Addr]*grant{}, most: maxServers,
		members: newMembers(cfg.Window()), lives: lives{}, known: map[string]uint64{}}
}

// setView installs a view and forgets servers that have another grantor now.
func (l *grants) setView(v view.View, now time.Time) {
	l.members.set(v, now)
	first := l.history.Since().IsZero()
	if !l.history.Set(v, now) {
		return
	}
	if first && v.Majority && len(v.Settled) == 1 {
		founding := l.cfg.Window()
		if l.boot == 1 {
			founding = min(founding, l.cfg.Founding)
		}
		l.history.Begin(now.Add(founding - l.cfg.Window())) // as if it had been here for the rest of the window
		l.founded = now.Add(founding)
	}
	maps.DeleteFunc(l.entries, func(addr netip.Addr, _ *grant) bool { return !isGrantor(l.history.Now(), addr) })
}

// forget ends what is known of grants. Its holders are believed only until others say that they hold the same servers.
func (l *grants) forget(now time.Time) {
	l.history.Begin(now)
	for _, n := range l.entries {
		n.claimed = true
	}
}

// isGrantor reports whether the node of a view may grant a server.
func isGrantor(v *view.View, addr netip.Addr) bool { return v.Majority && v.Grantor(addr) == v.Self }

// blind returns how much longer a lease of an earlier grantor may live without this node knowing it.
func (l *grants) blind(addr netip.Addr, now time.Time) time.Duration {
	return l.history.Blind(now, l.cfg.Window(), func(v *view.View) bool { return isGrantor(v, addr) })
}

// prune drops empty entries, and lives that do not count any more.
func (l *grants) prune(now time.Time) {
	l.lives.prune(now, l.cfg.Window())
	maps.DeleteFunc(l.entries, func(_ netip.Addr, n *grant) bool {
		return !n.until.After(now) && !n.reserved.After(now) && !n.quiet.After(now) && !n.remote.After(now)
	})
}

// granted counts the servers granted now.
func (l *grants) granted(now time.Time) int {
	sum := 0
	for _, n := range l.entries {
		if n.until.After(now) {
			sum++
		}
	}
	return sum
}

// answer decides one request.
func (l *grants) answer(r request, now time.Time) *wire.LeaseAnswer {
	v := l.history.Now()
	if !v.Majority {
		return l.later(l.cfg.retryMin())
	}
	if r.wish != wire.Wish_WISH_RELEASE && !slices.Contains(l.members.alive, r.from) {
		return l.later(l.cfg.retryMin()) // an inquiry would not ask it what it holds
	}
	if !l.lives.hear(r.from, r.boot, now, l.cfg.Window()) {
		l.counts.Stale++
		return l.later(l.cfg.retryMin())
	}
	if !isGrantor(v, r.addr) {
		l.counts.Elsewhere++
		return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_ELSEWHERE}
	}
	n := l.entries[r.addr]
	if n == nil {
		n = &grant{}
	}
	again := n.holder == r.from
	if again && r.boot > n.boot && l.known[r.from] >= r.boot {
		n.until = time.Time{}
	}
	switch held := n.until.After(now); {
	case again && (r.boot < n.boot || r.boot == n.boot && r.id < n.id):
		l.counts.Stale++
		return l.later(l.cfg.retryMin())
	case held && again && r.boot > n.boot:
		// It has restarted, and peers may still download what its former life asked for.
		return l.inquire(n.until.Sub(now), now)
	case held && again:
		return l.answerHolder(n, r, now)
	case held:
		return l.held(n.holder)
	case r.wish == wire.Wish_WISH_RELEASE:
		return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN} // nothing to give back
	}
	if blind := l.blind(r.addr, now); blind > 0 {
		// The predecessor's grant is unknown. A node that renews says that it is the holder, and the first one is believed.
		if r.wish != wire.Wish_WISH_RENEW {
			return l.inquire(blind, now)
		}
	} else if r.wish == wire.Wish_WISH_RENEW {
		// The lease has expired, or the message is old: nobody holds it by a grant of this node.
		return l.later(l.cfg.retryMin())
	}
	if n.remote.After(now) {
		return l.later(n.remote.Sub(now))
	}
	if n.reserved.After(now) && n.successor != r.from {
		return l.held(n.successor)
	}
	if l.entries[r.addr] == nil {
		if len(l.entries) >= l.most {
			return l.later(l.cfg.retryMax())
		}
		l.entries[r.addr] = n
	}
	n.holder, n.boot, n.id, n.reserved = r.from, r.boot, r.id, time.Time{}
	n.claimed = r.wish == wire.Wish_WISH_RENEW
	if n.claimed {
		n.quiet = now.Add(r.wait)
	}
	return l.give(n, now)
}

// answerHolder decides a request of the node that holds the server.
func (l *grants) answerHolder(n *grant, r request, now time.Time) *wire.LeaseAnswer {
	n.id = r.id
	switch r.wish {
	case wire.Wish_WISH_RENEW:
		n.quiet = now.Add(r.wait)
		return l.give(n, now)
	case wire.Wish_WISH_ACQUIRE:
		if blind := l.blind(r.addr, now); n.claimed && blind > 0 {
			return l.inquire(blind, now) // it has lost the lease that it claimed, so another node may have it
		}
		// It did not hear the answer. Nobody else can have the lease.
		return l.give(n, now)
	default:
		n.quiet = now.Add(r.wait)
		n.until = time.Time{}
		if r.successor != "" && r.successor != r.from {
			n.successor, n.reserved = r.successor, now.Add(l.cfg.Time)
		}
		l.counts.Given++
		return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN}
	}
}

// give grants or renews the lease of the holder.
func (l *grants) give(n *grant, now time.Time) *wire.LeaseAnswer {
	n.until = now.Add(l.cfg.Window())
	l.counts.Given++
	return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN, ForMs: l.cfg.Time.Milliseconds(), Holder: n.holder,
		WaitMs: max(0, n.quiet.Sub(now)).Milliseconds()}
}

// inquire asks for an inquiry and answers LATER: after wait, or sooner if all members can answer the inquiry.
func (l *grants) inquire(wait time.Duration, now time.Time) *wire.LeaseAnswer {
	l.ask = true
	if len(l.members.all(now)) == len(l.members.alive) {
		wait = min(wait, inquireRetry)
	}
	return l.later(wait)
}

func (l *grants) held(holder string) *wire.LeaseAnswer {
	l.counts.Refused++
	return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_HELD, Holder: holder, RetryMs: l.cfg.HeldRetry().Milliseconds()}
}

func (l *grants) later(retry time.Duration) *wire.LeaseAnswer {
	l.counts.Later++
	return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_LATER, RetryMs: retry.Milliseconds()}
}
