package assign

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"proxima/ncoord/quantile"
)

const (
	// The number of downloads that load and bandwidth are learnt from.
	ownWindow = 64
	// The number of downloads per second to learn from in the long run. A fast node makes thousands, but then a window of 64 downloads
	// would cover only a moment.
	ownRate = 8.0
	// The prior probability that load or bandwidth changes at a given download.
	changeRate = 0.01
)

// Own learns a node's Factors from the node's own downloads from all servers. The time to the first byte, minus round trip and think
// time, reveals the load; the rest of the body reveals the bandwidth. It learns from a sample of the downloads and remembers the
// last 64 of them. NewOwn creates it. It is not safe for concurrent use.
type Own struct {
	load, slow window
	samples    int
	now        float64 // the load as estimated a few downloads ago, in ms
	trips      trips
	// budget is the number of downloads that it could still learn from at the time spent.
	budget float64
	spent  time.Time
	jitter *rand.Rand
}

// window has the prior of a quantity, and the likelihoods of the last downloads on a grid of its logarithm.
type window struct {
	mean, sd float64 // prior, of the logarithm
	last     []likelihood
	value    density // the quantity at each point of the grid
	prior    density // in logarithms; the densities add up to 1
}

// The grid covers gridReach standard deviations of the prior on either side.
const gridPoints, gridReach = 49, 3.0

// density is a number for each point of the grid.
type density [gridPoints]float64

// likelihood is the likelihood of a download, as logarithms over the grid.
type likelihood [gridPoints]float32

// newWindow makes a window without downloads whose quantity has this prior.
func newWindow(median, sd float64) window {
	w := window{mean: math.Log(median), sd: sd}
	var norm float64
	for i := range w.prior {
		z := gridReach * (2*float64(i)/(gridPoints-1) - 1)
		w.value[i], w.prior[i] = median*math.Exp(sd*z), -z*z/2
		norm += math.Exp(w.prior[i])
	}
	for i := range w.prior {
		w.prior[i] -= math.Log(norm)
	}
	return w
}

// part is a measured time. Its expected value is rest + hidden + scale × the quantity. hidden is the log-normal think time of the server.
type part struct{ took, rest, hidden, hiddenSD, scale float64 }

// NewOwn begins with the factors that the node published before its restart, or with the zero value.
func NewOwn(before Factors) *Own {
	o := &Own{now: loadPriorMs, budget: ownWindow, jitter: rand.New(rand.NewPCG(uint64(before.Samples), 0))}
	load, loadSD, slow, slowSD := loadPriorMs, loadPriorSD, slowPrior, slowPriorSD
	if before.Samples > 0 && before.Check() == nil {
		o.samples = before.Samples
		if before.LoadMs > 0 {
			load, loadSD = doubted(before.LoadMs, before.LoadError, loadPriorMs, loadPriorSD)
			o.now = load
		}
		if before.BytesPerMs > 0 {
			slow, slowSD = doubted(1/before.BytesPerMs, before.BytesError, slowPrior, slowPriorSD)
		}
	}
	o.load, o.slow = newWindow(load, loadSD), newWindow(slow, slowSD)
	return o
}

// doubted returns a quantity of a node that may have changed in the meantime. sd is its standard deviation in the log domain. It grows up to
// that of the prior. From then on the quantity approaches the prior: nobody knows less of a node than of a new one.
func doubted(median, sd, prior, priorSD float64) (float64, float64) {
	sd = math.Hypot(sd, 0.5)
	if sd <= priorSD {
		return median, sd
	}
	return prior * math.Pow(median/prior, priorSD/sd), priorSD
}

// Due reports whether Observe would learn from a download that ends now. It learns from all downloads while they are few, and later
// from a random sample of ownRate per second.
func (o *Own) Due(now time.Time) bool {
	if passed := now.Sub(o.spent); passed > 0 {
		o.budget, o.spent = min(o.budget+passed.Seconds()*ownRate, ownWindow), now
	}
	return o.budget >= 1
}

