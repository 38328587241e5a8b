package assign

import "math"

// A download of b bytes by node n from server s is expected to take, in ms,
//
//	rounds(b) · rtt(n, s) + think(s) + load(n) + b / bandwidth(n)
//
// where rounds is one for the connection and those of slow start from an initial window of ten segments (RFC 6928). Both predictions
// and measurements exclude the one or two round trips of TLS. Think time is the same for all nodes, so it does not affect comparisons.
// It must be known to separate it from the other parts.
const (
	initialWindow = 14_600 // bytes
	// Priors: medians, and standard deviations in the log domain.
	loadPriorMs, loadPriorSD   = 15.0, 1.2
	thinkPriorMs, thinkPriorSD = 60.0, 1.0
	slowPrior, slowPriorSD     = 1.0 / 1250, 1.0 // ms a byte: 10 Mbit/s
	pagePrior                  = 30_000.0        // bytes
	// Noise of a download around its expectation, and of a connect time, in the log domain.
	downloadSD, connectSD = 0.25, 0.11
	// Connect times are never shorter than the round trip. This is the median of their ratio.
	connectExcess = 1.1
	// This share of a node's load also delays its connect times. It is subtracted, so that load counts once.
	connectLoad = 0.3
	// How far one node at one server deviates from the model, in the log domain.
	pairSD = 0.14
)

// rounds returns the number of round trips of a download, including the connection.
func rounds(bytes float64) float64 { return 1 + max(1, math.Ceil(math.Log2(bytes/initialWindow+1))) }

// quantity is a positive number that is being learnt. It is log-normal with a prior. The estimate is the maximum a posteriori, with the
// variance of Laplace's approximation.
type quantity struct {
	prior, priorVar float64
	log, variance   float64

	// Sums of the current sweep.
	slope, bend float64
}

func newQuantity(median, sd float64) quantity {
	l := math.Log(median)
	return quantity{prior: l, priorVar: sd * sd, log: l, variance: sd * sd}
}

func (q *quantity) value() float64 { return math.Exp(q.log) }

// add adds a residual in the log domain. d is the derivative of the model with respect to q's logarithm.
func (q *quantity) add(residual, d, variance, weight float64) {
	q.slope += weight * d * residual / variance
	q.bend += weight * d * d / variance
}

// step makes a damped Newton step and clears the sums.
func (q *quantity) step() {
	bend := q.bend + 1/q.priorVar
	slope := q.slope - (q.log-q.prior)/q.priorVar
	q.log += max(-1, min(slope/bend, 1))
	q.variance = 1 / bend
	q.slope, q.bend = 0, 0
}

// trust returns the weight of a residual under Huber's loss: an outlier has the same effect as a residual of 1.5 standard deviations.
// Unlike losses that ignore outliers, it has a single optimum, which every search finds.
func trust(residual, variance float64) float64 {
	return min(1, 1.5*math.Sqrt(variance)/max(math.Abs(residual), 1e-9))
}

// cleanConnect returns the round trip of a connect time, which is too long by the factor excess and includes a share of the node's
// load. All times are in ms.
func cleanConnect(connect, excess, load float64) float64 {
	connect /= excess
	return max(connect-connectLoad*load, 0.2*connect)
}
