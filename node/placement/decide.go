package placement

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/node/runlog"
)

// plan is the decision of one assigner about a batch. One goroutine owns it until it is decided.
type plan struct {
	tuning
	assigner assign.Assigner
	decided  bool    // before the deadline
	seconds  float64 // that the decision took
	choices  map[netip.Addr]assign.Choice
}

// memory returns a copy of what the assigner has learnt of a server, nil if that is nothing.
func (p *plan) memory(addr netip.Addr) *assign.Memory { return p.assigner.Memory(addr).Copy() }

// decide lets every assigner decide the batch, with the same servers and the same view.
func (b *batch) decide(ctx context.Context, id string) error {
	b.phase(PhaseDecide)
	if len(b.cfg.Assigners) > 1 && b.cfg.Mode != ModePersistent {
		b.deps.Frontier.SetSlow(true)
		defer b.deps.Frontier.SetSlow(false)
	}
	begun, before := time.Now(), b.plans
	view, _ := b.currentView()
	b.plans = nil
	for i, name := range b.cfg.Assigners {
		t, err := b.cfg.tuning(name, b.deps.Assign)
		if err != nil {
			return err
		}
		in := b.input(id, t)
		if in.Before = b.subnets[t.label]; before != nil {
			in.Before = before[i].assigner
		}
		a, err := assign.New(t.method, t.cfg, in, view, begun)
		if err != nil {
			return err
		}
		b.plans = append(b.plans, &plan{tuning: t, assigner: a})
	}
	g, all := errgroup.WithContext(ctx)
	for _, p := range b.plans {
		g.Go(func() error { return b.drive(all, id, p, begun) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b.conclude(id, begun)
	return nil
}

// input makes the batch for an assigner.
func (b *batch) input(id string, t tuning) assign.Batch {
	seed := fnv.New64a()
	seed.Write([]byte(id))
	in := assign.Batch{ID: id, Seed: seed.Sum64()}
	if b.loaded {
		in.Home = b.deps.Self
	}
	if t.method == assign.Nearest {
		in.Near = b.neighbours.near(b.servers)
	}
	for _, s := range b.servers {
		m, ok := s.learnt[t.label]
		if !ok {
			m = s.memory
		}
		out := assign.Server{Addr: s.addr, Memory: m, Location: b.deps.Locate(s.addr)}
		for _, h := range s.hosts {
			out.Hosts = append(out.Hosts, assign.Host{Name: h.name, Pending: h.left(), PageBytes: m.PageBytes})
		}
		in.Servers = append(in.Servers, out)
	}
	return in
}

// drive makes the estimates that an assigner asks for, until it has decided or the deadline has passed. After the deadline no estimate waits for
// politeness any more, but downloads that have begun go on. drive returns when the last of them has ended, and the assigner knows the result.
func (b *batch) drive(ctx context.Context, id string, p *plan, begun time.Time) error {
	group, work := errgroup.WithContext(ctx)
	cut, stop := context.WithDeadline(work, begun.Add(b.cfg.Deadline)) // ends the waits for politeness, and no downloads
	defer stop()
	e := &estimates{plan: p, group: group, answers: make(chan assign.Result)}
	servers := make(map[netip.Addr]*server, len(b.servers))
	for _, s := range b.servers {
		servers[s.addr] = s
	}
	_, changed := b.currentView()
	told := begun
	for cut.Err() == nil {
		now := time.Now()
		if p.decide(begun) {
			break
		}
		for _, ask := range p.assigner.Asks(now) {
			if s := servers[ask.Server]; s != nil {
				e.begin(func() (assign.Result, error) { return s.estimate(work, cut, id, p.label, ask) })
			}
		}
		thought := time.Since(now)            // assigners learn in Decide and Asks
		if e.asking == 0 && p.decide(begun) { // it may have decided because nothing is left to ask
			break
		}
		wait := b.cfg.Deadline
		if due, ok := p.assigner.Next(now); ok { // an assigner that is always due must not spin
			wait = max(due.Sub(now), 10*time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-cut.Done():
		case r := <-e.answers:
			e.observe(r)
			rest(cut, thought, e.answers, e.observe)
		case <-changed:
			var view assign.View
			view, changed = b.currentView()
			p.assigner.SetView(view, time.Now())
		case <-timer.C:
		}
		timer.Stop()
		if time.Since(told) >= placesEvery {
			b.tellPlaces(p)
			told = time.Now()
		}
	}
	stop()
	for e.asking > 0 {
		e.observe(<-e.answers) // later answers are worth learning from, too
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// estimates are those that an assigner has asked for and that have no answer yet. One goroutine owns them, and the assigner.
type estimates struct {
	*plan
	group   *errgroup.Group
	answers chan assign.Result
	asking  int
}

// begin makes an estimate in a goroutine of its own.
func (e *estimates) begin(estimate func() (assign.Result, error)) {
	e.asking++
	e.group.Go(func() error {
		r, err := estimate()
		e.answers <- r
		return err
	})
}

// observe gives an answer to the assigner.
func (e *estimates) observe(r assign.Result) {
	e.asking--
	e.assigner.Observe(r, time.Now())
}

// restOver is how many times longer an assigner rests than it has thought. So it thinks once about many answers, and a batch of a
// thousand servers does not keep a processor busy.
const restOver = 9

// rest takes in answers while an assigner rests. thought is how long it has thought.
func rest(ctx context.Context, thought time.Duration, answers <-chan assign.Result, observe func(assign.Result)) {
	over := time.After(restOver * thought)
	for thought > 0 {
		select {
		case r := <-answers:
			observe(r)
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// placesEvery is how often Deps.Placed is called while an assigner decides.
const placesEvery = 5 * time.Second

// tellPlaces tells what an assigner has learnt of the servers.
func (b *batch) tellPlaces(p *plan) {
	for _, s := range b.servers {
		if m := p.memory(s.addr); m != nil {
			b.deps.Placed(p.label, s.addr, m)
		}
	}
}

// decide reports whether the assigner has decided.
func (p *plan) decide(begun time.Time) bool {
	now := time.Now()
	if _, p.decided = p.assigner.Decide(now); p.decided {
		p.seconds = now.Sub(begun).Seconds()
	}
	return p.decided
}

// conclude takes the choices of every assigner, with the present members, and tells of them. An assigner that has not decided
// chooses by what it knows.
func (b *batch) conclude(id string, begun time.Time) {
	view, _ := b.currentView()
	now := time.Now()
	for _, p := range b.plans {
		if !p.decided {
			b.updateStatus(func(s *Status) { s.Overdue++ })
			p.seconds = now.Sub(begun).Seconds()
		}
		p.assigner.SetView(view, now)
		b.tellPlaces(p)
		choices := p.assigner.Conclude(now)
		if p.method == assign.IPMicra {
			b.subnets[p.label] = p.assigner
		}
		p.choices = make(map[netip.Addr]assign.Choice, len(choices))
		for _, c := range choices {
			if !p.decided {
				c.Reason = fmt.Sprintf("undecided after %v: %s", b.cfg.Deadline, c.Reason)
			}
			p.choices[c.Server] = c
		}
		for _, s := range b.servers {
			if m := p.memory(s.addr); m != nil && p.method == assign.Nearest {
				b.neighbours.remember(s.addr, *m)
			}
			c := p.choices[s.addr]
			for _, h := range s.hosts {
				b.deps.Assigned(runlog.Assign{Decided: true, Batch: id, Label: p.label, Host: h.name, Server: s.addr.String(), Owner: c.Node,
					URLs: h.left(), PredictedMs: c.PredictedMs, Estimates: c.Estimates, Accuracy: c.Error, Seconds: p.seconds, Reason: c.Reason})
			}
		}
	}
}

const (
	mostNetworks   = 1000 // networks of which servers are remembered
	mostNeighbours = 3    // servers that are remembered of one network
)

// neighbours remembers servers that batches have decided about, by network. They tell something about the next server of the
// network. The goroutine of the batches owns it.
type neighbours struct {
	known *simplelru.LRU[netip.Prefix, []assign.Server]
}

func newNeighbours() neighbours {
	known, _ := simplelru.NewLRU[netip.Prefix, []assign.Server](mostNetworks, nil) // it fails only for sizes below one
	return neighbours{known}
}

// remember stores what is known of a server, as the first of its network.
func (n neighbours) remember(addr netip.Addr, m assign.Memory) {
	network := assign.Network(addr)
	list, _ := n.known.Get(network)
	list = slices.DeleteFunc(list, func(s assign.Server) bool { return s.Addr == addr })
	list = slices.Insert(list, 0, assign.Server{Addr: addr, Memory: m})
	n.known.Add(network, list[:min(mostNeighbours, len(list))])
}

// near returns the servers remembered in the networks of a batch, without those of the batch.
func (n neighbours) near(batch []*server) (list []assign.Server) {
	var networks []netip.Prefix
	for _, s := range batch {
		network := assign.Network(s.addr)
		if slices.Contains(networks, network) {
			continue
		}
		networks = append(networks, network)
		known, _ := n.known.Get(network)
		for _, k := range known {
			if !slices.ContainsFunc(batch, func(s *server) bool { return s.addr == k.Addr }) {
				list = append(list, k)
			}
		}
	}
	return list
}