// Factors returns the current factors. It computes them from the whole window, so callers call it to publish, not after each download.
func (o *Own) Factors() Factors {
	if o.samples == 0 {
		return Factors{}
	}
	load, loadSD := o.load.estimate()
	slow, slowSD := o.slow.estimate()
	return Factors{LoadMs: load, LoadError: loadSD, BytesPerMs: 1 / slow, BytesError: slowSD, Samples: min(o.samples, math.MaxUint16)}
}

// Observe learns from a successful download by the node self. m is what is known about the server, or nil. Downloads by other nodes in m
// reveal the think time, and v has the loads of those nodes. m may already include the download. For a reused connection, the round
// trip is that of earlier connections.
func (o *Own) Observe(self string, server netip.Addr, t Timing, m *Memory, v View, now time.Time) {
	first, connect := ms(t.FirstByte), ms(t.Connect)
	if first <= 0 || connect < 0 || t.Total <= 0 || t.Bytes < 0 || ms(t.Total) > maxDownloadMs {
		return
	}
	due := o.Due(now)
	trip := o.trips.add(server, connect, o.now, now)
	if !due {
		return
	}
	if trip.times == 0 && m != nil {
		if e := m.find(nodeKey(self)); e != nil {
			trip.least, trip.load = e.connect(), o.now
		}
	}
	if trip.least <= 0 {
		return // without the round trip, the load is unknown
	}
	// With regular intervals it could always learn from the same server, if servers take turns.
	o.budget -= 0.5 + o.jitter.Float64()
	rtt := cleanConnect(trip.least, leastExcess(trip.times), trip.load)
	o.samples++
	think, sd := thinkPriorMs, thinkPriorSD
	if m != nil {
		think, sd = m.thinkWithout(nodeKey(self), v)
	}
	// The connect time beyond the round trip is also load, except for the usual noise. It does not depend on the bandwidth.
	beyond := max(connect-trip.least, 0)
	usual := (connectExcess - leastExcess(trip.times)) * rtt
	o.load.add(part{took: first + beyond, rest: rtt + usual, hidden: think, hiddenSD: sd, scale: 1})
	if o.samples%8 == 1 {
		o.now, _ = o.load.estimate()
	}
	// Include the round trip, since the time after the first byte may be a small, noisy difference of large times.
	body := ms(t.Total-t.TLS) - first - connect + trip.least
	if bytes := float64(t.Bytes); body > 0 && bytes > 0 {
		o.slow.add(part{took: body, rest: (rounds(bytes) - 1) * rtt, scale: bytes})
	}
}

// The sum over hidden has hiddenSteps values within hiddenReach standard deviations on either side.
const hiddenSteps, hiddenReach = 9, 2.4

// add adds the likelihood of a measured time, and drops the oldest one of too many.
func (w *window) add(p part) {
	if len(w.last) == ownWindow {
		w.last = w.last[:copy(w.last, w.last[1:])]
	}
	// Sum over the hidden part, since its share of the time is unknown.
	steps, rest, weight := 1, [hiddenSteps]float64{p.rest}, [hiddenSteps]float64{1}
	if p.hidden > 0 {
		steps = hiddenSteps
		for k := range steps {
			z := hiddenReach * (2*float64(k)/(hiddenSteps-1) - 1)
			rest[k], weight[k] = p.rest+p.hidden*math.Exp(z*p.hiddenSD), math.Exp(-z*z/2)
		}
	}
	var l likelihood
	for i, value := range w.value {
		var sum float64
		for k := range steps {
			r := math.Log(p.took/(rest[k]+p.scale*value)) / downloadSD
			// Student's t with 4 degrees of freedom: q^−2.5.
			q := 1 + r*r/4
			sum += weight[k] / (q * q * math.Sqrt(q))
		}
		l[i] = float32(math.Log(sum))
	}
	w.last = append(w.last, l)
}

