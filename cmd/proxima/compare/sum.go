package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

func (c *comparer) result() *Result {
	res := &Result{Assigners: []Assigner{}, By: c.By}
	main := c.main()
	for _, r := range c.runs {
		res.Runs = append(res.Runs, c.info(r))
	}
	for _, r := range main {
		res.Pages, res.Uneven = res.Pages+r.pages, res.Uneven+r.uneven
	}
	for i, w := range c.rows {
		sum := tally{Assigner: Assigner{Name: w.name}}
		for _, r := range main {
			if t := r.tallies[i]; t != nil {
				sum.merge(t)
			}
		}
		a := sum.figures()
		if to := c.reference(i); to >= 0 {
			res.Reference = c.Against
			if to != i {
				a.Difference = c.difference(i, to)
			}
		}
		a.Seeds = seedShares(main, i)
		c.separately(&a, i)
		res.Assigners = append(res.Assigners, a)
	}
	first := -1 // the leading row
	if order := res.Order(); len(order) > 0 {
		first = slices.Index(c.rowNames(), order[0].Name)
		for i := range res.Assigners {
			if i != first {
				res.Assigners[i].Lead = c.difference(first, i)
			}
		}
	}
	res.Crawl, res.Statuses, res.Testbed, res.Reading = c.crawl(main), statuses(main), testbed(c.runs), c.reading()
	c.ofOne(res, main[0], first)
	res.LeftOut, res.Apart = slices.Sorted(maps.Keys(c.leftOut)), c.apart(main)
	res.Mixed = c.mixed(main)
	res.Makespans = c.apart(slices.DeleteFunc(slices.Clone(c.runs), func(r *run) bool { return r.compared }))
	if c.separate {
		res.Pages, res.Unshared = c.unshared()
	}
	if len(c.runs) > 1 {
		res.NodesOf = main[0].dir
	}
	return res
}

// unshared counts the pages of separate runs, and those that only some of the rows with the same seed got.
func (c *comparer) unshared() (pages, some int64) {
	rows := map[uint64]uint16{}
	for k := range c.clusters {
		rows[k.seed] |= k.rows
	}
	for k, l := range c.clusters {
		pages += l.n
		if k.rows != rows[k.seed] {
			some += l.n
		}
	}
	return pages, some
}

// apart reports whether some row has downloads in a world in which another one has none.
func (c *comparer) apart(main []*run) bool {
	worlds, rows := map[int]uint16{}, uint16(0)
	for _, r := range main {
		for row := range c.rows {
			if t := r.tallies[row]; t != nil && t.Downloaded > 0 {
				worlds[r.alike] |= 1 << row
				rows |= 1 << row
			}
		}
	}
	for _, had := range worlds {
		if had != rows {
			return true
		}
	}
	return false
}

// ofOne adds what comes from one run: nodes, servers and timelines. leader is the leading row.
func (c *comparer) ofOne(res *Result, main *run, leader int) {
	res.Nodes, res.Servers, res.CoordError = main.uses(), c.servers(main, leader), main.coordError()
	for _, n := range main.nodes {
		if n.name != "" {
			res.Speed, res.CPU = drawn(res.Speed, means(n.name, &n.speed)), drawn(res.CPU, means(n.name, &n.cpu))
			res.Queue = drawn(res.Queue, means(n.name, &n.queue))
		}
	}
	for i, w := range c.rows {
		if r := c.runOf(i); r != nil && len(r.progress[i].cells) > 0 {
			res.Progress = append(res.Progress, cumulative(w.name, &r.progress[i]))
			res.SpeedBy = drawn(res.SpeedBy, medians(w.name, &r.speeds[i], recentPages))
		}
	}
	if main.world != nil {
		res.Events = inWords(main.world.Events)
	}
	res.Affected, res.Homes = c.affectedSeries(main), c.homeUses(main)
}

