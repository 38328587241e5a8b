package termination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

const (
	every   = 2 * time.Second
	confirm = every / 4
)

// crew is a set of nodes that look for the end of a crawl together.
type crew struct {
	t   *testing.T
	cfg Config
	wg  sync.WaitGroup
	ctx context.Context

	// mu guards the fields below.
	mu    sync.Mutex
	mates []*mate
	asked int                                    // messages
	lose  func(to string, end bool) bool         // whether a message does not arrive
	view  func(of string, v view.View) view.View // changes what a node sees
	// gossip lets members hear that others have found the end.
	gossip bool
}

// mate is one node. The lock of the crew guards its fields.
type mate struct {
	id     string
	rounds *Rounds
	state  State
	gone   bool // it has left, and all others know
	dead   bool // it does not answer
	over   time.Time
	why    string        // why it ended
	told   []string      // the reasons why the crawl has not ended
	frozen chan struct{} // closed when it runs again; nil while it runs
	deaf   bool          // it hears nothing of the members any more
}

// await waits while the node is frozen.
func (c *crew) await(m *mate) {
	c.mu.Lock()
	thaw := m.frozen
	c.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

func (c *crew) freeze(m *mate, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.frozen == nil {
		thaw := make(chan struct{})
		m.frozen = thaw
		c.wg.Go(func() {
			time.Sleep(d)
			c.set(func() { m.frozen = nil })
			close(thaw)
		})
	}
}

// withCrew runs a test in a bubble with n nodes, of which so many are expected.
func withCrew(t *testing.T, n, expected int, test func(t *testing.T, c *crew)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		c := &crew{t: t, cfg: Config{RoundEvery: every, ExpectedNodes: expected}, ctx: ctx}
		t.Cleanup(func() { stop(); c.wg.Wait() })
		for range n {
			c.join()
		}
		test(t, c)
	})
}

// idOf returns the id of the n-th node, from 1 on.
func idOf(n int) string { return fmt.Sprintf("%032x", n) }

// join adds an idle node.
func (c *crew) join() { c.joinAs(idOf(len(c.mates) + 1)) }

func (c *crew) joinAs(id string) {
	c.mu.Lock()
	m := &mate{id: id, state: State{Idle: true, Counters: 7}}
	c.mates = append(c.mates, m)
	m.rounds = New(c.cfg, Deps{
		View: func() view.View { return c.viewOf(m) }, State: func() State { return c.stateOf(m) },
		Arm:   func() {},
		Ended: func(why string) { c.set(func() { m.why = why }) },
		Waits: func(why string) { c.set(func() { m.told = append(m.told, why) }) },
		Ask: func(ctx context.Context, to string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
			return c.ask(ctx, m, to, req)
		}})
	c.mu.Unlock()
	c.wg.Go(func() {
		if !m.rounds.Run(c.ctx) {
			return
		}
		// A node that has ended leaves.
		c.set(func() { m.over = time.Now() })
		time.Sleep(every / 4)
		c.set(func() { m.gone = true })
	})
}

func (c *crew) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *crew) stateOf(m *mate) State {
	c.await(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.state
}

func (c *crew) viewOf(m *mate) view.View {
	c.await(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view.View{Self: m.id, Majority: true}
	for _, other := range c.mates {
		if !other.gone {
			v.Settled = append(v.Settled, other.id)
		}
		if c.gossip && !m.deaf && other != m && !other.over.IsZero() && time.Since(other.over) > time.Second {
			v.Over = append(v.Over, other.id)
		}
	}
	slices.Sort(v.Settled)
	v.Alive = slices.Clone(v.Settled)
	if m.deaf {
		v.Alive, v.Majority = []string{m.id}, false
	}
	if c.view != nil {
		v = c.view(m.id, v)
	}
	return v
}

var errGone = errors.New("no answer")

func (c *crew) ask(ctx context.Context, from *mate, to string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	c.mu.Lock()
	m := c.mates[slices.IndexFunc(c.mates, func(m *mate) bool { return m.id == to })]
	c.asked++
	lost := m.gone || m.dead || from.gone || from.dead || m.deaf || from.deaf || m.frozen != nil || c.lose != nil && c.lose(to, req.GetEnd())
	c.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	if lost {
		<-ctx.Done() // the caller waits in vain
		return nil, errGone
	}
	return m.rounds.Idle(ctx, from.id, req)
}

// which lists the nodes of which something is so.
func (c *crew) which(so func(m *mate) bool) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.mates {
		if so(m) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// ended lists the nodes that have found the end.
func (c *crew) ended() []string { return c.which(func(m *mate) bool { return !m.over.IsZero() }) }

// endsBy asserts that all living nodes find the end within a time.
func (c *crew) endsBy(within time.Duration) {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(every / 10) {
		left := c.which(func(m *mate) bool { return m.over.IsZero() && !m.dead && !m.gone })
		if len(left) == 0 {
			return
		}
		if time.Since(began) > within {
			c.t.Fatalf("after %v %v have not ended: %q", within, left, c.mates[0].rounds.Why())
		}
	}
}

// goesOn asserts that nobody finds the end for a time.
func (c *crew) goesOn(during time.Duration) {
	c.t.Helper()
	time.Sleep(during)
	if ids := c.ended(); len(ids) > 0 {
		c.t.Fatalf("%v have ended", ids)
	}
}

// idle sets whether nodes have nothing left to do.
func (c *crew) idle(idle bool, nodes ...int) {
	c.set(func() {
		for _, i := range nodes {
			c.mates[i].state.Idle = idle
		}
	})
}