// estimate returns the quantity and its standard deviation in the log domain. The quantity may have changed once during the remembered
// downloads, so the estimate is the mean over all possible times of the change (R. Adams, D. MacKay: Bayesian Online Changepoint
// Detection, 2007). It therefore shows a change after a few downloads, and uses all downloads if there is no change.
func (w *window) estimate() (value, sd float64) {
	n := len(w.last)
	// The evidence of the first k downloads. That of the last n − k follows below.
	before := make([]float64, n)
	sum := w.prior
	var posterior density
	for k := range n {
		before[k] = sum.evidence(&posterior)
		sum.add(&w.last[k])
	}
	var mixed density
	weights := sum.evidence(&mixed) // logarithm of the sum of the weights so far
	recent := w.prior
	for k := n - 1; k > 0; k-- {
		recent.add(&w.last[k])
		own := recent.evidence(&posterior)
		weight := math.Log(changeRate) + before[k] + own
		total := max(weights, weight) + math.Log1p(math.Exp(-math.Abs(weight-weights)))
		share := math.Exp(weight - total)
		for i := range mixed {
			mixed[i] += share * (posterior[i] - mixed[i])
		}
		weights = total
	}
	var first, second float64
	for i, p := range mixed {
		x := w.mean + w.sd*gridReach*(2*float64(i)/(gridPoints-1)-1)
		first, second = first+p*x, second+p*x*x
	}
	step := 2 * w.sd * gridReach / (gridPoints - 1)
	return math.Exp(first), math.Sqrt(max(second-first*first, step*step/12))
}

// add adds the log likelihoods of a download to log densities.
func (d *density) add(l *likelihood) {
	for i, x := range l {
		d[i] += float64(x)
	}
}

// evidence returns the logarithm of the sum of the densities, and normalises them into p.
func (d *density) evidence(p *density) float64 {
	most := math.Inf(-1)
	for _, x := range d {
		most = max(most, x)
	}
	var sum float64
	for i, x := range d {
		p[i] = math.Exp(x - most)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return most + math.Log(sum)
}

// connect returns the median of the connect times in ms, or 0 if there is none.
func (e *seen) connect() float64 {
	var connects []float64
	for _, x := range e.samples {
		if x.connect > 0 {
			connects = append(connects, x.connect.value())
		}
	}
	if connects == nil {
		return 0
	}
	return quantile.Median(connects)
}

// thinkWithout returns the think time in ms according to the downloads by nodes other than key, and its standard deviation in the log
// domain. Without such downloads it is the prior.
func (m *Memory) thinkWithout(key uint64, v View) (ms, sd float64) {
	loads := make(map[uint64]float64, len(v.Nodes))
	for _, n := range v.Nodes {
		q := loadOf(n)
		loads[nodeKey(n.ID)] = q.value()
	}
	var thinks []float64
	for i := range m.seen {
		e := &m.seen[i]
		connect := e.connect()
		if e.key == key || connect <= 0 {
			continue
		}
		load, ok := loads[e.key]
		if !ok {
			load = loadPriorMs
		}
		for _, x := range e.samples {
			first := x.first.value()
			thinks = append(thinks, math.Log(max(first-cleanConnect(connect, connectExcess, load)-load, 0.05*first, 0.1)))
		}
	}
	// The mean is shrunk towards the prior. More downloads shrink it less.
	n := float64(len(thinks))
	if n == 0 {
		return thinkPriorMs, thinkPriorSD
	}
	const one = 0.7 // of one download, in the log domain: noise, and the load of the node that made it
	share := thinkPriorSD * thinkPriorSD / (thinkPriorSD*thinkPriorSD + one*one/n)
	return math.Exp(share*quantile.Median(thinks) + (1-share)*math.Log(thinkPriorMs)), thinkPriorSD * math.Sqrt(1-share)
}