// servers lists the servers of a run that have a place or were decided about, those where the leading row loses most first.
func (c *comparer) servers(r *run, leader int) []Server {
	var list []Server
	loss := map[string]float64{}
	for i, addr := range c.names {
		place, choices := r.servers[addr], r.choices[uint32(i)]
		if place == nil && len(choices) == 0 {
			continue
		}
		s := Server{Addr: addr}
		if k, ok := r.places[addr]; ok {
			w := r.world.Servers[k]
			s.City, s.Geo = w.City, &Point{w.Lon, w.Lat}
			if len(w.Hosts) > 0 {
				s.Host = w.Hosts[0]
			}
		}
		if place != nil {
			s.Space = place.at.Vec[:]
		}
		for row, w := range c.rows {
			k, ok := choices[row]
			if !ok || int(k.node) >= len(r.nodes) {
				continue
			}
			chosen := Choice{Row: w.name, Node: r.nodes[k.node].name}
			if k.best > 0 {
				chosen.LossMs = new(k.here - k.best)
				s.Best, s.BestMs = r.world.Nodes[k.bestNode].Name, k.best
				loss[addr] += 1e-6 * *chosen.LossMs // the other rows break a tie
				if row == leader {
					loss[addr] += *chosen.LossMs
				}
			}
			s.Choices = append(s.Choices, chosen)
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Server) int {
		return cmp.Or(cmp.Compare(loss[b.Addr], loss[a.Addr]), cmp.Compare(a.Addr, b.Addr))
	})
	return list
}

func (c *comparer) info(r *run) RunInfo {
	i := RunInfo{Dir: r.dir, Name: r.name, Emulated: r.emulated(), Started: r.started, Nodes: len(r.nodes), Servers: r.met(),
		Version: r.version, Config: r.config}
	if r.world != nil {
		i.Scenario, i.Seed, i.Nodes, i.Servers = r.world.Scenario, r.world.Seed, len(r.world.Nodes), len(r.world.Servers)
	}
	if r.testbed != nil {
		i.Cores, i.Machine, i.MadeBy = r.testbed.Cores, r.testbed.Machine, r.testbed.Command
	}
	if !r.last.IsZero() {
		if r.first.Before(i.Started) { // the event of the start is lost
			i.Started = r.first
		}
		i.Seconds = r.last.Sub(i.Started).Seconds()
	}
	for row := range each(r.rows) {
		i.Assigners = append(i.Assigners, c.rows[row].assigner)
	}
	var tuned []string
	for _, s := range r.tuned {
		tuned = append(tuned, s.key+" = "+s.value)
	}
	i.Differs = strings.Join(tuned, ", ")
	return i
}

// portable is the emulation that is least like a network.
const portable = "portable"

// testbed returns the worst that the runs' testbeds say.
func testbed(runs []*run) Testbed {
	var t Testbed
	var p50, p99 float64 // delay errors
	for _, r := range runs {
		if r.killed {
			t.Trusted = new(false)
			t.Why = append(t.Why, r.dir+": the run did not come to its end, so the truth about its network is not known, nor how faithful the testbed was")
		}
		if r.world == nil {
			continue
		}
		b := r.testbed
		if b == nil {
			t.Trusted = new(false)
			t.Why = append(t.Why, r.dir+": the testbed did not say how faithful it was")
			continue
		}
		t.Trusted = new(b.Trusted && (t.Trusted == nil || *t.Trusted))
		p50, p99 = max(p50, b.DelayErrorP50Ms), max(p99, b.DelayErrorP99Ms)
		t.DelayErrorP50Ms, t.DelayErrorP99Ms = &p50, &p99
		t.Dropped += b.DroppedForOwn
		if t.Emulation != portable {
			t.Emulation = b.Emulation
		}
		t.Busy, t.WaitP99Ms = max(t.Busy, b.CPUBusy), max(t.WaitP99Ms, b.WaitP99Ms)
		if b.Calibrations > 0 && (t.Calibrations == 0 || math.Abs(b.CalibrationP50-1) > math.Abs(t.CalibrationP50-1)) {
			t.CalibrationP10, t.CalibrationP50, t.CalibrationP90 = b.CalibrationP10, b.CalibrationP50, b.CalibrationP90
			t.Calibrations = b.Calibrations
		}
		for _, why := range b.Why {
			if !slices.Contains(t.Why, why) {
				t.Why = append(t.Why, why)
			}
		}
	}
	return t
}
