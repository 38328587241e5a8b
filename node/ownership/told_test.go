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

// act is something that node 1 of a stage does. begin prepares it. The host a belongs to node 1, its home; its replica is at node 2. Nobody
// knows the host b, whose home is node 1. The host c belongs to node 2, its home; its replica is at node 1.
type act struct {
	begin func(s *stage, own *Ownership, a, b, c string)
	do    func(ctx context.Context, own *Ownership, a, b, c string) error
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
		"route": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Route(ctx, []frontier.Link{link(b, 0), link(c, 9)}))
		}},
		"deliver": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Deliver(ctx, idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(a, 9)), LinkToWire(link(b, 9))}}))
		}},
		"keep": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Deliver(ctx, idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(c, 9))}, Keep: true}))
		}, hidden: "Get"},
		"moved": {do: func(_ context.Context, own *Ownership, a, b, c string) error { return own.Moved(of(c, 2, 3).wire()) }},
		"unlearn": {do: func(_ context.Context, own *Ownership, a, b, c string) error {
			return own.Moved(&wire.Record{Host: b, Home: idOf(2)})
		}},
		"store": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Store(ctx, idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: of(a, 1, 1).wire(), Chunk: chunk, Digest: &wire.Digest{}}}}))
		}},
		"compare": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Store(ctx, idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: of(a, 1, 1).wire(), Digest: &wire.Digest{}}}}))
		}},
		"load": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Load(ctx, idOf(2), &wire.LoadRequest{Host: a}))
		}},
		"commit": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			own.deps.Frontier.(*disk).mu.Lock()
			d := own.deps.Frontier.(*disk).digest(c)
			own.deps.Frontier.(*disk).mu.Unlock()
			return second(own.Commit(ctx, idOf(2), &wire.CommitRequest{Record: of(c, 2, 1).wire(), Digest: digestToWire(d)}))
		}},
		"claim": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			v := own.view()
			return second(own.Claim(ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(b, 1, 2).wire()}, First: true, Last: true, Members: v.Digest()}))
		}},
		"claim of what another owns": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.Claim(ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(a, 2, 2).wire()}}))
		}},
		"hand off": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return own.HandOff(ctx, a, idOf(3), true, "test")
		}},
		"assign": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return own.HandOff(ctx, a, idOf(1), true, "test")
		}},
		"move":   {do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.Move(ctx, a, idOf(3)) }},
		"obey":   {do: func(_ context.Context, own *Ownership, a, b, c string) error { return own.obey(of(a, 2, 2)) }},
		"forget": {do: func(_ context.Context, own *Ownership, a, b, c string) error { return own.forget(a, idOf(1)) }},
		"check": {do: func(_ context.Context, own *Ownership, a, b, c string) error {
			return own.checkHosts(own.deps.Frontier.Active)
		}},
		"claim all": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.claimAll(ctx, idOf(2)))
		}},
		"sweep":   {do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.sweepAll(ctx, true) }},
		"recover": {do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.recover(ctx) }},
		"pull": {do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return own.pull(ctx, idOf(2), of(a, 1, 1))
		}},
		"hand to the replica": {begin: func(s *stage, own *Ownership, a, b, c string) { s.node(1).spoil(a, 1) },
			do: func(ctx context.Context, own *Ownership, a, b, c string) error {
				return own.HandOff(ctx, a, idOf(2), true, "test")
			}},
		"drain": {do: func(ctx context.Context, own *Ownership, a, b, c string) (last error) {
			err := own.Drain(ctx, func(_ int64, trouble error) { last = errors.Join(last, trouble) })
			return errors.Join(err, last)
		}},
		"look at an owned host": {begin: func(s *stage, own *Ownership, a, b, c string) { s.node(1).spoil(a, 1); s.node(2).spoil(a, 2) },
			do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.step(ctx, &item{host: a}) }},
		"settle": {begin: func(s *stage, own *Ownership, a, b, c string) {
			s.node(1).put(of(c, 2, 1))
			s.node(1).role(c, frontier.Leaving)
		}, do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.step(ctx, &item{host: c}) }},
		"give away": {begin: func(s *stage, own *Ownership, a, b, c string) {
			if err := s.node(2).own.HandOff(s.t.Context(), c, idOf(3), true, "test"); err != nil {
				s.t.Error(err)
			}
			time.Sleep(5 * time.Second)
		}, do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.step(ctx, &item{host: c}) }},
		"stop": {begin: func(s *stage, own *Ownership, a, b, c string) { s.node(1).put(of(a, 2, 2)); s.node(2).put(of(a, 2, 2)) },
			do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.step(ctx, &item{host: a}) }},
		"take over": {begin: func(s *stage, own *Ownership, a, b, c string) {
			s.node(1).put(of(a, 2, 3))
			s.node(1).role(a, frontier.Replica)
			own.mu.Lock()
			own.missing[a] = listsMissed
			own.mu.Unlock()
		}, do: func(ctx context.Context, own *Ownership, a, b, c string) error { return own.step(ctx, &item{host: a}) }},
		"stream": {begin: func(s *stage, own *Ownership, a, b, c string) {
			own.stream.take(map[string]*frontier.Change{a: {State: true, Added: []frontier.PendingURL{{Path: path(9)}}}}, time.Now())
		}, do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.parcels(ctx, own.stream.next(), nil))
		}},
		"claim what is another's": {begin: func(s *stage, own *Ownership, a, b, c string) { s.node(2).put(of(c, 5, 3)) },
			do: func(ctx context.Context, own *Ownership, a, b, c string) error {
				return second(own.claim(ctx, idOf(2), &wire.ClaimRequest{Records: []*wire.Record{of(c, 2, 1).wire()}}))
			}},
		"claim what is contested": {begin: func(s *stage, own *Ownership, a, b, c string) {
			s.watch(func(l letter) {
				if res, ok := l.res.(*wire.ClaimResponse); ok {
					res.Contested = []string{c}
				}
			})
		}, do: func(ctx context.Context, own *Ownership, a, b, c string) error {
			return second(own.claim(ctx, idOf(2), &wire.ClaimRequest{}))
		}},
		"compare with a newer record": {begin: func(s *stage, own *Ownership, a, b, c string) { s.node(2).put(of(c, 5, 3)) },
			do: func(ctx context.Context, own *Ownership, a, b, c string) error {
				return second(own.compareWith(ctx, idOf(2), of(c, 1, 2), true))
			}},
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
		hosts := []string{s.hostOf(1, 2, 3), s.hostOf(1, 3, 2), s.hostOf(2, 1, 3)}
		s.node(1).find(links(hosts[0], 0, 3)...)
		s.node(2).find(links(hosts[2], 0, 3)...)
		time.Sleep(3 * time.Second)
		own := s.node(1).own
		if a.begin != nil {
			a.begin(s, own, hosts[0], hosts[1], hosts[2])
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
		e := a.do(s.t.Context(), own, hosts[0], hosts[1], hosts[2])
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
