package assign

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// nearest is the default assigner. It asks the nodes that may be the best and learns from all answers together (learner). It asks no
// more about a server when another estimate is expected to gain too little.
type nearest struct {
	asker
	cfg     NearestConfig
	home    string
	servers []*nearestServer
	near    []*learntServer
	learner *learner
	stale   bool      // answers have come since the last fit
	fitted  time.Time // time of the last fit
}

// nearestServer is a server of the batch, and how its estimates went.
type nearestServer struct {
	learntServer
	*target
	failed  map[string]int // by node: how often it could not reach the server, since it last did
	busy    map[string]int // by node: how often it had no time to try
	reached bool           // by some node
	stopped string         // why no more nodes are asked, "" while they are
	plan    string         // node to ask next, if planned
	planned bool
}

// newNearest begins a batch with what the memories of its servers tell, but for what the home measured under its own load (Batch.Home).
func newNearest(cfg NearestConfig, b Batch, v View) *nearest {
	a := &nearest{asker: newAsker(b), cfg: cfg, home: b.Home}
	if cfg.Without.has(withoutExplore) {
		a.cfg.Explore = 0
	}
	if cfg.Without.has(withoutStop) {
		a.cfg.StopGain = 0
	}
	if cfg.Without.has(withoutBalance) {
		a.cfg.Balance = 0
	}
	for _, s := range a.targets {
		s.memory.forget(b.Home)
		if s.Location != nil {
			s.memory.Location = s.Location
		}
		if page := typicalPage(s.Server); page > 0 {
			s.memory.PageBytes = page
		}
		n := &nearestServer{learntServer: learntServer{memory: &s.memory, addr: s.Addr}, target: s, failed: make(map[string]int), busy: make(map[string]int)}
		a.servers = append(a.servers, n)
	}
	for _, s := range b.Near {
		a.near = append(a.near, &learntServer{memory: new(s.Memory.Clone()), addr: s.Addr})
	}
	a.SetView(v, time.Time{})
	return a
}

// typicalPage returns the size of a typical page in bytes: the mean over a server's hosts, weighted by their pending URLs; 0 if unknown.
func typicalPage(s Server) float64 {
	var sum, weight float64
	for _, h := range s.Hosts {
		if h.PageBytes > 0 {
			w := float64(max(h.Pending, 1))
			sum, weight = sum+w*math.Log(h.PageBytes), weight+w
		}
	}
	if weight == 0 {
		return 0
	}
	return math.Exp(sum / weight)
}

// SetView makes a new learner for the nodes. Of the home it uses the queue alone: the rest was measured under the load of the batch.
func (a *nearest) SetView(v View, _ time.Time) {
	a.setNodes(v)
	if home := a.view.find(a.home); home != nil {
		home.Factors = Factors{QueueMs: home.Factors.QueueMs}
	}
	list := make([]*learntServer, len(a.servers))
	for i, s := range a.servers {
		list[i] = &s.learntServer
	}
	a.learner = newLearner(a.view, append(list, a.near...), a.cfg.Without)
	a.stale = true
	a.revise(a.decide)
}

// learn fits the learner if answers have arrived since the last time.
func (a *nearest) learn(now time.Time) {
	if a.stale {
		a.learner.fit(now)
		a.stale, a.fitted = false, now
		for _, s := range a.servers {
			s.target.memory.Spread = s.spread
			s.planned = false
		}
	}
}

func (a *nearest) Asks(now time.Time) []Ask {
	if a.choices != nil || len(a.view.Nodes) == 0 {
		return nil
	}
	a.learn(now)
	var asks []Ask
	for _, s := range a.servers {
		if s.asking != "" || s.stopped != "" {
			continue
		}
		if node := a.planFor(s); node != "" {
			asks = append(asks, s.ask(node))
		}
	}
	return asks
}

// planFor returns the result of next, which it computes only once until something new is known.
func (a *nearest) planFor(s *nearestServer) string {
	if !s.planned {
		s.plan, s.planned = a.next(s), true
	}
	return s.plan
}

// mostFailures is how often a node may fail to reach a server, or have no time to try, before it is not asked any more.
const mostFailures = 2

// ranking returns the predictions for a server, best first, without the nodes that could not reach it, unless none could.
func (a *nearest) ranking(s *nearestServer) []prediction {
	all := a.learner.ranking(&s.learntServer)
	var reaching []prediction
	for _, p := range all {
		if _, failed := s.target.memory.failed(a.learner.nodes[p.node].ID); !failed {
			reaching = append(reaching, p)
		}
	}
	if len(reaching) == 0 {
		return all
	}
	return reaching
}

