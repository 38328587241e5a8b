// Package termination ends a finite crawl everywhere at once. It owns the rounds of questions by which the settled node with
// the lowest id finds out that nobody has anything left to do. It does not know what idle means: its node says so.
//
//	        all expected nodes      all were idle in two rounds alike, or it
//	        have been there         is told so, or has missed it and is idle       all have been told
//	begun ────────────────► armed ──────────────────────────────────────────► ended ────────────────► over
package termination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/view"
	"proxima/node/wire"
)

// Config are the times of the rounds.
type Config struct {
	// RoundEvery is the time between two rounds of questions. Shorter: the crawl ends sooner after its last page; each
	// round costs a small message to who was busy in the last one, and one a node where it is not any more.
	RoundEvery time.Duration `toml:"-"`
	// ExpectedNodes is how many nodes must have joined before the crawl may end: the number of nodes that you start
	// together.
	ExpectedNodes int `toml:"expected_nodes"`
}

// Default are the values of the design.
func Default() Config { return Config{RoundEvery: 2 * time.Second, ExpectedNodes: 1} }

// Validate reports what cannot be.
func (c Config) Validate() error {
	if c.ExpectedNodes < 1 {
		return errors.New("expected_nodes: must be at least 1")
	}
	return nil
}

// all are the members whose word counts: one that has just come back is not settled, and may have much to do.
func all(v view.View) []string {
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
	View  func() view.View
	State func() State
	Ask   func(ctx context.Context, to string, req *wire.IdleRequest) (*wire.IdleResponse, error)
	// Waits, if set, is told what keeps the crawl from ending, as this node knows it, in words: each reason once, when it has
	// lasted for some rounds.
	Waits func(why string)
	// Ended is told once why this node ends, in words. nil is nobody.
	Ended func(why string)
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
	ended bool
	over  chan struct{}
	// answered are the counters at which this node said last that it is idle.
	answered *uint64
	// lonely is since when it has been idle with these counters, and nobody was there; zero is not.
	lonely time.Time
}

const (
	// tellFor is how long the end is told to those that do not acknowledge it.
	tellFor = 30 * time.Second
	// lonelyFor is how long a node that has nothing to do waits for others when it sees none of them any more, and is not
	// the majority. They have ended, most likely, and it missed that; if not, they go on without it, and lose nothing.
	lonelyFor = 5 * time.Minute
)

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
	var busy, why string
	var waits reason
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.over:
			return nil
		case <-tick.C:
		}
		v, s := r.deps.View(), r.deps.State()
		r.arm(v, s) // whoever would ask may be dead just while all are there
		if why := r.missed(v, s, time.Now()); why != "" {
			r.finish(why)
			return nil
		}
		if len(v.Settled) == 0 || v.Settled[0] != v.Self || !v.Majority {
			last = nil
			r.explain(&waits, s.Why)
			continue
		}
		var answers map[string]answer
		answers, busy, why = r.ask(ctx, v, busy)
		r.note(why)
		r.explain(&waits, why)
		if why == "" && maps.Equal(last, answers) { // this node at least has answered: never two empty ones
			r.end(ctx, v, answers)
			return nil
		}
		if last = answers; why != "" {
			last = nil
		}
	}
}

func (r *Rounds) explain(waits *reason, why string) {
	if waits.news(why) && r.deps.Waits != nil {
		r.deps.Waits(why)
	}
}

