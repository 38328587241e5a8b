// Package idle ends a finite crawl everywhere at once. It owns the rounds of questions by which the settled node with
// the lowest id finds out that nobody has anything left to do. It does not know what idle means: its node says so.
package idle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"proxima/node/wire"
)

// Config are the times of the rounds.
type Config struct {
	// RoundEvery is the time between two rounds of questions. Shorter: the crawl ends sooner after its last page; each
	// round costs one small message a node.
	RoundEvery time.Duration `toml:"round_every"`
	// ExpectedNodes is how many nodes must have been seen before the crawl may end: the nodes that are started together.
	ExpectedNodes int `toml:"expected_nodes"`
}

// Default are the values of the design.
func Default() Config { return Config{RoundEvery: 2 * time.Second, ExpectedNodes: 1} }

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.RoundEvery < 100*time.Millisecond {
		errs = append(errs, errors.New("round_every: must be at least 100ms"))
	}
	if c.ExpectedNodes < 1 {
		errs = append(errs, errors.New("expected_nodes: must be at least 1"))
	}
	return errors.Join(errs...)
}

// View is who is there: the settled members and those that answer, both sorted, and whether this side is the larger one.
type View struct {
	Self     string
	Settled  []string
	Alive    []string
	Majority bool
}

// all are the members whose word counts: one that has just come back is not settled, and may have much to do.
func (v View) all() []string {
	ids := append(slices.Clone(v.Settled), v.Alive...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// State is how this node stands.
type State struct {
	Idle bool
	// Why it is not idle, in words.
	Why string
	// Seeded says that all seeds of this node are acknowledged.
	Seeded bool
	// Counters changes with everything that the node accepts, sends or finishes.
	Counters uint64
}

// Deps are what the rounds need.
type Deps struct {
	View  func() View
	State func() State
	Ask   func(ctx context.Context, to string, req *wire.IdleRequest) (*wire.IdleResponse, error)
	// Armed says that the expected nodes were there in an earlier life of this node, and Arm is told when they are: a node
	// that comes back may find the others gone.
	Armed bool
	Arm   func()
}

// Rounds finds the end of a crawl. Safe for concurrent use.
type Rounds struct {
	cfg  Config
	deps Deps

	// mu guards what follows.
	mu    sync.Mutex
	armed bool
	why   string
	over  chan struct{}
	once  sync.Once
}

// New makes the rounds of one node.
func New(cfg Config, deps Deps) *Rounds {
	return &Rounds{cfg: cfg, deps: deps, armed: deps.Armed, over: make(chan struct{})}
}

// Over is closed when the crawl has ended everywhere.
func (r *Rounds) Over() <-chan struct{} { return r.over }

// Why says what keeps the crawl from ending, as this node knows it.
func (r *Rounds) Why() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// Run asks in rounds while this node is the one to ask, until the crawl or the context ends.
func (r *Rounds) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.RoundEvery)
	defer tick.Stop()
	var last map[string]answer
	for round := uint64(1); ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-r.over:
			return nil
		case <-tick.C:
		}
		v := r.deps.View()
		r.arm(v, r.deps.State()) // whoever would ask may be dead just while all are there
		if len(v.Settled) == 0 || v.Settled[0] != v.Self || !v.Majority {
			last = nil
			continue
		}
		answers, why := r.ask(ctx, v, round)
		r.note(why)
		if why == "" && same(last, answers) {
			r.end(ctx, v, round)
			return nil
		}
		if last = answers; why != "" {
			last = nil
		}
	}
}

// arm notes that all are there, and says whether they were. Once is enough: nodes that have finished leave. Only the
// settled count: who has just come may be anybody.
func (r *Rounds) arm(v View, s State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed && s.Seeded && len(v.Settled) >= r.cfg.ExpectedNodes {
		r.armed = true
		if r.deps.Arm != nil {
			r.deps.Arm()
		}
	}
	return r.armed
}

// answer is what one node said in a round.
type answer struct {
	counters, members uint64
}

func same(a, b map[string]answer) bool {
	if a == nil || len(a) != len(b) {
		return false
	}
	for id, x := range a {
		if y, ok := b[id]; !ok || x != y {
			return false
		}
	}
	return true
}

// ask puts the question to all members. why is empty if all are idle.
func (r *Rounds) ask(ctx context.Context, v View, round uint64) (answers map[string]answer, why string) {
	var mu sync.Mutex
	all := v.all()
	answers = make(map[string]answer, len(all))
	var g errgroup.Group
	g.SetLimit(64)
	mine := digest(v.Settled)
	for _, id := range all {
		g.Go(func() error {
			res, err := r.one(ctx, v, id, &wire.IdleRequest{Round: round})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && !slices.Contains(v.Settled, id):
				// It gossips and does not speak the peer protocol: nobody waits for it.
				return nil
			case err != nil:
				why = fmt.Sprintf("%s does not answer", id)
			case !res.GetIdle():
				why = id + ": " + res.GetWhy()
			case !res.GetArmed():
				why = id + ": " + res.GetWhy()
			case res.GetMembers() != mine:
				why = id + " sees other members"
			}
			answers[id] = answer{res.GetCounters(), res.GetMembers()}
			return nil
		})
	}
	_ = g.Wait()
	return answers, why
}

func (r *Rounds) one(ctx context.Context, v View, id string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	if id == v.Self {
		return r.Idle(ctx, id, req)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*r.cfg.RoundEvery)
	defer cancel()
	return r.deps.Ask(ctx, id, req)
}

// end tells everybody. Who does not hear it finds out in rounds of its own, when the others have left.
func (r *Rounds) end(ctx context.Context, v View, round uint64) {
	var g errgroup.Group
	g.SetLimit(64)
	for _, id := range v.all() {
		if id != v.Self {
			g.Go(func() error {
				_, _ = r.one(ctx, v, id, &wire.IdleRequest{Round: round, End: true})
				return nil
			})
		}
	}
	_ = g.Wait()
	r.finish()
}

func (r *Rounds) finish() { r.once.Do(func() { close(r.over) }) }

func (r *Rounds) note(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
}

// Idle answers a question, or takes note of the end. Only the settled node with the lowest id is believed.
func (r *Rounds) Idle(_ context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	v, s := r.deps.View(), r.deps.State()
	armed := r.arm(v, s)
	if req.GetEnd() && armed && s.Idle && len(v.Settled) > 0 && v.Settled[0] == from {
		r.finish()
	}
	res := &wire.IdleResponse{Idle: s.Idle, Why: s.Why, Armed: armed, Counters: s.Counters, Members: digest(v.Settled)}
	if s.Idle && !armed {
		res.Why = fmt.Sprintf("%d of %d nodes expected are there", len(v.Settled), r.cfg.ExpectedNodes)
		if !s.Seeded {
			res.Why = "its seeds are not acknowledged"
		}
	}
	return res, nil
}

// digest sums up a list of ids.
func digest(ids []string) uint64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var d xxhash.Digest
	d.Reset()
	for _, id := range ids {
		_, _ = d.WriteString(id)
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}
