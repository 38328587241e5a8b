package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"proxima/node/wire"
)

// inside tells in a few words what a node remembers in addition to its records and its disk: as a home, as an owner, in its queue and its
// stream, and its counts.
func (g *scene) inside(p *player) string {
	o, now := p.own, time.Now()
	ago := func(t time.Time) string {
		d := now.Sub(t)
		if d > time.Minute {
			return d.Truncate(10 * time.Second).String()
		}
		return d.Truncate(time.Second).String()
	}
	var out, counted []string
	say := func(what string, parts []string) {
		if len(parts) > 0 {
			out = append(out, what+" "+strings.Join(parts, " "))
		}
	}
	o.stream.mu.Lock()
	waits := g.waiting(o.stream, ago)
	o.stream.mu.Unlock()
	o.queue.mu.Lock()
	queued := each(g.names, o.queue.items, func(it *item) string {
		words := fmt.Sprintf("in %v", max(0, it.after.Sub(now)).Truncate(time.Second))
		if it.tries > 0 {
			words += fmt.Sprintf(" after %d tries", it.tries)
		}
		if it.urgent {
			words += ", urgent"
		}
		return words
	})
	o.queue.mu.Unlock()
	if o.Busy() {
		out = append(out, "busy")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	say("heard", each(nil, o.heard, ago))
	say("told by", each(nil, o.told, nil))
	say("left:", each(nil, o.left, nil))
	say("lists of", each(nil, o.lists, func(l map[uint64]struct{}) string { return fmt.Sprint(len(l)) }))
	say("contested", each(g.names, o.contested, func(t time.Time) string { return "for " + t.Sub(now).Truncate(time.Second).String() }))
	say("recent", each(g.names, o.recent, ago))
	say("missing", each(g.names, o.missing, func(n int) string { return fmt.Sprintf("%dx", n) }))
	say("agreed:", each(nil, o.answered, func(at []time.Time) string { return ago(at[len(at)-1]) }))
	say("unconfirmed", each(g.names, o.unconfirmed, func(c claimed) string { return fmt.Sprintf("epoch %d, given %t", c.record.Epoch, c.handed) }))
	say("must hear:", each(nil, o.due, nil))
	say("silent", each(nil, o.silent, func(q *silence) string { return ago(q.since) }))
	say("untold", each(g.names, o.untold, func(epoch uint64) string { return fmt.Sprint(epoch) }))
	say("to be compared:", each(nil, o.compare, nil))
	if o.compare == nil {
		out = append(out, "all are to be compared")
	}
	say("awaited", each(g.names, o.awaited, ago))
	say("leaving", each(g.names, o.proposals, func(p proposal) string {
		return fmt.Sprintf("to %d", numberOf(p.next.Owner)) + mark(p.tries > 0, fmt.Sprintf(", %d tries", p.tries))
	}))
	say("wished", each(g.names, o.wishes, func(w wish) string { return fmt.Sprintf("to %d", numberOf(w.to)) }))
	say("rumours", each(g.names, o.rumours, func(r Record) string { return fmt.Sprintf("of %d, epoch %d", numberOf(r.Owner), r.Epoch) }))
	say("owns at", each(nil, o.tallies.byHome, func(t tally) string { return fmt.Sprint(t.count) }))
	say("home for", each(nil, o.tallies.byOwner, func(t tally) string { return fmt.Sprint(t.count) }))
	say("queue:", queued)
	say("stream:", waits)
	for what, n := range map[string]uint64{"handed off": o.counts.HandedOff, "received": o.counts.Received, "taken": o.counts.Taken,
		"obeyed": o.counts.Obeyed, "links routed": o.counts.LinksRouted, "delivered": o.counts.LinksDelivered} {
		if n > 0 {
			counted = append(counted, fmt.Sprint(n, " ", what))
		}
	}
	slices.Sort(counted)
	say("counted", counted)
	return strings.Join(out, "; ")
}

// waiting tells what waits in a stream. The caller holds its lock.
func (g *scene) waiting(s *stream, ago func(time.Time) string) (parts []string) {
	if !s.cleared {
		parts = append(parts, "(of an earlier life)")
	}
	if s.bytes > 0 || s.waiters > 0 || s.eager > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes, %d waiters for %d links", s.bytes, s.waiters, s.eager))
	}
	return append(parts, each(g.names, s.hosts, func(w *waiting) string {
		var words []string
		if c := w.change; c != nil {
			words = append(words, fmt.Sprintf("%d found, %d done, lost %t", len(c.Added), len(c.Done), c.Lost))
		}
		for what, at := range map[string]time.Time{"found": w.found, "sent": w.sent} {
			if !at.IsZero() {
				words = append(words, what+" "+ago(at))
			}
		}
		slices.Sort(words)
		if w.held > 0 {
			words = append(words, fmt.Sprintf("%d held", w.held))
		}
		return strings.Join(words, ", ")
	})...)
}

