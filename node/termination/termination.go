// Package termination ends a finite crawl on all nodes at once. The settled node with the lowest id asks all members in rounds
// whether they are idle. The package does not decide what idle means: each node tells it (State). Nobody waits for members that are mute:
// they count as alive, but have answered nothing for ten minutes.
//
//	        all expected nodes      all were idle in two equal rounds, or this node
//	        have been there         was told, or it missed the end and is idle       all have been told
//	begun ────────────────► armed ──────────────────────────────────────────► ended ────────────────► over
package termination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/view"
	"proxima/node/wire"
)

// Config sets the times of the rounds.
type Config struct {
	// RoundEvery is the time between two rounds of questions, a quarter of it after a round in which all were idle. A shorter time ends the crawl sooner after its last page and costs
	// more messages: one in each round while a node is busy, and one for each node when that node is busy no more.
	RoundEvery time.Duration `toml:"-"`
	// ExpectedNodes is how many nodes must have joined before the crawl may end: the number of nodes that you start
	// together. If nodes have different numbers, the largest counts.
	ExpectedNodes int `toml:"expected_nodes"`
}

// Default returns the values of the design.
func Default() Config { return Config{RoundEvery: 2 * time.Second, ExpectedNodes: 1} }

// Validate returns an error for values that are out of range.
func (c Config) Validate() error {
	if c.ExpectedNodes < 1 {
		return errors.New("expected_nodes: must be at least 1")
	}
	return nil
}

// State tells what this node has left to do.
type State struct {
	Idle bool
	// Why tells people why the node is not idle.
	Why string
	// Counters changes with every link and page that the node accepts, sends or finishes.
	Counters uint64
}

// Deps are the dependencies of Rounds.
type Deps struct {
	View  func() view.View
	State func() State
	Ask   func(ctx context.Context, to string, req *wire.IdleRequest) (*wire.IdleResponse, error)
	// Waits hears what keeps the crawl from ending, as far as this node knows: each reason once, after it has lasted for some rounds.
	Waits func(why string)
	// Ended hears once why this node ends.
	Ended func(why string)
	// Armed is set if an earlier life of this node saw all expected nodes. When it comes back, the others may have ended and left.
	Armed bool
	// Arm is called when this node first sees all expected nodes, or hears that they have been there.
	Arm func()
}

// Rounds finds the end of a crawl. It is safe for concurrent use.
type Rounds struct {
	cfg  Config
	deps Deps
	over chan struct{} // closed when the crawl has ended everywhere
	// probed is when this node last made sure that the node that asks is there. heard has those that have answered what probe asks all others, and turn
	// says which comes next. Run owns them.
	probed time.Time
	heard  map[string]bool
	turn   int

	// mu guards the fields below.
	mu    sync.Mutex
	met   uint32 // how many nodes have been there at once, as far as this node has seen or heard
	why   string // what keeps the crawl from ending, by the last round of this node
	ended bool
	// answered is the value of State.Counters when this node last answered that it is idle; nil before the first such answer.
	answered *uint64
	// lonely is since when this node has waited as lonelyFor says, without any change of its counters; zero if it does not.
	lonely time.Time
	silent map[string]silence // of members that did not answer the last question
}

// silence is a time in which a member answered no question.
type silence struct{ first, last time.Time }

func (s silence) mute() bool { return s.last.Sub(s.first) >= muteFor }

const (
	// tellFor is how long the end is told to nodes that do not acknowledge it.
	tellFor = 30 * time.Second
	// lonelyFor is how long an idle node without a majority waits for others when it sees none of them any more, or hears that some have ended. They
	// have most likely all ended, and this node missed it. If they have not, they go on without it and lose nothing.
	lonelyFor = 5 * time.Minute
	// muteFor is how long a member must have answered no question before nobody waits for it.
	muteFor = 10 * time.Minute
	// probeEvery is how often a node makes sure that the node that asks is there. A member that was not asked for twice as long may
	// have been there meanwhile.
	probeEvery = time.Minute
	// asksAtOnce is how many nodes are asked in parallel.
	asksAtOnce = 64
)

