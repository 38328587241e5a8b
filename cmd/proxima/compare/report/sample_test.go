package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// sampleCities are places of the made-up nodes.
func sampleCities() []string {
	return []string{"London", "Paris", "Stockholm", "Warsaw", "Madrid", "Sofia", "New York",
		"Seattle", "São Paulo", "Singapore", "Tokyo", "Sydney"}
}

// sample is a made-up comparison that looks like a real one: a bandwidth experiment, no figure measured.
func sample(nodes, servers, points int) Data {
	r := rand.New(rand.NewPCG(7, uint64(nodes)))
	const length, cut, heal = 600.0, 200.0, 420.0
	d := Data{
		Scenario: "bandwidth", Seed: "7", LengthS: length, Made: "2026-11-21 15:40 UTC", Version: "v0.4.0-dev",
		Description: "Six European and four other nodes crawl servers in America; " +
			"the one that gets most loses four fifths of its bandwidth for a while.",
		Sources: []string{"runs/bandwidth-7"},
		Testbed: Testbed{Known: true, Trusted: true, Kind: "TUN", DelayErrorP50MS: 0.11, DelayErrorP99MS: 0.42, Busy: 0.41, CoreWaitP99MS: 1.9,
			CalibrationError: 0.021},
		Crawl: Crawl{Coverage: 1, CoverageGenerated: 0.998, Overlap: 0.0004, URLsPerPage: 3.1, MessagesPerPage: 0.22, BytesPerPage: 410,
			Reassigned: 37},
		Statuses: []Status{{"communication failure", 71}, {"DNS error", 12}, {"200", 22841}, {"301", 310}, {"403", 44}, {"404", 803}, {"500", 5}},
		Events:   []Event{{cut, heal, "bandwidth ÷ 5", "n7"}, {500, 500, "restart", "n2"}},
	}
	cities := sampleCities()
	for i := range nodes {
		n := Node{Name: "n" + strconv.Itoa(i+1), City: cities[i%len(cities)], URLs: int64(1800 + r.IntN(900)),
			Bytes: int64(4e7 + 2e7*r.Float64()),
			BusyS: 300 + 200*r.Float64(), CPUS: 12 + 6*r.Float64(), CPUMSPage: 5 + 2*r.Float64(), PeakBytes: int64(9e7 + 4e7*r.Float64()),
			CoordError: 0.05 + 0.06*r.Float64()}
		d.Nodes = append(d.Nodes, n)
	}
	d.Assigners = []Assigner{
		{Name: "nearest", P50MS: 312, P90MS: 981, P99MS: 2710, MeanMS: 448, DiffMS: -391, DiffLowMS: -420, DiffHighMS: -363, ChoiceRatio: 1.08,
			ChoiceRatioWithEstimates: 1.12, TotalRatio: 1.16, TotalRatioWithEstimates: 1.21, BestShare: 0.81, EstimatesP50: 9, EstimatesP90: 17,
			DecideP50S: 31, DecideError: 0.11, MakespanS: 402, BalanceCV: 0.31, BusyCV: 0.22},
		{Name: "vivaldi", P50MS: 441, P90MS: 1502, P99MS: 4120, MeanMS: 640, DiffMS: -199, DiffLowMS: -231, DiffHighMS: -167, ChoiceRatio: 1.52,
			ChoiceRatioWithEstimates: 1.61, TotalRatio: 1.63, TotalRatioWithEstimates: 1.78, BestShare: 0.43, EstimatesP50: 64, EstimatesP90: 108,
			DecideP50S: 214, DecideError: 0.25, MakespanS: 577, BalanceCV: 0.52, BusyCV: 0.48, Truncated: 3},
		{Name: "geographic", P50MS: 398, P90MS: 1311, P99MS: 3904, MeanMS: 571, DiffMS: -268, DiffLowMS: -299, DiffHighMS: -237, ChoiceRatio: 1.31,
			TotalRatio: 1.42, TotalRatioWithEstimates: 1.42, BestShare: 0.52, EstimatesP50: Unknown(), EstimatesP90: Unknown(), MakespanS: 521,
			BalanceCV: 0.66, BusyCV: 0.71},
		{Name: "random", P50MS: 588, P90MS: 1990, P99MS: 5210, MeanMS: 839, DiffMS: Unknown(), DiffLowMS: Unknown(), DiffHighMS: Unknown(),
			ChoiceRatio: 2.04, TotalRatio: 2.17, TotalRatioWithEstimates: 2.17, BestShare: 0.1, EstimatesP50: Unknown(), EstimatesP90: Unknown(),
			MakespanS: 702, BalanceCV: 0.12, BusyCV: 0.35},
	}
	for i := range d.Assigners {
		a := &d.Assigners[i]
		a.URLs, a.Failed, a.Bytes = 24000, int64(60+r.IntN(30)), 512_000_000
		a.Downloaded = a.URLs - a.Failed
		a.BalanceMin, a.BalanceMax = math.Round(2400*(1-a.BalanceCV)), math.Round(2400*(1+a.BalanceCV))
		a.BusyMinS, a.BusyMaxS = math.Round(400*(1-a.BusyCV)), math.Round(400*(1+a.BusyCV))
		for seed := range 3 {
			x := 1 + 0.04*r.NormFloat64()
			a.Repeats = append(a.Repeats, Repeat{strconv.Itoa(seed + 7), math.Max(1, a.ChoiceRatio*x), math.Max(1, a.TotalRatio*x), a.P50MS * x})
		}
		sampleAssigner(&d, *a, r, points, length, cut, heal)
	}
	sampleNodes(&d, r, points, length, cut, heal)
	sampleSpace(&d, r, nodes, servers)
	return d
}

