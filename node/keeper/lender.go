package keeper

import (
	"net/netip"
	"time"

	"proxima/node/wire"
)

// lender decides who gets the servers that this node keeps. It knows nothing of memories and messages. Pure: time is an
// argument. Not safe for concurrent use.
type lender struct {
	cfg     *Config
	history history
	loans   map[netip.Addr]*loan
	number  uint64 // of the last grant
	counts  lenderCounts
}

type lenderCounts struct{ given, refused, elsewhere, later, bad, stale uint64 }

// loan is what the keeper knows of one server. A loan without holder, reservation or wait is as good as none.
type loan struct {
	holder string // "": free
	number uint64 // of the grant
	until  time.Time
	// last is who held it last; boot and id are those of its last message that counted.
	last     string
	boot, id uint64
	// successor may have it before all others until reserved is over.
	successor string
	reserved  time.Time
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

// reply answers a request.
type reply struct {
	grant  wire.Grant
	number uint64
	until  time.Duration // of the lease, from when the request was sent
	holder string
	wait   time.Duration
	level  uint32
	retry  time.Duration
}

const (
	// maxWait bounds how long a holder can ask for a server to be left alone.
	maxWait = 24 * time.Hour
	// pruneEvery is how often loans that say nothing are dropped.
	pruneEvery = 10 * time.Second
)

func newLender(cfg *Config, boot uint64) *lender {
	window := cfg.Lease + cfg.Skew
	founding := window
	if boot == 1 {
		founding = min(cfg.Founding, window)
	}
	return &lender{cfg: cfg, history: history{window: window, founding: founding}, loans: map[netip.Addr]*loan{}, number: boot << 32}
}

// setView forgets the loans of servers that this node does not keep any more, and says whether keepers may have changed.
func (l *lender) setView(v View, now time.Time) bool {
	if !l.history.set(v, now) {
		return false
	}
	current := l.history.current()
	for addr := range l.loans {
		if !current.keeps(addr.String()) {
			delete(l.loans, addr)
		}
	}
	return true
}

// prune drops loans that say nothing.
func (l *lender) prune(now time.Time) {
	for addr, n := range l.loans {
		if n.settle(now); n.holder == "" && n.successor == "" && !n.quiet.After(now) {
			delete(l.loans, addr)
		}
	}
}

// settle ends what has run out.
func (n *loan) settle(now time.Time) {
	if n.holder != "" && !n.until.After(now) {
		n.holder = ""
	}
	if n.successor != "" && !n.reserved.After(now) {
		n.successor = ""
	}
}

// lent counts the servers lent now.
func (l *lender) lent(now time.Time) int {
	sum := 0
	for _, n := range l.loans {
		if n.holder != "" && n.until.After(now) {
			sum++
		}
	}
	return sum
}

// answer decides one request.
func (l *lender) answer(r request, now time.Time) reply {
	view := l.history.current()
	if view == nil || !view.Majority {
		return l.later(l.cfg.RetryMin)
	}
	if !view.keeps(r.addr.String()) {
		l.counts.elsewhere++
		return reply{grant: wire.Grant_GRANT_ELSEWHERE}
	}
	n := l.loans[r.addr]
	if n == nil {
		n = &loan{}
	}
	n.settle(now)
	switch {
	case n.last == r.from && (r.boot < n.boot || r.boot == n.boot && r.id < n.id):
		l.counts.stale++
		return l.later(l.cfg.RetryMin)
	case n.holder == r.from:
		return l.answerHolder(n, r, now)
	case n.holder != "":
		return l.held(n.holder)
	case r.wish == wire.Wish_WISH_RELEASE:
		return reply{grant: wire.Grant_GRANT_GIVEN} // nothing to give back
	}
	if blind := l.history.blind(r.addr, now); blind > 0 {
		// What the predecessor lent is not known: only who holds the server can say so, and the first is believed.
		if r.wish != wire.Wish_WISH_RENEW {
			return l.later(blind)
		}
	} else if r.wish == wire.Wish_WISH_RENEW {
		// The lease has run out, or the message was long under way: nobody can hold it by a grant of this keeper.
		return l.later(l.cfg.RetryMin)
	}
	if n.successor != "" && n.successor != r.from {
		return l.held(n.successor)
	}
	if l.loans[r.addr] == nil {
		if len(l.loans) >= l.cfg.MaxServers {
			return l.later(l.cfg.RetryMax)
		}
		l.loans[r.addr] = n
	}
	n.holder, n.last, n.successor = r.from, r.from, ""
	n.boot, n.id = r.boot, r.id
	l.number++
	n.number = l.number
	if r.wish == wire.Wish_WISH_RENEW {
		n.report(r, now)
	}
	return l.give(n, now)
}

// answerHolder decides a request of the node that holds the server.
func (l *lender) answerHolder(n *loan, r request, now time.Time) reply {
	n.boot, n.id = r.boot, r.id
	switch r.wish {
	case wire.Wish_WISH_RENEW:
		n.report(r, now)
		return l.give(n, now)
	case wire.Wish_WISH_ACQUIRE:
		// It did not hear the answer, or has restarted: it is the only one that could have the lease.
		return l.give(n, now)
	default:
		n.report(r, now)
		n.holder = ""
		if r.successor != "" && r.successor != r.from {
			n.successor, n.reserved = r.successor, now.Add(l.cfg.Lease)
		}
		l.counts.given++
		return reply{grant: wire.Grant_GRANT_GIVEN}
	}
}

// report takes over what the holder says of the server's quiet.
func (n *loan) report(r request, now time.Time) {
	n.quiet = now.Add(min(max(r.wait, 0), maxWait))
	n.level = r.level
}

func (l *lender) give(n *loan, now time.Time) reply {
	n.until = now.Add(l.cfg.Lease + l.cfg.Skew)
	l.counts.given++
	return reply{grant: wire.Grant_GRANT_GIVEN, number: n.number, until: l.cfg.Lease, holder: n.holder,
		wait: max(0, n.quiet.Sub(now)), level: n.level}
}

func (l *lender) held(holder string) reply {
	l.counts.refused++
	return reply{grant: wire.Grant_GRANT_HELD, holder: holder, retry: l.cfg.HeldRetry}
}

func (l *lender) later(retry time.Duration) reply {
	l.counts.later++
	return reply{grant: wire.Grant_GRANT_LATER, retry: retry}
}