// New makes the rounds of one node.
func New(cfg Config, deps Deps) *Rounds {
	r := &Rounds{cfg: cfg, deps: deps, over: make(chan struct{}), silent: make(map[string]silence), heard: make(map[string]bool), probed: time.Now()}
	if deps.Armed {
		r.met = uint32(cfg.ExpectedNodes)
	}
	return r
}

// Why tells what keeps the crawl from ending, as far as this node knows.
func (r *Rounds) Why() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// Run asks in rounds while this node is the one to ask, until the crawl has ended everywhere or the context ends. It reports the former.
func (r *Rounds) Run(ctx context.Context) (over bool) {
	next := time.NewTimer(r.cfg.RoundEvery)
	defer next.Stop()
	var last map[string]answer // of the last round, if all were idle in it
	var busy string
	var waits reason
	for {
		select {
		case <-ctx.Done():
			return false
		case <-r.over:
			return true
		case <-next.C:
		}
		next.Reset(r.cfg.RoundEvery)
		v, s := r.deps.View(), r.deps.State()
		r.hear(settled(v)) // every node watches, because the node that asks may be dead while all are there
		if why := r.missed(v, s, time.Now()); why != "" {
			r.finish(why)
			continue
		}
		present := r.present(v)
		r.probe(ctx, v, present)
		if !asks(v.Self, present) || !v.Majority {
			last = nil
			r.explain(&waits, s.Why)
			continue
		}
		answers, by, why := r.ask(ctx, v, busy)
		busy = by
		r.mu.Lock()
		r.why = why
		r.mu.Unlock()
		r.explain(&waits, why)
		switch {
		case why != "":
			last = nil
		case maps.Equal(last, answers): // never two empty ones, because this node has answered
			r.end(ctx, v, answers)
		default:
			last = answers
			next.Reset(r.cfg.RoundEvery / 4) // nothing but a second equal round is missing
		}
	}
}

func (r *Rounds) explain(waits *reason, why string) {
	if waits.isNews(why) {
		r.deps.Waits(why)
	}
}

// settled returns how many nodes are there. A node that has just come may be gone in a moment, and does not count.
func settled(v view.View) uint32 { return uint32(len(v.Settled)) }

// hear takes in how many nodes have been there at once, as far as this node or another one knows, and reports whether all expected ones
// have. Once is enough, because nodes leave when they have ended. A node that comes when one of the expected is gone for good hears from
// the others how many were there. Each compares that with its own number: where those differ, the largest counts.
func (r *Rounds) hear(met uint32) (armed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	expected := uint32(r.cfg.ExpectedNodes)
	if r.met < expected && met >= expected {
		r.deps.Arm()
	}
	r.met = max(r.met, met)
	return r.met >= expected
}

// present returns the settled members that are not mute. If those are no more than the mute ones, it is rather this node that is cut off, and all
// count. Members that have left because the crawl is over were there.
func (r *Rounds) present(v view.View) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Of those that are gone for good nobody asks.
	maps.DeleteFunc(r.silent, func(id string, _ silence) bool { return !slices.Contains(v.Settled, id) && !v.IsAlive(id) })
	present := slices.DeleteFunc(slices.Clone(v.Settled), func(id string) bool { return r.silent[id].mute() })
	if mute := len(v.Settled) - len(present); mute < len(present)+len(v.Over) {
		return present
	}
	return v.Settled
}

// asks reports whether a node is the one that asks.
func asks(id string, present []string) bool { return len(present) > 0 && present[0] == id }

