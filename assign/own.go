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
	// The number of downloads a second to learn from in the long run. A fast node makes thousands, but a window of 64 of those
	// would reach back only a moment.
	ownRate = 8.0
	// The prior probability that load or bandwidth changes at a given download.
	changeRate = 0.01
)

// Own learns a node's Factors from the node's own downloads, of whatever server. The first byte less round trip and think time
// shows the load, the rest of the body the bandwidth. It learns from a sample of the downloads and remembers the last 64 of it.
// Make it by NewOwn. It is not safe for concurrent use.
type Own struct {
	load, slow window
	samples    int
	now        float64 // the load as estimated a few downloads ago, in ms
	trips      trips
	// budget is the number of downloads that it might still learn from at the time spent.
	budget float64
	spent  time.Time
	jitter *rand.Rand
}

// window is what is known of one quantity: its prior, and the likelihoods of the last downloads on a grid of its logarithm.
type window struct {
	mean, sd float64 // prior, of the logarithm
	last     []likelihood
	value    density // the quantity at each point of the grid
	prior    density // in logarithms; the densities add up to 1
}

// The grid reaches gridReach standard deviations of the prior to either side.
const gridPoints, gridReach = 49, 3.0

// density is a number for each point of the grid.
type density [gridPoints]float64

// likelihood is that of one download, as logarithms over the grid.
type likelihood [gridPoints]float32

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

// part is a measured time that should be rest + hidden + scale × the quantity, up to the noise of a download. hidden is log-normal:
// the think time of the server.
type part struct{ took, rest, hidden, hiddenSD, scale float64 }

// NewOwn begins with the factors published in an earlier life, the zero value if there are none.
func NewOwn(before Factors) *Own {
	o := &Own{now: loadPriorMs, budget: ownWindow, jitter: rand.New(rand.NewPCG(uint64(before.Samples), 0))}
	load, loadSD, slow, slowSD := loadPriorMs, loadPriorSD, slowPrior, slowPriorSD
	if before.Samples > 0 && before.Check() == nil {
		o.samples = before.Samples
		// The node may have changed since.
		if before.LoadMs > 0 {
			o.now, load, loadSD = before.LoadMs, before.LoadMs, math.Hypot(before.LoadError, 0.5)
		}
		if before.BytesPerMs > 0 {
			slow, slowSD = 1/before.BytesPerMs, math.Hypot(before.BytesError, 0.5)
		}
	}
	o.load, o.slow = newWindow(load, loadSD), newWindow(slow, slowSD)
	return o
}

// Due reports whether Observe would learn from a download that ends now: from all while they are few, then from a random sample of
// ownRate a second. Downloads that are not due cost next to nothing.
func (o *Own) Due(now time.Time) bool {
	if passed := now.Sub(o.spent); passed > 0 {
		if !o.spent.IsZero() {
			o.budget = min(o.budget+passed.Seconds()*ownRate, ownWindow)
		}
		o.spent = now
	}
	return o.budget >= 1
}

// Factors returns what has been learnt. It works through the whole window: call it to publish, not for each download.
func (o *Own) Factors() Factors {
	if o.samples == 0 {
		return Factors{}
	}
	load, loadSD := o.load.estimate()
	slow, slowSD := o.slow.estimate()
	return Factors{LoadMs: load, LoadError: loadSD, BytesPerMs: 1 / slow, BytesError: slowSD, Samples: o.samples}
}

