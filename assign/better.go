package assign

import (
	"math"
	"time"
)

// Prediction is the expected download time of a node for a server.
type Prediction struct {
	Node string
	// Ms is the expected download time of a typical page, in ms.
	Ms float64
	// Error is the standard deviation of Ms in the log domain: 0.1 is 10 %. It includes only what differs between nodes.
	Error float64
	// Seen is the number of remembered downloads by this node.
	Seen int
}

// Predictions returns predictions of all nodes of a view for the server of m, best first. Its cost is proportional to the number of
// nodes and to the square of the number of nodes in m (at most MaxMemoryNodes). Ages are counted from the last download.
func Predictions(m *Memory, v View) []Prediction {
	s := learntServer{memory: m}
	l := newLearner(v, []*learntServer{&s}, 0)
	l.fit(m.latest())
	var all []Prediction
	for _, p := range l.ranking(&s) {
		all = append(all, Prediction{Node: l.nodes[p.node].ID, Ms: p.ms, Error: p.sd, Seen: p.seen})
	}
	return all
}

// forgiveAfter is how long after a node has failed to reach a server it may explore again.
const forgiveAfter = 10 * time.Minute

// Better decides whether a server should move to another node. It returns a node that is expected to be faster than the owner by at
// least Margin and MarginMs, and the difference. It adds half a standard deviation to the other node's prediction, so that an
// unknown node must be much faster. A node that could not reach the server does not get it. If the owner is not in the view, the best
// node is better, with gainMs 0. An owner that is in the view but no candidate keeps the server: nothing is predicted for it before it has
// downloaded. The caller should act only when the answer has remained the same for a while.
func Better(cfg Config, m *Memory, v View, owner string) (node string, gainMs float64, ok bool) {
	own, least := math.NaN(), math.Inf(1)
	for _, p := range Predictions(m, v) {
		if p.Node == owner {
			own = p.Ms
			continue
		}
		if _, failed := m.failed(p.Node); failed || m.Spread && p.Seen == 0 {
			continue
		}
		if careful := p.Ms * (1 + p.Error/2); careful < least {
			node, least = p.Node, careful
		}
	}
	if math.IsNaN(own) {
		return node, 0, node != "" && v.find(owner) == nil
	}
	gainMs = own - least
	if gainMs < cfg.MarginMs || gainMs < cfg.Margin*own {
		return "", 0, false
	}
	return node, gainMs, true
}

// Explorer returns the node for one of the 1 to 2 % of a server's downloads that its owner does not make. Without them, a node that
// has recovered would never be asked again. It is Scout's node if there is one. Otherwise it is drawn among the nodes that have
// downloaded from the server, with a probability inversely proportional to their times, so that a node that was slow once is asked
// again. draw returns numbers from [0, 1). ok is false if no other node is known.
func Explorer(cfg Config, m *Memory, v View, owner string, draw func() float64) (node string, ok bool) {
	all := Predictions(m, v)
	if node, ok = scout(cfg, m, all, owner); ok {
		return node, true
	}
	node = ""
	sum := 0.0
	for _, p := range all {
		if p.Node == owner || p.Seen == 0 {
			continue
		}
		sum += 1 / p.Ms
		if draw()*sum < 1/p.Ms { // reservoir sampling: in the end each node has its share of the sum
			node = p.Node
		}
	}
	return node, node != ""
}

// Scout returns the node other than the owner that is most worth trying: the one with the lowest prediction minus Explore standard
// deviations, without those that could not reach the server lately. ok is false if no other node can be faster than the owner.
func Scout(cfg Config, m *Memory, v View, owner string) (node string, ok bool) {
	return scout(cfg, m, Predictions(m, v), owner)
}

// scout is Scout for a caller that has the predictions.
func scout(cfg Config, m *Memory, all []Prediction, owner string) (node string, ok bool) {
	least, own := math.Inf(1), math.Inf(1)
	for _, p := range all {
		if p.Node == owner {
			own = p.Ms
			continue
		}
		if ago, failed := m.failed(p.Node); failed && ago < forgiveAfter {
			continue
		}
		if low := p.Ms * math.Exp(-cfg.Nearest.Explore*p.Error); low < least {
			node, least = p.Node, low
		}
	}
	return node, node != "" && least < own
}