// probe makes sure now and then that the node that asks is there. Both hear how many nodes the other has seen. A node that does not know that all
// expected ones have been there asks all others, one in each round: those that know may soon be gone for good.
func (r *Rounds) probe(ctx context.Context, v view.View, present []string) {
	if !r.hear(0) {
		maps.DeleteFunc(r.heard, func(id string, _ bool) bool { return !slices.Contains(present, id) }) // who comes back may have heard more
		for range present {
			r.turn++
			if id := present[r.turn%len(present)]; id != v.Self && !r.heard[id] {
				_, err := r.askOne(ctx, v, id, &wire.IdleRequest{})
				r.heard[id] = err == nil
				return
			}
		}
	}
	if time.Since(r.probed) >= probeEvery && len(present) > 0 && !asks(v.Self, present) {
		r.probed = time.Now()
		_, _ = r.askOne(ctx, v, present[0], &wire.IdleRequest{}) // it notes what came of it
	}
}

// believes reports whether this node believes a member that says that the crawl has ended: it is settled, and none with a lower id answers.
// (Each node asks the lowest now and then, so it soon finds out.)
func (r *Rounds) believes(id string, v view.View) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(v.Settled, id)
	return i >= 0 && !slices.ContainsFunc(v.Settled[:i], func(lower string) bool { return r.silent[lower] == silence{} })
}

// note takes in whether a member has answered a question.
func (r *Rounds) note(id string, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answered {
		delete(r.silent, id)
		return
	}
	s, now := r.silent[id], time.Now()
	if now.Sub(s.last) > 2*probeEvery && !s.mute() {
		s.first = now
	}
	s.last = now
	r.silent[id] = s
}

