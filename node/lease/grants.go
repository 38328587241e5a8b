package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// grants decides who gets the servers that this node is the grantor of. It knows nothing of memories and messages. Pure: time is an
// argument. Not safe for concurrent use.
type grants struct {
	cfg     *Config
	boot    uint64
	history *view.History
	entries map[netip.Addr]*grant
	most    int           // entries
	counts  GrantorStatus // that are counted as they happen
	// founded is when a node that founds an overlay may believe that nobody else is there.
	founded time.Time
	members *members
	// lives are the holders' latest, known the lives of which all members have said what they left behind.
	lives lives
	known map[string]uint64
	// ask says that somebody waits for what the members would answer.
	ask bool
}

// grant is what the grantor knows of one server. A grant without holder, reservation or wait is as good as none.
type grant struct {
	holder string // "": free
	until  time.Time
	// claimed says that the holder has it by its own word, from a former grantor: a message that is late may say so, too.
	claimed bool
	// last is who held it last; boot and id are those of its last message that counted.
	last     string
	boot, id uint64
	// successor may have it before all others until reserved is over.
	successor string
	reserved  time.Time
	// remote is until when a page may be downloaded under the lease of a life that is over.
	remote time.Time
	// quiet is until when the server must be left alone, level that of its backoff.
	quiet time.Time
	level uint32
}

// request is one item of a message.
type request struct {
	from      string
	boot, id  uint64 // of the message; 0, 0: it cannot be out of order
	addr      netip.Addr
	wish      wire.Wish
	wait      time.Duration
	level     uint32
	successor string
}

const (
	// maxWait bounds how long a holder can ask for a server to be left alone.
	maxWait = 24 * time.Hour
	// inquireRetry is when a holder asks again while the members are being asked.
	inquireRetry = time.Second
	// pruneEvery is how often entries that say nothing are dropped.
	pruneEvery = 10 * time.Second
)

func newGrants(cfg *Config, boot uint64) *grants {
	return &grants{cfg: cfg, boot: boot, history: view.NewHistory(cfg.Window()), entries: map[netip.Addr]*grant{}, most: maxServers,
		members: newMembers(cfg.Window()), lives: lives{}, known: map[string]uint64{}}
}

// setView forgets the entries of servers that this node is not the grantor of any more.
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
		l.history.Begin(now.Add(founding - l.cfg.Window()))
		l.founded = now.Add(founding)
	}
	maps.DeleteFunc(l.entries, func(addr netip.Addr, _ *grant) bool { return !isGrantor(l.history.Now(), addr) })
}

// isGrantor says whether a node was the grantor of a server in its view, with the right to grant.
func isGrantor(v *view.View, addr netip.Addr) bool { return v.Majority && v.Grantor(addr) == v.Self }

// blind is how much longer this node, the grantor now, does not know whether an earlier grantor's lease lives.
func (l *grants) blind(addr netip.Addr, now time.Time) time.Duration {
	return l.history.Blind(now, l.cfg.Window(), func(v *view.View) bool { return isGrantor(v, addr) })
}

// prune drops entries that say nothing.
func (l *grants) prune(now time.Time) {
	maps.DeleteFunc(l.entries, func(_ netip.Addr, n *grant) bool {
		n.settle(now)
		return n.holder == "" && n.successor == "" && !n.quiet.After(now) && !n.remote.After(now)
	})
}

// settle ends what has run out.
func (n *grant) settle(now time.Time) {
	if !n.until.After(now) {
		n.holder = ""
	}
	if !n.reserved.After(now) {
		n.successor = ""
	}
}

// granted counts the servers granted now.
func (l *grants) granted(now time.Time) int {
	sum := 0
	for _, n := range l.entries {
		if n.holder != "" && n.until.After(now) {
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
		return l.later(l.cfg.retryMin()) // the others would not ask it what it has
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
	n.settle(now)
	switch {
	case n.last == r.from && (r.boot < n.boot || r.boot == n.boot && r.id < n.id):
		l.counts.Stale++
		return l.later(l.cfg.retryMin())
	case n.holder == r.from && r.boot > n.boot && l.known[r.from] < r.boot:
		// It has restarted. What its former life asked its peers to download may be under way.
		return l.inquire(n.until.Sub(now), now)
	case n.holder == r.from && r.boot > n.boot:
		n.holder = ""
		return l.answer(r, now)
	case n.holder == r.from:
		return l.answerHolder(n, r, now)
	case n.holder != "":
		return l.held(n.holder)
	case r.wish == wire.Wish_WISH_RELEASE:
		return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN} // nothing to give back
	}
	if blind := l.blind(r.addr, now); blind > 0 {
		// What the predecessor granted is not known: only who holds the server can say so, and the first is believed.
		if r.wish != wire.Wish_WISH_RENEW {
			return l.inquire(blind, now)
		}
	} else if r.wish == wire.Wish_WISH_RENEW {
		// The lease has run out, or the message was long under way: nobody can hold it by a grant of this grantor.
		return l.later(l.cfg.retryMin())
	}
	if n.remote.After(now) {
		return l.later(n.remote.Sub(now))
	}
	if n.successor != "" && n.successor != r.from {
		return l.held(n.successor)
	}
	if l.entries[r.addr] == nil {
		if len(l.entries) >= l.most {
			return l.later(l.cfg.retryMax())
		}
		l.entries[r.addr] = n
	}
	n.holder, n.last, n.successor = r.from, r.from, ""
	n.boot, n.id = r.boot, r.id
	n.claimed = r.wish == wire.Wish_WISH_RENEW
	if n.claimed {
		n.report(r, now)
	}
	return l.give(n, now)
}

// answerHolder decides a request of the node that holds the server.
func (l *grants) answerHolder(n *grant, r request, now time.Time) *wire.LeaseAnswer {
	n.boot, n.id = r.boot, r.id
	switch r.wish {
	case wire.Wish_WISH_RENEW:
		n.report(r, now)
		return l.give(n, now)
	case wire.Wish_WISH_ACQUIRE:
		if blind := l.blind(r.addr, now); n.claimed && blind > 0 {
			return l.inquire(blind, now) // it has lost what it claimed, and somebody else may have it
		}
		// It did not hear the answer: it is the only one that could have the lease.
		return l.give(n, now)
	default:
		n.report(r, now)
		n.holder = ""
		if r.successor != "" && r.successor != r.from {
			n.successor, n.reserved = r.successor, now.Add(l.cfg.Time)
		}
		l.counts.Given++
		return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN}
	}
}

// report takes over what the holder says of the server's quiet.
func (n *grant) report(r request, now time.Time) {
	n.quiet = now.Add(min(max(r.wait, 0), maxWait))
	n.level = r.level
}

func (l *grants) give(n *grant, now time.Time) *wire.LeaseAnswer {
	n.until = now.Add(l.cfg.Window())
	l.counts.Given++
	return &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN, ForMs: l.cfg.Time.Milliseconds(), Holder: n.holder,
		WaitMs: max(0, n.quiet.Sub(now)).Milliseconds(), Level: n.level}
}

// inquire answers later: as late as it must, or as soon as all members may have said what they hold.
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