// sampleAssigner adds what is drawn for one assigner.
func sampleAssigner(d *Data, a Assigner, r *rand.Rand, points int, length, cut, heal float64) {
	sigma := math.Log(a.P90MS/a.P50MS) / 1.2816
	var times []float64
	for range 4000 {
		times = append(times, a.P50MS*math.Exp(sigma*r.NormFloat64()))
	}
	slices.Sort(times)
	cdf := Series{Label: a.Name, Unit: "ms"}
	for i, t := range times {
		cdf.Points = append(cdf.Points, Point{t, float64(i+1) / float64(len(times))})
	}
	d.CDF = append(d.CDF, cdf)
	if len(d.Affected) == 0 {
		d.Affected = []Affected{{Name: "n7", Kind: "node"}}
	}
	hit := &d.Affected[0]
	line := func(unit string, f func(t float64, during bool) float64) Series {
		s := Series{Label: a.Name, Unit: unit}
		for i := range points {
			t := length * float64(i) / float64(max(points-1, 1))
			s.Points = append(s.Points, Point{t, f(t, t > cut+30 && t < heal+40)})
		}
		return s
	}
	adapts := map[string]float64{"nearest": 0.06, "vivaldi": 0.3, "geographic": 1, "random": 1}[a.Name]
	base := map[string]float64{"nearest": 260, "vivaldi": 190, "geographic": 230, "random": 110}[a.Name]
	total, last := 0.0, 0.0
	rate := line("URLs/min", func(_ float64, during bool) float64 {
		if during {
			return math.Max(0, base*adapts*(1+0.2*r.NormFloat64()))
		}
		return math.Max(0, base*(1+0.15*r.NormFloat64()))
	})
	hit.Rate = append(hit.Rate, rate)
	k := 0
	hit.URLs = append(hit.URLs, line("URLs", func(t float64, _ bool) float64 {
		total += rate.Points[k].Y * (t - last) / 60
		last, k = t, k+1
		return total
	}))
	if a.Name == "nearest" || a.Name == "vivaldi" {
		hit.Distance = append(hit.Distance, line("ms", func(_ float64, during bool) float64 {
			if during {
				return base/2 + 160 + 12*r.NormFloat64()
			}
			return base/2 + 8*r.NormFloat64()
		}))
		hit.Error = append(hit.Error, line("1", func(t float64, during bool) float64 {
			x := 0.12 + base/3000 + 0.01*r.NormFloat64()
			if during {
				x += 0.3 * math.Exp(-(t-cut)/60)
			}
			return x
		}))
	}
	done := 0.0
	d.Progress = append(d.Progress, line("URLs", func(_ float64, _ bool) float64 {
		done += 24000 / float64(points) * (300 / a.P50MS) * (0.9 + 0.2*r.Float64())
		return done
	}))
	shares := Balance{Assigner: a.Name}
	for _, n := range d.Nodes {
		shares.Shares = append(shares.Shares, Share{n.Name, math.Max(0, 24000/float64(len(d.Nodes))*(1+a.BalanceCV*r.NormFloat64())),
			math.Max(0, 380*(1+a.BusyCV*r.NormFloat64()))})
	}
	d.Balance = append(d.Balance, shares)
}

