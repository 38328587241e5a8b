package placement

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/node/journal"
)

// plan is what one assigner decided about a batch.
type plan struct {
	label    string
	assigner assign.Assigner
	choices  map[netip.Addr]assign.Choice
	seconds  float64
	asking   int // asks under way
}

// memory is a copy of what the assigner has learnt about a server, nil for nothing.
func (p *plan) memory(addr netip.Addr) *assign.Memory {
	m := p.assigner.Memory(addr)
	if m == nil {
		return nil
	}
	c := m.Clone()
	return &c
}

// answer is the result of an ask of a plan.
type answer struct {
	plan   int
	result assign.Result
}

// decide lets every assigner decide the batch, on the same servers and with the same view. Learnt is what each assigner
// knows already about the servers, by label; nil: what their grantors knew. Before are the plans of the round before, if any.
func (t *batch) decide(ctx context.Context, id string, learnt map[string]map[netip.Addr]assign.Memory, before []*plan) ([]*plan, error) {
	t.phase(PhaseDecide)
	if len(t.cfg.Assigners) > 1 && t.cfg.Mode != ModePersistent {
		t.deps.Frontier.SetPace(0)
		defer t.deps.Frontier.SetPace(1)
	}
	d := &driver{batch: t, id: id, begun: time.Now(), servers: make(map[netip.Addr]*server, len(t.servers)), answers: make(chan answer)}
	for _, s := range t.servers {
		d.servers[s.addr] = s
	}
	view, version := t.currentView()
	d.version = version
	for i, label := range t.cfg.Assigners {
		in := t.input(id, learnt[label])
		if before != nil {
			in.Before = before[i].assigner
		}
		a, err := assign.New(label, t.deps.Assign, in, view, d.begun)
		if err != nil {
			return nil, err
		}
		d.plans = append(d.plans, &plan{label: label, assigner: a})
	}
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	d.conclude()
	t.report(id, d.plans)
	return d.plans, nil
}

// input is the batch as an assigner gets it. Nothing in it is shared with another.
func (t *batch) input(id string, learnt map[netip.Addr]assign.Memory) assign.Batch {
	in := assign.Batch{ID: id, Home: t.deps.Self, Seed: seed(id)}
	for _, s := range t.servers {
		out := assign.Server{Addr: s.addr, Memory: s.memory.Clone(), Location: t.deps.Locate(s.addr)}
		if m, ok := learnt[s.addr]; ok {
			out.Memory = m.Clone()
		}
		for _, h := range s.hosts {
			out.Hosts = append(out.Hosts, assign.Host{Name: h.name, Pending: h.left(), PageBytes: out.Memory.PageBytes})
		}
		in.Servers = append(in.Servers, out)
	}
	return in
}

// driver asks what the assigners want to be asked until all have decided. The assigners belong to the goroutine of run.
type driver struct {
	batch   *batch
	id      string
	begun   time.Time
	version int // of the view that the assigners have
	plans   []*plan
	servers map[netip.Addr]*server
	asks    *errgroup.Group // those under way, of one server one after the other
	work    context.Context // ends with the first error
	cut     context.Context // ends the waits for politeness
	answers chan answer
}

// run ends when all have decided, or at the deadline; then no ask is under way any more.
func (d *driver) run(ctx context.Context) error {
	var stop context.CancelFunc
	d.cut, stop = context.WithCancel(ctx)
	defer stop()
	d.asks, d.work = errgroup.WithContext(ctx)
	err := d.drive(d.work)
	stop()
	failed := make(chan error, 1)
	go func() {
		failed <- d.asks.Wait()
		close(d.answers)
	}()
	for a := range d.answers { // what comes after the last decision still tells something
		d.observe(a, time.Now())
	}
	if first := <-failed; first != nil {
		return first
	}
	return err
}

