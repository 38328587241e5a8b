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
	ctx     context.Context
	own     *Ownership
	a, b, c string
}

// act is something that node 1 does. begin prepares it.
type act struct {
	begin func(g ground)
	do    func(g ground) error
	// hidden are the calls whose failure is made good, so that the caller need not hear of it.
	hidden string
}

// Whoever calls a disk tells of its failure, whichever call fails. No record is in the cache.
func TestWhoTellsOfAFault(t *testing.T) {
	of := func(host string, epoch uint64, owner int) Record {
		return Record{Host: host, Epoch: epoch, Owner: idOf(owner)}
	}
	chunk := &wire.Chunk{Pending: []*wire.Pending{{Path: path(9)}}}
	acts := map[string]act{
		"route": {do: func(g ground) error { return second(g.own.Route(g.ctx, []frontier.Link{link(g.b, 0), link(g.c, 9)})) }},
		"deliver": {do: func(g ground) error {
			return second(g.own.Deliver(g.ctx, idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(g.a, 9)), LinkToWire(link(g.b, 9))}}))
		}},
		"keep": {do: func(g ground) error {
			return second(g.own.Deliver(g.ctx, idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(g.c, 9))}, Keep: true}))
		}, hidden: "Get"},
		"moved":   {do: func(g ground) error { return g.own.Moved(of(g.c, 2, 3).wire()) }},
		"unlearn": {do: func(g ground) error { return g.own.Moved(&wire.Record{Host: g.b, Home: idOf(2)}) }},
		"store": {do: func(g ground) error {
			return second(g.own.Store(g.ctx, idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: of(g.a, 1, 1).wire(), Chunk: chunk, Digest: &wire.Digest{}}}}))
		}},
		"compare": {do: func(g ground) error {
			return second(g.own.Store(g.ctx, idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: of(g.a, 1, 1).wire(), Digest: &wire.Digest{}}}}))
		}},
		"load": {do: func(g ground) error { return second(g.own.Load(g.ctx, idOf(2), &wire.LoadRequest{Host: g.a})) }},
		"commit": {do: func(g ground) error {
			g.own.deps.Frontier.(*disk).mu.Lock()
			d := g.own.deps.Frontier.(*disk).digest(g.c)
			g.own.deps.Frontier.(*disk).mu.Unlock()
			return second(g.own.Commit(g.ctx, idOf(2), &wire.CommitRequest{Record: of(g.c, 2, 1).wire(), Digest: digestToWire(d)}))
		}},
		"claim": {do: func(g ground) error {
			v := g.own.view()
			return second(g.own.Claim(g.ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(g.b, 1, 2).wire()}, First: true, Last: true, Members: v.Digest()}))
		}},
		"claim of what another owns": {do: func(g ground) error {
			return second(g.own.Claim(g.ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(g.a, 2, 2).wire()}}))
		}},
		"hand off":  {do: func(g ground) error { return g.own.HandOff(g.ctx, g.a, idOf(3), true, "test") }},
		"assign":    {do: func(g ground) error { return g.own.HandOff(g.ctx, g.a, idOf(1), true, "test") }},
		"move":      {do: func(g ground) error { return g.own.Move(g.ctx, g.a, idOf(3)) }},
		"obey":      {do: func(g ground) error { return g.own.obey(of(g.a, 2, 2)) }},
		"forget":    {do: func(g ground) error { return g.own.forget(g.a, idOf(1)) }},
		"check":     {do: func(g ground) error { return g.own.checkHosts(g.own.deps.Frontier.Active) }},
		"claim all": {do: func(g ground) error { return second(g.own.claimAll(g.ctx, idOf(2))) }},
		"sweep":     {do: func(g ground) error { return g.own.sweepAll(g.ctx, true) }},
		"recover":   {do: func(g ground) error { return g.own.recover(g.ctx) }},
		"pull":      {do: func(g ground) error { return g.own.pull(g.ctx, idOf(2), of(g.a, 1, 1)) }},
		"hand to the replica": {begin: func(g ground) { g.node(1).spoil(g.a, 1) },
			do: func(g ground) error { return g.own.HandOff(g.ctx, g.a, idOf(2), true, "test") }},
		"hand off what another owns": {begin: func(g ground) {
			g.watch(func(l letter) {
				if res, ok := l.res.(*wire.CommitResponse); ok {
					res.Step, res.Newer = wire.Step_STEP_REFUSED, of(g.a, 5, 2).wire()
				}
			})
		}, do: func(g ground) error {
			err := g.own.HandOff(g.ctx, g.a, idOf(3), true, "test")
			if errors.Is(err, errRefused) {
				return nil
			}
			return err
		}},
		"drain": {do: func(g ground) (last error) {
			err := g.own.Drain(g.ctx, func(_ int64, trouble error) { last = errors.Join(last, trouble) })
			return errors.Join(err, last)
		}},
		"look at an owned host": {begin: func(g ground) { g.node(1).spoil(g.a, 1); g.node(2).spoil(g.a, 2) },
			do: func(g ground) error { return g.own.step(g.ctx, &item{host: g.a}) }},
		"settle": {begin: func(g ground) {
			g.node(1).put(of(g.c, 2, 1))
			g.node(1).role(g.c, frontier.Leaving)
		}, do: func(g ground) error { return g.own.step(g.ctx, &item{host: g.c}) }},
		"give away": {begin: func(g ground) {
			g.hand(g.c, 2, 3)
			time.Sleep(5 * time.Second)
		}, do: func(g ground) error { return g.own.step(g.ctx, &item{host: g.c}) }},
		"stop": {begin: func(g ground) { g.node(1).put(of(g.a, 2, 2)); g.node(2).put(of(g.a, 2, 2)) },
			do: func(g ground) error { return g.own.step(g.ctx, &item{host: g.a}) }},
		"take over": {begin: func(g ground) {
			g.node(1).put(of(g.a, 2, 3))
			g.node(1).role(g.a, frontier.Replica)
			g.own.mu.Lock()
			g.own.missing[g.a] = listsMissed
			g.own.mu.Unlock()
		}, do: func(g ground) error { return g.own.step(g.ctx, &item{host: g.a}) }},
		"stream": {begin: func(g ground) {
			g.own.stream.take(map[string]*frontier.Change{g.a: {State: true, Added: []frontier.PendingURL{{Path: path(9)}}}}, time.Now())
		}, do: func(g ground) error { return second(g.own.parcels(g.ctx, g.own.stream.next(), nil)) }},
		"claim what is another's": {begin: func(g ground) { g.node(2).put(of(g.c, 5, 3)) },
			do: func(g ground) error {
				return second(g.own.claim(g.ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(g.c, 2, 1).wire()}}))
			}},
		"claim what is contested": {begin: func(g ground) {
			g.watch(func(l letter) {
				if res, ok := l.res.(*wire.ClaimResponse); ok {
					res.Contested = []string{g.c}
				}
			})
		}, do: func(g ground) error { return second(g.own.claim(g.ctx, idOf(2), &wire.ClaimRequest{})) }},
		"compare with a newer record": {begin: func(g ground) { g.node(2).put(of(g.c, 5, 3)) },
			do: func(g ground) error { return second(g.own.compareWith(g.ctx, idOf(2), of(g.c, 1, 2), true)) }},
	}
	for _, name := range slices.Sorted(maps.Keys(acts)) {
		hides := map[string]bool{}
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
					hides[call] = true
				}
			}
		}
		if hidden := strings.Join(slices.Sorted(maps.Keys(hides)), " "); hidden != acts[name].hidden || len(made) == 0 {
			t.Errorf("%s calls %v and hides the failure of %q, want %q", name, made, hidden, acts[name].hidden)
		}
	}
}

// tellOf does an act while a call to the disk of node 1 fails. It returns how often the act called each method.
func tellOf(t *testing.T, a act, f *fault, told *bool) (made map[string]int) {
	made = map[string]int{}
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own := s.node(1).own
		g := ground{s, s.t.Context(), own, s.found(3, 1, 2, 3), s.hostOf(1, 3, 2), s.found(3, 2, 1, 3)}
		if a.begin != nil {
			a.begin(g)
		}
		s.node(1).stop() // nothing else shall call the disk
		<-s.node(1).over
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

// role gives a host a role on a node's disk.
func (p *player) role(host string, r frontier.Role) {
	p.t.Helper()
	if err := p.front.SetRole(p.t.Context(), host, r); err != nil {
		p.t.Fatal(err)
	}
}

// second returns the error of two results.
func second[T any](_ T, err error) error { return err }