// Observe takes one successful download by the node self from a server. m is what is known of the server, nil if nothing: the
// downloads of other nodes in it tell the think time, and v has the loads of those nodes. m may include the download already. For
// a reused connection the round trip is that of earlier connections.
func (o *Own) Observe(self string, server netip.Addr, t Timing, m *Memory, v View, now time.Time) {
	first, connect := ms(t.FirstByte), ms(t.Connect)
	if first <= 0 || connect < 0 || t.Total <= 0 || t.Bytes < 0 || ms(t.Total) > maxDownloadMs {
		return
	}
	due := o.Due(now)
	if !due && connect <= 0 {
		return
	}
	trip := o.trips.take(server, connect, o.now, now)
	if !due {
		return
	}
	if trip.times == 0 && m != nil {
		trip.least, trip.load, trip.times = m.connectOf(nodeKey(self)), o.now, 1
	}
	if trip.least <= 0 {
		return // without the round trip the load cannot be told apart
	}
	// At an even pace it might meet the same server again and again, if servers take turns.
	o.budget -= 0.5 + o.jitter.Float64()
	rtt := trip.rtt()
	o.samples = min(o.samples+1, math.MaxUint16)
	think, sd := thinkPriorMs, thinkPriorSD
	if m != nil {
		think, sd = m.thinkWithout(nodeKey(self), v)
	}
	// What connecting took beyond the round trip is load, too, except for the usual noise. Bandwidth has no part in it.
	beyond := max(connect-trip.least, 0)
	usual := (connectExcess - leastExcess(trip.times)) * rtt
	o.load.add(part{took: first + beyond, rest: rtt + usual, hidden: think, hiddenSD: sd, scale: 1})
	if o.samples%8 == 1 {
		o.now, _ = o.load.estimate()
	}
	// The round trip is included, since what came after the first byte may be a small, noisy difference of large times.
	body := ms(t.Total-t.TLS) - first - connect + trip.least
	if bytes := float64(t.Bytes); body > 0 && bytes > 0 {
		o.slow.add(part{took: body, rest: (rounds(bytes) - 1) * rtt, scale: bytes})
	}
}

// The sum over hidden takes hiddenSteps values that reach hiddenReach standard deviations to either side.
const hiddenSteps, hiddenReach = 9, 2.4

func (w *window) add(p part) {
	if len(w.last) == ownWindow {
		w.last = w.last[:copy(w.last, w.last[1:])]
	}
	// Sum over the hidden part: it may be most of the time, or hardly any of it.
	steps, rest, weight := 1, [hiddenSteps]float64{p.rest}, [hiddenSteps]float64{1}
	if p.hidden > 0 && p.hiddenSD > 0 {
		steps = hiddenSteps
		for k := range steps {
			z := hiddenReach * (2*float64(k)/(hiddenSteps-1) - 1)
			rest[k], weight[k] = p.rest+p.hidden*math.Exp(z*p.hiddenSD), math.Exp(-z*z/2)
		}
	} else {
		rest[0] += p.hidden
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

// estimate returns the quantity and its standard deviation in the log domain. The quantity may have changed once among the
// remembered downloads: the estimate is the mean over the times at which it may have done so (R. Adams, D. MacKay: Bayesian Online
// Changepoint Detection, 2007). So a change shows within a few downloads, and without a change all downloads count.
func (w *window) estimate() (value, sd float64) {
	n := len(w.last)
	// The evidence of the first k downloads; those of the last n − k follow below.
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

// connectOf is the median connect time of a node in ms, 0 if none is remembered.
func (m *Memory) connectOf(key uint64) float64 {
	for _, e := range m.seen {
		if e.key == key {
			return e.connect()
		}
	}
	return 0
}

// connect is the median of the connect times in ms, 0 if there is none.
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

// thinkWithout is the think time in ms as nodes other than key saw it, and its standard deviation in the log domain. If none of
// them saw any it is the prior.
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
	// The mean is shrunk towards the prior, less the more downloads there are.
	n := float64(len(thinks))
	if n == 0 {
		return thinkPriorMs, thinkPriorSD
	}
	const one = 0.7 // of one download, in the log domain: noise, and the load of the node that made it
	share := thinkPriorSD * thinkPriorSD / (thinkPriorSD*thinkPriorSD + one*one/n)
	return math.Exp(share*quantile.Median(thinks) + (1-share)*math.Log(thinkPriorMs)), thinkPriorSD * math.Sqrt(1-share)
}