// send carries out an ask of a plan, as soon as no other of that server is under way.
func (d *driver) send(plan int, ask assign.Ask) {
	s := d.servers[ask.Server]
	if s == nil {
		return
	}
	p := d.plans[plan]
	p.asking++
	d.asks.Go(func() (err error) {
		s.turns <- struct{}{}
		defer func() { <-s.turns }()
		result := assign.Result{Ask: ask}
		if d.cut.Err() == nil {
			result, err = s.estimate(d.work, d.cut, d.id, p.label, ask)
		}
		d.answers <- answer{plan, result}
		return err
	})
}

func (d *driver) observe(a answer, now time.Time) {
	d.plans[a.plan].asking--
	d.plans[a.plan].assigner.Observe(a.result, now)
}

// drive is the loop of the assigners.
func (d *driver) drive(ctx context.Context) error {
	deadline := d.begun.Add(d.batch.cfg.Deadline)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		d.refresh(now)
		if d.dispatch(now) || !now.Before(deadline) {
			return ctx.Err()
		}
		next := deadline
		for _, p := range d.plans {
			if due, ok := p.assigner.Next(now); p.choices == nil && ok && due.Before(next) {
				next = due
			}
		}
		// An assigner that says "now" and asks for nothing must not spin.
		timer.Reset(max(next.Sub(now), 10*time.Millisecond))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-d.answers:
			d.observe(a, time.Now())
		case <-d.batch.wake:
		case <-timer.C:
		}
	}
}

// refresh gives the assigners the newest view.
func (d *driver) refresh(now time.Time) {
	view, version := d.batch.currentView()
	if version == d.version {
		return
	}
	d.version = version
	for _, p := range d.plans {
		p.assigner.SetView(view, now)
	}
}

// dispatch sends what the assigners ask for on its way and collects decisions; it reports whether all have decided.
func (d *driver) dispatch(now time.Time) (all bool) {
	all = true
	for i, p := range d.plans {
		if p.choices != nil || d.decided(p, now) {
			continue
		}
		asks := p.assigner.Asks(now)
		for _, ask := range asks {
			d.send(i, ask)
		}
		// One that neither asks nor waits for anything may be done by now.
		if len(asks) > 0 || p.asking > 0 || !d.decided(p, now) {
			all = false
		}
	}
	return all
}

// decided takes the decision of an assigner, if it is done.
func (d *driver) decided(p *plan, now time.Time) bool {
	choices, done := p.assigner.Decide(now)
	if done {
		p.set(choices)
		p.seconds = now.Sub(d.begun).Seconds()
	}
	return done
}

func (p *plan) set(choices []assign.Choice) {
	p.choices = make(map[netip.Addr]assign.Choice, len(choices))
	for _, c := range choices {
		p.choices[c.Server] = c
	}
}

// conclude makes every plan whole: by the members of now, and by what an assigner knows that had not decided.
func (d *driver) conclude() {
	now := time.Now()
	d.refresh(now)
	for _, p := range d.plans {
		overdue := p.choices == nil
		p.set(p.assigner.Conclude(now))
		if !overdue {
			continue
		}
		d.batch.count(func(s *Status) { s.Overdue++ })
		p.seconds = now.Sub(d.begun).Seconds()
		for addr, c := range p.choices {
			c.Reason = fmt.Sprintf("undecided after %v: %s", d.batch.cfg.Deadline, c.Reason)
			p.choices[addr] = c
		}
	}
}

// report tells of every decision.
func (t *batch) report(id string, plans []*plan) {
	for _, p := range plans {
		for _, s := range t.servers {
			c := p.choices[s.addr]
			for _, h := range s.hosts {
				t.deps.Assigned(journal.Assign{Decided: true, Batch: id, Label: p.label, Host: h.name, Server: s.addr.String(), Owner: c.Node,
					URLs: h.left(), PredictedMs: c.PredictedMs, Estimates: c.Estimates, Accuracy: c.Error, Seconds: p.seconds, Reason: c.Reason})
			}
		}
	}
}