// next returns the node to ask about a server. If none is worth it, it returns "" and sets s.stopped.
func (a *nearest) next(s *nearestServer) string {
	switch {
	case s.asked >= a.cfg.Estimates:
		s.stopped = "all estimates used"
		return ""
	case len(a.view.Nodes) == 1:
		s.stopped = "there is one node only"
		return ""
	}
	all := a.ranking(s)
	if s.asked >= a.cfg.MinEstimates {
		if gain := gain(all); gain < a.cfg.StopGain*all[0].ms {
			s.stopped = "one more estimate is worth too little"
			return ""
		}
	}
	best, least := "", math.Inf(1)
	for _, p := range all {
		id := a.learner.nodes[p.node].ID
		if s.failed[id] >= mostFailures || s.busy[id] >= mostFailures {
			continue
		}
		// Each further download reduces the uncertainty less.
		if v := p.low * math.Exp(-a.cfg.Explore*p.sd/float64(1+p.seen)); v < least {
			best, least = id, v
		}
	}
	if best == "" {
		s.stopped = "all nodes failed twice"
	}
	return best
}

// gain returns by how many ms another estimate is expected to shorten a download. It is the largest expected improvement (J. Močkus,
// 1975) of any node over the best one, where both predictions are uncertain. It considers only the uncertainty that one more download
// removes, which decreases with the number of downloads.
func gain(sorted []prediction) float64 {
	var most float64
	b := sorted[0]
	for _, p := range sorted[1:] {
		s := math.Hypot(b.low*b.sd/math.Sqrt(float64(1+b.seen)), p.low*p.sd/math.Sqrt(float64(1+p.seen)))
		if s <= 0 {
			continue
		}
		z := (p.ms - b.ms) / s
		most = max(most, s*(math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)-z*math.Erfc(z/math.Sqrt2)/2))
	}
	return most
}

// Observe learns from a download, or counts that a node could not make it. A node that fails at a server which others reach is not chosen for it.
func (a *nearest) Observe(r Result, now time.Time) {
	i, ok := a.answered(r)
	if !ok {
		return
	}
	s := a.servers[i]
	s.planned = false
	if r.OK {
		s.reached = true
		delete(s.failed, r.Node)
	} else if r.Unreached {
		s.failed[r.Node]++
	} else if r.Busy {
		s.busy[r.Node]++
	}
	m := &s.target.memory
	for _, node := range slices.Sorted(maps.Keys(s.failed)) {
		if s.reached && s.failed[node] >= mostFailures {
			m.Fail(node, now) // the server answers: it is the node that cannot reach it
			a.stale = true
		}
	}
	if !r.OK {
		return
	}
	page := m.PageBytes
	m.Observe(r.Node, r.Coord, r.Timing, now)
	if typicalPage(s.Server) > 0 {
		m.PageBytes = page
	}
	a.stale = true
}

// Decide waits until no server has an ask that is open or planned.
func (a *nearest) Decide(now time.Time) ([]Choice, bool) {
	if a.choices == nil && len(a.view.Nodes) > 0 {
		for _, s := range a.servers {
			if s.stopped == "" {
				a.learn(now)
				if s.asking != "" || a.planFor(s) != "" {
					return nil, false
				}
			}
		}
	}
	return a.Conclude(now), true
}

// Conclude decides as if no further estimate were worth its cost.
func (a *nearest) Conclude(now time.Time) []Choice {
	if a.choices == nil {
		a.learn(now)
	}
	return a.conclude(a.decide)
}

// decide picks a node for each server, so that the nodes share the work of the batch.
func (a *nearest) decide() []Choice {
	a.learn(a.fitted)
	rankings := make([][]prediction, len(a.servers))
	work := make([]float64, len(a.servers))
	for i, s := range a.servers {
		all := a.ranking(s)
		if s.spread && all[0].seen > 0 {
			// Where nobody has looked, predictions mean nothing. Those who have looked come first.
			all = slices.DeleteFunc(all, func(p prediction) bool { return p.seen == 0 })
		}
		rankings[i] = slices.Clone(all[:min(keptRanks, len(all))])
		for _, h := range s.Hosts {
			work[i] += float64(h.Pending)
		}
	}
	picks := a.share(rankings, work)
	choices := make([]Choice, len(a.servers))
	for i, s := range a.servers {
		choices[i] = a.choice(s, rankings[i], picks[i])
	}
	return choices
}

// keptRanks is the number of best nodes of a ranking that share may choose from.
const keptRanks = 24

// choice makes the choice of the pick-th node of a ranking, with the reason.
func (a *nearest) choice(s *nearestServer, ranking []prediction, pick int) Choice {
	p := ranking[pick]
	c := Choice{Server: s.Addr, Node: a.learner.nodes[p.node].ID, PredictedMs: p.ms, Estimates: s.asked, Error: p.sd}
	what := "least predicted time"
	switch {
	case s.spread:
		what = "least time seen (the address answers at several places)"
	case pick > 0:
		what = fmt.Sprintf("%.0f ms slower than the best, and less busy", p.ms-ranking[0].ms)
	}
	c.Reason = what
	if s.stopped != "" {
		c.Reason += "; " + s.stopped
	}
	return c
}
