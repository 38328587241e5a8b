package lease

import (
	"fmt"
	"testing"
	"time"

	"proxima/node/wire"
)

// TestAnswers gives a holder each answer, or none, to each wish. It checks for how long the frontier may use the server ("-" if it hears
// nothing), when the next message is due, and what people are told. The answer comes two seconds after the question.
func TestAnswers(t *testing.T) {
	wishes := map[string]func(b *bench) item{
		"acquire": func(b *bench) item { b.look(true, 0); it, _ := b.sends(acquire); return it },
		"renew":   func(b *bench) item { b.obtain(); b.pass(40 * time.Second); it, _ := b.sends(renew); return it },
		"release": func(b *bench) item {
			b.withdraw(server(1), b.obtain(), b.now)
			b.look(false, 0)
			b.told()
			it, _ := b.sends(release)
			return it
		},
	}
	answers := map[string]*wire.LeaseAnswer{
		"given":         yes(),
		"given, over":   {Grant: given, ForMs: 2_000}, // when it arrives
		"given for 10s": {Grant: given, ForMs: 10_000},
		"given for 1h":  {Grant: given, ForMs: 3_600_000}, // no grantor can give more than a lease
		"held":          {Grant: held, Holder: "x"},
		"later, in 1ms": {Grant: later, RetryMs: 1},
		"later, in 20s": {Grant: later, RetryMs: 20_000},
		"later, in 1h":  {Grant: later, RetryMs: 3_600_000},
		"elsewhere":     {Grant: elsewhere},
		"unread":        {},
		"none":          nil,
	}
	const older, unreached = "grantor k waits until older leases have run out", "grantor k cannot be reached"
	for _, c := range []struct {
		wish, answer string
		told, next   string
		why          string
	}{
		{"acquire", "given", "58s", "26.5s", ""},
		{"acquire", "given, over", "-", "500ms", ""},
		{"acquire", "given for 10s", "8s", "26.5s", ""},
		{"acquire", "given for 1h", "58s", "26.5s", ""},
		{"acquire", "held", "-", "5s", "leased to x"},
		{"acquire", "later, in 1ms", "-", "750ms", older},
		{"acquire", "later, in 20s", "-", "20.25s", older},
		{"acquire", "later, in 1h", "-", "1m30.25s", older},
		{"acquire", "elsewhere", "-", "500ms", "node k does not see itself as the grantor"},
		{"acquire", "unread", "-", "500ms", "grantor k could not read the wish"},
		{"acquire", "none", "-", "500ms", unreached},
		{"renew", "given", "58s", "26.5s", ""},
		{"renew", "given, over", "-", "500ms", ""},
		{"renew", "given for 10s", "18s", "26.5s", ""}, // the grantor keeps earlier promises
		{"renew", "held", "0s", "5s", "leased to x"},
		{"renew", "later, in 1ms", "-", "750ms", older},
		{"renew", "later, in 20s", "-", "7.75s", older},
		{"renew", "elsewhere", "-", "500ms", "node k does not see itself as the grantor"},
		{"renew", "unread", "-", "500ms", "grantor k could not read the wish"},
		{"renew", "none", "-", "500ms", unreached},
		{"release", "given", "0s", "never", "given back"},
		{"release", "held", "0s", "never", "given back"},
		{"release", "none", "-", "500ms", unreached},
	} {
		b := newBench(t)
		it := wishes[c.wish](b)
		sent := b.now
		b.pass(2 * time.Second)
		if a := answers[c.answer]; a == nil {
			b.failed(it, "k", b.now)
		} else {
			b.answered(it, "k", a, at(sent), b.now)
		}
		told := "-"
		if d, ok := b.told(); ok {
			told = d.String()
		}
		next := "never"
		if l := b.all[server(1)]; l != nil {
			next = l.next.Sub(b.now).String()
		}
		if got := fmt.Sprint(told, " ", next, " ", it.lease.why); got != fmt.Sprint(c.told, " ", c.next, " ", c.why) {
			t.Errorf("%s, answered %s: told %s, next in %s, %q\nwant %s, %s, %q", c.wish, c.answer, told, next, it.lease.why, c.told, c.next, c.why)
		}
	}
}

// An answer about the server ends a series of failures. One that only says that the wrong node was asked does not.
func TestAnswersThatEndFailures(t *testing.T) {
	for answer, fails := range map[*wire.LeaseAnswer]int{yes(): 0, {Grant: held, Holder: "x"}: 0, {Grant: later, RetryMs: 1}: 0, {Grant: elsewhere}: 4, {}: 4} {
		b := newBench(t)
		b.look(true, 0)
		it, _ := b.sends(acquire)
		it.lease.fails = 3
		if b.answered(it, "k", answer, at(b.now), b.now); it.lease.fails != fails {
			t.Errorf("after %v there are %d failures, not %d", answer, it.lease.fails, fails)
		}
	}
}