// each returns a word for every entry of a map. Keys are hosts with short names, or nodes if names is nil.
func each[V any](names map[string]string, m map[string]V, of func(V) string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		word := fmt.Sprint(numberOf(key))
		if names != nil {
			word = names[key]
		}
		if of != nil {
			word += " (" + of(m[key]) + ")"
		}
		out = append(out, word)
	}
	return out
}

// spoken returns lines for a message and its answer, one for each item.
func (g *scene) spoken(req, answer any) (words []string) {
	switch req := req.(type) {
	case *wire.RenewRequest:
		words = append(words, fmt.Sprintf("renew %d hosts%s -> %s", req.GetCount(), mark(req.GetTell(), ", tell"),
			yes(answer.(*wire.RenewResponse).GetAgreed(), "agreed", "not agreed")))
	case *wire.ClaimRequest:
		words = g.claims(req, answer.(*wire.ClaimResponse))
	case *wire.StoreRequest:
		for i, item := range req.GetItems() {
			words = append(words, g.stored(item, answer.(*wire.StoreResponse).GetAnswers()[i]))
		}
	case *wire.LoadRequest:
		words = append(words, fmt.Sprintf("load %s -> %s", g.names[req.GetHost()], chunk(answer.(*wire.LoadResponse).GetChunk())))
	case *wire.CommitRequest:
		res := answer.(*wire.CommitResponse)
		words = append(words, fmt.Sprintf("commit %s -> %s%s", g.record(req.GetRecord()), word(res.GetStep()), g.newer(res.GetNewer())))
	case *wire.DeliverRequest:
		for i, link := range req.GetLinks() {
			for host, name := range g.names {
				if path, ok := strings.CutPrefix(link.GetUrl(), host); ok {
					words = append(words, yes(req.GetKeep(), "keep", "deliver")+" "+name+" "+path+" -> "+g.delivered(answer.(*wire.DeliverResponse).GetAnswers()[i]))
				}
			}
		}
	}
	return words
}

func (g *scene) claims(req *wire.ClaimRequest, res *wire.ClaimResponse) (words []string) {
	list := mark(req.GetFirst(), ", first") + mark(req.GetLast(), ", last")
	if len(req.GetRecords()) == 0 {
		words = append(words, "claim nothing"+list)
	}
	for i, r := range req.GetRecords() {
		answer := "yes"
		for _, newer := range res.GetNewer() {
			if newer.GetHost() == r.GetHost() {
				answer = "no: " + g.record(newer)
			}
		}
		if slices.Contains(res.GetLater(), r.GetHost()) {
			answer = "later"
		}
		if slices.Contains(res.GetContested(), r.GetHost()) {
			answer = "contested"
		}
		words = append(words, fmt.Sprintf("claim %s%s%s -> %s", g.record(r), mark(i < len(req.GetHanded()) && req.GetHanded()[i], ", given"), list, answer))
	}
	return words
}

func (g *scene) stored(item *wire.StoreItem, a *wire.StoreAnswer) string {
	what, answer := "compare "+g.record(item.GetRecord()), word(a.GetStep())
	switch c := item.GetChunk(); {
	case c != nil:
		what = fmt.Sprintf("store %s: %s%s", g.record(item.GetRecord()), chunk(c), mark(item.GetDigest() == nil, ", no digest"))
	case item.GetDigest() == nil:
		what = "witness " + g.record(item.GetRecord())
	case a.GetStep() == wire.Step_STEP_STORED:
		answer = "the same"
	}
	return what + " -> " + answer + mark(a.GetKeeps(), ", keeps") + g.newer(a.GetNewer())
}

func (g *scene) delivered(a *wire.Delivered) string {
	words := word(a.GetVerdict()) + mark(a.GetReason() != "", ": "+a.GetReason())
	if r := a.GetRecord(); r != nil {
		words += fmt.Sprintf(" to %d, epoch %d, says %d", numberOf(r.GetOwner()), r.GetEpoch(), numberOf(r.GetHome()))
	}
	return words
}

func (g *scene) newer(r *wire.Record) string {
	if r == nil {
		return ""
	}
	return ", newer: " + g.record(r)
}

// mark returns words if so is set.
func mark(so bool, words string) string { return yes(so, words, "") }

func yes(so bool, words, otherwise string) string {
	if so {
		return words
	}
	return otherwise
}
