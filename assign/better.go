package assign

import "math"

// Prediction is what is expected of one node for one server.
type Prediction struct {
	Node string
	// Ms is the expected download time of a typical page, in ms.
	Ms float64
	// Error is the standard deviation of Ms in the log domain, counting only what differs between nodes: 0.1 is 10 %.
	Error float64
	// Seen is the number of remembered downloads by this node.
	Seen int
}

// Predictions returns what is expected of all nodes of a view for the server of m, best first. The work grows with the number
// of nodes times the square of the number remembered (at most MaxMemoryNodes). Ages count back from the last download.
func Predictions(m *Memory, v View) []Prediction {
	s := learnt(m)
	l := newLearner(v, []*learntServer{&s}, 0)
	l.fit(m.latest())
	var all []Prediction
	for _, p := range l.ranking(&s) {
		all = append(all, Prediction{Node: l.nodes[p.node].ID, Ms: p.ms, Error: p.sd, Seen: p.seen})
	}
	return all
}

// Better decides re-assignment. It returns the node that is expected to beat the owner by Margin and by MarginMs, and by how
// many ms. Half a standard deviation is added to the other node's prediction: the less is known of a node, the more it must
// promise. An owner that is not in the view always loses, with gainMs 0. The caller acts once the answer has stayed the same
// for long enough.
func Better(cfg Config, m *Memory, v View, owner string) (node string, gainMs float64, ok bool) {
	all := Predictions(m, v)
	var own *Prediction
	best, least := -1, math.Inf(1)
	for i := range all {
		p := &all[i]
		if p.Node == owner {
			own = p
			continue
		}
		if m.Spread && p.Seen == 0 {
			continue
		}
		if careful := p.Ms * (1 + p.Error/2); careful < least {
			best, least = i, careful
		}
	}
	switch {
	case best < 0:
		return "", 0, false
	case own == nil:
		return all[best].Node, 0, true
	}
	gainMs = own.Ms - least
	if gainMs < cfg.MarginMs || gainMs < cfg.Margin*own.Ms {
		return "", 0, false
	}
	return all[best].Node, gainMs, true
}

// Scout returns the node other than the owner whose download would tell most: the one of the lowest prediction less Explore
// standard deviations. ok is false if no other node may be faster than the owner. One to two percent of an owner's downloads
// should go there, or a node that has recovered would never be asked again.
func Scout(cfg Config, m *Memory, v View, owner string) (node string, ok bool) {
	least, own := math.Inf(1), math.Inf(1)
	for _, p := range Predictions(m, v) {
		if p.Node == owner {
			own = p.Ms
			continue
		}
		if low := p.Ms * math.Exp(-max(cfg.Nearest.Explore, 0.1)*p.Error); low < least {
			node, least = p.Node, low
		}
	}
	return node, node != "" && least < own
}

// Explorer returns who should make one of the 1 to 2 % of a server's downloads that its owner does not make: Scout's node, or
// else one of those that have downloaded from the server, drawn with a probability inverse to its time. Without the draw, a
// node that was slow once would never be asked again. draw returns numbers from [0, 1). ok is false if no other node is known.
func Explorer(cfg Config, m *Memory, v View, owner string, draw func() float64) (node string, ok bool) {
	if node, ok = Scout(cfg, m, v, owner); ok {
		return node, true
	}
	node = ""
	sum := 0.0
	for _, p := range Predictions(m, v) {
		if p.Node == owner || p.Seen == 0 || !(p.Ms > 0) {
			continue
		}
		sum += 1 / p.Ms
		if draw()*sum < 1/p.Ms { // reservoir sampling: in the end each has its share of the sum
			node = p.Node
		}
	}
	return node, node != ""
}
