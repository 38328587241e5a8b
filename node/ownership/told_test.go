package ownership

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// ground is where an act takes place, at node 1 of a stage. The host a belongs to node 1, its home; its replica is at node 2. Nobody knows
// the host b, whose home is node 1. The host c belongs to node 2, its home; its replica is at node 1.
type ground struct {
	*stage
	*Ownership
	ctx     context.Context
	a, b, c string
}

// act is something that node 1 does. begin prepares it; it may be nil.
type act struct {
	begin func(g ground)
	do    func(g ground) error
}

func (g ground) step(host string) error { return g.Ownership.step(g.ctx, &item{host: host}) }

func (g ground) deliver(keep bool, links ...frontier.Link) error {
	req := &wire.DeliverRequest{Keep: keep}
	for _, l := range links {
		req.Links = append(req.Links, LinkToWire(l))
	}
	return second(g.Deliver(g.ctx, idOf(2), req))
}

func (g ground) store(r Record, chunk *wire.Chunk) error {
	req := &wire.StoreRequest{Items: []*wire.StoreItem{{Record: r.wire(), Chunk: chunk, Digest: &wire.Digest{}}}}
	return second(g.Store(g.ctx, idOf(2), req))
}

// Whoever calls a disk tells of its failure, whichever call fails. No record is in the cache.
func TestWhoTellsOfAFault(t *testing.T) {
	hides := map[string]string{"keep": "Get"} // the calls whose failure is made good, so that the caller need not hear of it
	chunk := &wire.Chunk{Pending: []*wire.Pending{{Path: path(9)}}}
	acts := map[string]act{
		"route":   {nil, func(g ground) error { return second(g.Route(g.ctx, []frontier.Link{link(g.b, 0), link(g.c, 9)})) }},
		"deliver": {nil, func(g ground) error { return g.deliver(false, link(g.a, 9), link(g.b, 9)) }},
		"keep":    {nil, func(g ground) error { return g.deliver(true, link(g.c, 9)) }},
		"moved":   {nil, func(g ground) error { return g.Moved(rec(g.c, 2, 3).wire()) }},
		"unlearn": {nil, func(g ground) error { return g.Moved(&wire.Record{Host: g.b, Home: idOf(2)}) }},
		"store":   {nil, func(g ground) error { return g.store(rec(g.a, 1, 1), chunk) }},
		"compare": {nil, func(g ground) error { return g.store(rec(g.a, 1, 1), nil) }},
		"load":    {nil, func(g ground) error { return second(g.Load(g.ctx, idOf(2), &wire.LoadRequest{Host: g.a})) }},
		"commit": {nil, func(g ground) error {
			d := g.deps.Frontier.(*disk)
			d.mu.Lock()
			digest := digestToWire(d.digest(g.c))
			d.mu.Unlock()
			return second(g.Commit(g.ctx, idOf(2), &wire.CommitRequest{Record: rec(g.c, 2, 1).wire(), Digest: digest}))
		}},
		"claim": {nil, func(g ground) error {
			v := g.view()
			req := &wire.ClaimRequest{Records: []*wire.Record{rec(g.b, 1, 2).wire()}, First: true, Last: true, Members: v.Digest()}
			return second(g.Claim(g.ctx, idOf(2), req))
		}},
		"claim of what another owns": {nil, func(g ground) error {
			return second(g.Claim(g.ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{rec(g.a, 2, 2).wire()}}))
		}},
		"hand off":            {nil, func(g ground) error { return g.node(1).handOff(g.a, 3) }},
		"assign":              {nil, func(g ground) error { return g.node(1).handOff(g.a, 1) }},
		"hand to the replica": {func(g ground) { g.node(1).spoil(g.a, 1) }, func(g ground) error { return g.node(1).handOff(g.a, 2) }},
		"move":                {nil, func(g ground) error { return g.Move(g.ctx, g.a, idOf(3)) }},
		"obey":                {nil, func(g ground) error { return g.obey(rec(g.a, 2, 2)) }},
		"forget":              {nil, func(g ground) error { return g.Ownership.forget(g.a, idOf(1)) }},
		"check":               {nil, func(g ground) error { return g.checkHosts(g.deps.Frontier.Active) }},
		"check what is new": {nil, func(g ground) error {
			d := g.deps.Frontier.(*disk)
			d.mu.Lock()
			clear(d.asked)
			d.mu.Unlock()
			over, cancel := context.WithCancel(g.ctx) // it ends when nothing is new any more
			cancel()
			if err := g.runUnchecked(over); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}},
		"claim all": {nil, func(g ground) error { return second(g.claimAll(g.ctx, idOf(2))) }},
		"sweep":     {nil, func(g ground) error { return g.sweepAll(g.ctx, true) }},
		"recover":   {nil, func(g ground) error { return g.recover(g.ctx) }},
		"pull":      {nil, func(g ground) error { return g.pull(g.ctx, idOf(2), rec(g.a, 1, 1)) }},
		"hand off what another owns": {func(g ground) {
			g.watch(func(l letter) {
				if res, ok := l.res.(*wire.CommitResponse); ok {
					res.Step, res.Newer = wire.Step_STEP_REFUSED, rec(g.a, 5, 2).wire()
				}
			})
		}, func(g ground) error {
			if err := g.node(1).handOff(g.a, 3); !errors.Is(err, errRefused) {
				return err
			}
			return nil
		}},
		"drain": {nil, func(g ground) (last error) {
			err := g.Drain(g.ctx, func(_ int64, trouble error) { last = errors.Join(last, trouble) })
			return errors.Join(err, last)
		}},
		"look at an owned host": {func(g ground) { g.node(1).spoil(g.a, 1); g.node(2).spoil(g.a, 2) }, func(g ground) error { return g.step(g.a) }},
		"settle": {func(g ground) {
			g.node(1).put(rec(g.c, 2, 1))
			g.node(1).role(g.c, frontier.Leaving)
		}, func(g ground) error { return g.step(g.c) }},
		"give away": {func(g ground) { g.hand(g.c, 2, 3); time.Sleep(5 * time.Second) }, func(g ground) error { return g.step(g.c) }},
		"stop": {func(g ground) {
			g.node(1).put(rec(g.a, 2, 2))
			g.node(2).put(rec(g.a, 2, 2))
		}, func(g ground) error { return g.step(g.a) }},
		"take over": {func(g ground) {
			g.node(1).put(rec(g.a, 2, 3))
			g.node(1).role(g.a, frontier.Replica)
			g.node(1).with(func() { g.missing[g.a] = listsMissed })
		}, func(g ground) error { return g.step(g.a) }},
		"stream": {func(g ground) {
			g.stream.take(map[string]*frontier.Change{g.a: {State: true, Added: []frontier.PendingURL{{Path: path(9)}}}}, time.Now())
		}, func(g ground) error { return second(g.parcels(g.ctx, g.stream.next(), nil)) }},
		"claim what is another's": {func(g ground) { g.node(2).put(rec(g.c, 5, 3)) }, func(g ground) error {
			return second(g.claim(g.ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{rec(g.c, 2, 1).wire()}}))
		}},
		"claim what is contested": {func(g ground) {
			g.watch(func(l letter) {
				if res, ok := l.res.(*wire.ClaimResponse); ok {
					res.Contested = []string{g.c}
				}
			})
		}, func(g ground) error { return second(g.claim(g.ctx, idOf(2), &wire.ClaimRequest{})) }},
		"compare with a newer record": {func(g ground) { g.node(2).put(rec(g.c, 5, 3)) }, func(g ground) error {
			return second(g.compareWith(g.ctx, idOf(2), rec(g.c, 1, 2)))
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(acts)) {
		hidden := map[string]bool{}
		var failed bool
		made := tellOf(t, acts[name], &fault{}, &failed)
		if failed {
			t.Errorf("%s fails by itself", name)
		}
		for _, call := range slices.Sorted(maps.Keys(made)) {
			for n := range made[call] {
				var told bool
				f := &fault{call: call, n: n + 1}
				tellOf(t, acts[name], f, &told)
				if f.met && !told {
					hidden[call] = true
				}
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(hidden)), " "); got != hides[name] || len(made) == 0 {
			t.Errorf("%s calls %v and hides the failure of %q, want %q", name, made, got, hides[name])
		}
	}
}

// tellOf does an act while a call to the disk of node 1 fails. It returns how often the act called each method.
func tellOf(t *testing.T, a act, f *fault, told *bool) (made map[string]int) {
	made = map[string]int{}
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own := s.node(1).own
		g := ground{s, own, s.t.Context(), s.found(3, 1, 2, 3), s.hostOf(1, 3, 2), s.found(3, 2, 1, 3)}
		if a.begin != nil {
			a.begin(g)
		}
		s.node(1).halt() // nothing else shall call the disk
		f.before = func(call string) {
			own.records.mu.Lock()
			own.records.cache.Purge()
			own.records.mu.Unlock()
			made[call]++
		}
		f.before("")
		clear(made)
		s.node(1).fail(f)
		e := a.do(g)
		s.node(1).fail(nil)
		*told = e != nil
	})
	return made
}

// second returns the error of two results.
func second[T any](_ T, err error) error { return err }