// arm notes that all are there, and says whether they were. Once is enough: nodes that have finished leave. Only the
// settled count: who has just come may be anybody.
func (r *Rounds) arm(v view.View, s State) bool {
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

// ask puts the question to all members; why is empty if all are idle. First it asks itself and who was busy in the last round:
// while one of them is, nobody else need be asked. busy is who is not idle, or does not answer.
func (r *Rounds) ask(ctx context.Context, v view.View, last string) (answers map[string]answer, busy, why string) {
	var mu sync.Mutex
	all := all(v)
	answers = make(map[string]answer, len(all))
	mine := v.Digest()
	for _, first := range []func(id string) bool{
		func(id string) bool { return id == v.Self },
		func(id string) bool { return id == last },
		func(string) bool { return true },
	} {
		var g errgroup.Group
		g.SetLimit(64)
		for _, id := range slices.DeleteFunc(slices.Clone(all), func(id string) bool {
			_, asked := answers[id]
			return asked || !first(id)
		}) {
			g.Go(func() error {
				res, err := r.one(ctx, v, id, &wire.IdleRequest{})
				mu.Lock()
				defer mu.Unlock()
				answers[id] = answer{res.GetCounters(), res.GetMembers()}
				switch {
				case err != nil && !slices.Contains(v.Settled, id):
					// It gossips and does not speak the peer protocol: nobody waits for it.
					delete(answers, id)
				case err != nil:
					busy, why = id, fmt.Sprintf("%s does not answer", id)
				case !res.GetIdle() || !res.GetArmed():
					busy, why = id, id+": "+res.GetWhy()
				case res.GetMembers() != mine:
					busy, why = id, id+" sees other members"
				}
				return nil
			})
		}
		if _ = g.Wait(); why != "" {
			break
		}
	}
	return answers, busy, why
}

func (r *Rounds) one(ctx context.Context, v view.View, id string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	if id == v.Self {
		return r.Idle(ctx, id, req)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*r.cfg.RoundEvery)
	defer cancel()
	return r.deps.Ask(ctx, id, req)
}

// missed says why this node ends without having been told. It may: it has nothing to do.
func (r *Rounds) missed(v view.View, s State, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Idle && v.AllOver() {
		return "over at " + v.Over[0]
	}
	// It has said that it is idle, and nothing has happened here since.
	if !s.Idle || v.Majority || !v.Alone() || r.answered == nil || *r.answered != s.Counters {
		r.lonely = time.Time{}
		return ""
	}
	if r.lonely.IsZero() {
		r.lonely = now
	}
	if now.Sub(r.lonely) < lonelyFor {
		return ""
	}
	return fmt.Sprintf("nothing was left to do here, and nobody was there for %v", lonelyFor)
}

// end tells all that have answered, until they have acknowledged it, left, or not been heard of for too long. Those find it
// in what the members tell. This node says so there first: from then on it takes nothing over from those that leave.
func (r *Rounds) end(ctx context.Context, v view.View, answers map[string]answer) {
	if !r.declare("all are idle") {
		return // it was told so meanwhile
	}
	telling, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(64)
	for id := range answers {
		if id != v.Self {
			g.Go(func() error {
				r.tell(telling, v, id)
				return nil
			})
		}
	}
	_ = g.Wait()
	close(r.over)
}

// tell tells one.
func (r *Rounds) tell(ctx context.Context, v view.View, id string) {
	for {
		res, err := r.one(ctx, v, id, &wire.IdleRequest{End: true})
		if err == nil && (res.GetOver() || !res.GetIdle()) {
			return // who got something to do goes on
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.cfg.RoundEvery / 2):
		}
		if !slices.Contains(all(r.deps.View()), id) {
			return
		}
	}
}

func (r *Rounds) finish(why string) {
	if r.declare(why) {
		close(r.over)
	}
}

// declare makes this node one that ends, and says whether it was none.
func (r *Rounds) declare(why string) bool {
	r.mu.Lock()
	was := r.ended
	r.ended = true
	r.mu.Unlock()
	if !was && r.deps.Ended != nil {
		r.deps.Ended(why)
	}
	return !was
}

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
		r.finish("told by " + from)
	}
	res := &wire.IdleResponse{Idle: s.Idle, Why: s.Why, Armed: armed, Counters: s.Counters, Members: v.Digest()}
	r.mu.Lock()
	if res.Over = r.ended; s.Idle && armed {
		r.answered = &s.Counters
	}
	r.mu.Unlock()
	if s.Idle && !armed {
		res.Why = fmt.Sprintf("%d of %d nodes expected are there", len(v.Settled), r.cfg.ExpectedNodes)
		if !s.Seeded {
			res.Why = "its seeds are not acknowledged"
		}
	}
	return res, nil
}

// heldFor is for how many rounds the same reason must have kept the crawl from ending before it is told: those of pages that
// come and go are no news.
const heldFor = 3

// numbers differ from round to round where the reason is the same.
var numbers = regexp.MustCompile(`\b[0-9]{1,9}\b`)

// reason tells why a crawl has not ended, once a reason.
type reason struct {
	now, told string
	rounds    int
}

// news says that a round's reason is to be told; an empty one never is.
func (r *reason) news(why string) bool {
	if why = numbers.ReplaceAllString(why, "n"); why != r.now {
		r.now, r.rounds = why, 0
	}
	if r.rounds++; r.rounds < heldFor || why == r.told {
		return false
	}
	r.told = why
	return why != ""
}