// sampleNodes adds what is drawn for each node.
func sampleNodes(d *Data, r *rand.Rand, points int, length, cut, heal float64) {
	for i, n := range d.Nodes {
		speed, load := Series{Label: n.Name, Unit: "kB/s"}, Series{Label: n.Name, Unit: "load"}
		fault := Series{Label: n.Name, Unit: "1"}
		base := 120 + 40*r.Float64()
		for k := range points {
			t := length * float64(k) / float64(max(points-1, 1))
			v := base * (1 + 0.05*r.NormFloat64())
			if i == 6 && t > cut && t < heal+20 {
				v /= 5
			}
			speed.Points = append(speed.Points, Point{t, v})
			load.Points = append(load.Points, Point{t, math.Max(0, 0.6+0.3*math.Sin(t/50+float64(i))+0.1*r.NormFloat64())})
			fault.Points = append(fault.Points, Point{t, 0.07 + 0.6*math.Exp(-t/40)*(1+0.1*r.NormFloat64()) + 0.02*r.Float64()})
		}
		d.Speed, d.Load, d.CoordError = append(d.Speed, speed), append(d.Load, load), append(d.CoordError, fault)
	}
}

// sampleSpace places nodes and servers and gives each server to a node.
func sampleSpace(d *Data, r *rand.Rand, nodes, servers int) {
	centres := [][]float64{{-40, 10, 4, 0}, {-36, 18, -3, 2}, {70, -6, 2, 5}, {115, 14, -8, 0}, {30, -90, 10, 3}, {120, 90, 0, -9}}
	for i := range nodes {
		c, v := centres[i%len(centres)], make([]float64, 4)
		for k := range v {
			v[k] = c[k] + 14*r.NormFloat64()
		}
		d.Map.Nodes = append(d.Map.Nodes, Place{Name: d.Nodes[i].Name, City: d.Nodes[i].City, Vector: v, HeightMS: 2 + 3*r.Float64()})
	}
	for i := range servers {
		c, v := centres[(i*i+i)%len(centres)], make([]float64, 4)
		for k := range v {
			v[k] = c[k] + 18*r.NormFloat64()
		}
		s := Place{Name: fmt.Sprintf("198.18.%d.%d", i/200+1, i%200+10), City: sampleCities()[i%12], Vector: v, HeightMS: 3}
		order := make([]int, nodes)
		for k := range order {
			order[k] = k
		}
		slices.SortFunc(order, func(a, b int) int { return int(distance(d.Map.Nodes[a], s) - distance(d.Map.Nodes[b], s)) })
		pick := func(n int) string { return d.Map.Nodes[order[min(r.IntN(n), nodes-1)]].Name }
		s.Owners = []Owner{{"nearest", pick(2)}, {"vivaldi", pick(4)}, {"geographic", pick(3)}, {"random", pick(nodes)}}
		d.Map.Servers = append(d.Map.Servers, s)
	}
}

// hostile is a comparison whose every word is an attack or a nuisance.
func hostile() Data {
	const evil = `"><script>document.title='owned'</script><img src=x onerror=alert(1)>'` + "]]>--><!--</svg></style>\x00\x1b\u202egnp.\xff{{.}}"
	d := sample(4, 12, 40)
	d.Scenario, d.Seed, d.Description, d.Made, d.Version, d.Headline = evil, evil, evil, evil, evil, evil
	d.Sources, d.Notes = []string{evil, "javascript:alert(1)"}, []string{evil, "see http://evil.example/x.js"}
	d.Testbed.Trusted, d.Testbed.Reasons, d.Testbed.Kind = false, []string{evil}, evil
	d.Crawl.Withheld = evil
	for i := range d.Assigners {
		d.Assigners[i].Name = evil + strconv.Itoa(i)
		d.Assigners[i].Repeats[0].Seed = evil
		d.Balance[i].Assigner, d.CDF[i].Label = evil+strconv.Itoa(i), evil+strconv.Itoa(i)
		d.Progress[i].Label, d.Progress[i].Unit = evil, evil
	}
	for i := range d.Nodes {
		d.Nodes[i].Name, d.Nodes[i].City = evil+strconv.Itoa(i), evil
		d.Speed[i].Label, d.Speed[i].Unit = evil, evil
	}
	for i := range d.Map.Servers {
		d.Map.Servers[i].Name, d.Map.Servers[i].City = "url(http://evil.example)"+evil, evil
		d.Map.Servers[i].Owners = append(d.Map.Servers[i].Owners, Owner{evil, evil})
	}
	for i := range d.Map.Nodes {
		d.Map.Nodes[i].Name, d.Map.Nodes[i].City = evil+strconv.Itoa(i), evil
	}
	d.Events = append(d.Events, Event{10, math.Inf(1), evil, evil}, Event{math.NaN(), 1, evil, evil})
	d.Affected[0].Name, d.Affected[0].Kind = evil, evil
	d.Statuses = append(d.Statuses, Status{evil, 3}, Status{strings300(), 1})
	return d
}

// strings300 is a word without a place to break it.
func strings300() string {
	b := make([]byte, 300)
	for i := range b {
		b[i] = 'W'
	}
	return string(b)
}