// members returns the nodes that are asked, sorted. They include nodes that have just come back and are not settled, because
// those may have much to do.
func members(v view.View) []string {
	ids := slices.Concat(v.Settled, v.Alive)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// answer is what one node answered in a round.
type answer struct {
	counters, members uint64
}

// ask asks the members. why is empty if all of them are idle; otherwise busy is a node that is not idle or does not answer. It
// asks this node first, then the one that was busy in the last round. It asks the others only if both are idle.
func (r *Rounds) ask(ctx context.Context, v view.View, last string) (answers map[string]answer, busy, why string) {
	var mu sync.Mutex
	answers = make(map[string]answer)
	all, mine, present := members(v), v.Digest(), r.present(v)
	for _, ids := range [][]string{{v.Self}, {last}, all} {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, asked := answers[id]
			return asked || !slices.Contains(all, id)
		})
		bell.Each(asksAtOnce, ids, func(id string) {
			res, err := r.askOne(ctx, v, id, &wire.IdleRequest{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !slices.Contains(present, id) {
				return // it gossips and does not answer peers: nobody waits for it
			}
			answers[id] = answer{res.GetCounters(), res.GetMembers()}
			switch {
			case err != nil:
				busy, why = id, id+" does not answer"
			case !res.GetIdle() || !res.GetArmed():
				busy, why = id, id+": "+res.GetWhy()
			case res.GetMembers() != mine:
				busy, why = id, id+" sees other members"
			}
		})
		if why != "" {
			break
		}
	}
	return answers, busy, why
}

// askOne asks one node, which may be this one.
func (r *Rounds) askOne(ctx context.Context, v view.View, id string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	if id == v.Self {
		return r.Idle(ctx, id, req)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*r.cfg.RoundEvery)
	defer cancel()
	r.mu.Lock()
	req.Met = r.met
	r.mu.Unlock()
	res, err := r.deps.Ask(ctx, id, req)
	r.note(id, err == nil)
	r.hear(res.GetMet())
	return res, err
}

// missed returns why this node may end although nobody has told it to, "" if it may not. It ends only if it is idle.
func (r *Rounds) missed(v view.View, s State, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Idle && v.AllOver() {
		return "over at " + v.Over[0]
	}
	unchanged := r.answered != nil && *r.answered == s.Counters // since it last answered that it is idle
	if !s.Idle || v.Majority || len(v.Over) == 0 && len(v.Others()) > 0 || !unchanged {
		r.lonely = time.Time{}
		return ""
	}
	if r.lonely.IsZero() {
		r.lonely = now
	}
	if now.Sub(r.lonely) < lonelyFor {
		return ""
	}
	why := "nobody was there"
	if len(v.Over) > 0 {
		why = "it is over at " + v.Over[0]
	}
	return fmt.Sprintf("nothing was left to do here for %v, and %s", lonelyFor, why)
}

// end tells all nodes that have answered, until each has acknowledged it or left, or tellFor has passed. The others learn it from
// gossip. This node ends before it tells them, so that it does not take over the hosts of nodes that leave.
func (r *Rounds) end(ctx context.Context, v view.View, answers map[string]answer) {
	why := "all are idle"
	if silent := slices.DeleteFunc(members(v), func(id string) bool { _, ok := answers[id]; return ok }); len(silent) > 0 {
		why = "all are idle but " + strings.Join(silent, " and ") + ", from which nothing is heard"
	}
	if !r.declare(why) {
		return // it was told in the meantime
	}
	telling, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	delete(answers, v.Self)
	bell.Each(asksAtOnce, slices.Collect(maps.Keys(answers)), func(id string) { r.tell(telling, v, id) })
	close(r.over)
}

// tell tells one node that the crawl has ended, until it acknowledges that, leaves, or the context ends.
func (r *Rounds) tell(ctx context.Context, v view.View, id string) {
	for {
		res, err := r.askOne(ctx, v, id, &wire.IdleRequest{End: true})
		if err == nil && (res.GetOver() || !res.GetIdle()) {
			return // a node that has work again goes on
		}
		if bell.Sleep(ctx, r.cfg.RoundEvery/2) != nil || !slices.Contains(members(r.deps.View()), id) {
			return
		}
	}
}

// finish ends this node without telling others.
func (r *Rounds) finish(why string) {
	if r.declare(why) {
		close(r.over)
	}
}

// declare notes that this node ends. It returns false if that was noted before.
func (r *Rounds) declare(why string) bool {
	r.mu.Lock()
	first := !r.ended
	r.ended = true
	r.mu.Unlock()
	if first {
		r.deps.Ended(why)
	}
	return first
}

// Idle answers a question, or takes note of the end.
func (r *Rounds) Idle(_ context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	v, s := r.deps.View(), r.deps.State()
	armed := r.hear(max(req.GetMet(), settled(v)))
	if req.GetEnd() && armed && s.Idle && r.believes(from, v) {
		r.finish("told by " + from)
	}
	res := &wire.IdleResponse{Idle: s.Idle, Why: s.Why, Armed: armed, Counters: s.Counters, Members: v.Digest()}
	r.mu.Lock()
	res.Met = r.met
	if res.Over = r.ended; s.Idle && armed {
		r.answered = &s.Counters
	}
	r.mu.Unlock()
	if s.Idle && !armed {
		res.Why = fmt.Sprintf("%d of %d nodes expected are there", len(v.Settled), r.cfg.ExpectedNodes)
	}
	return res, nil
}

// heldFor is how many rounds a reason must last before it is told. Reasons that come and go with single pages are no news.
const heldFor = 3

// numbers matches numbers in a reason. They change from round to round while the reason is the same.
var numbers = regexp.MustCompile(`\b[0-9]{1,9}\b`)

// reason decides when people must be told why a crawl has not ended.
type reason struct {
	now, told string
	rounds    int // in which it was now
}

// isNews takes the reason of one round, and reports whether it must be told. "" stands for no reason.
func (r *reason) isNews(why string) bool {
	if why = numbers.ReplaceAllString(why, "n"); why != r.now {
		r.now, r.rounds = why, 0
	}
	if r.rounds++; r.rounds < heldFor || why == r.told {
		return false
	}
	r.told = why
	return why != ""
}
