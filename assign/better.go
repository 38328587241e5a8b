package assign

import "math"

// Prediction is what is expected of one node for one server.
type Prediction struct {
	Node string
	// Ms is the expected download time of a typical page, in ms.
	Ms float64
	// Error is its standard deviation in the log domain, of what differs between nodes: 0.1 is 10 %.
	Error float64
	// Seen is how many downloads by this node are remembered.
	Seen int
}

// Predictions are those of all nodes of a view for the server of m, best first. The work grows with the nodes times the
// square of those remembered (at most MaxMemoryNodes). Ages count back from the last download remembered.
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

// Predict is the expected download time of the server's typical page at one node, and its standard deviation, in ms.
func (m *Memory) Predict(n Node) (ms, uncertainty float64) {
	p := Predictions(m, View{Nodes: []Node{n}})[0]
	return p.Ms, p.Ms * p.Error
}

// Better is re-assignment: it says whether another node is expected to be faster than the owner by Margin and by MarginMs,
// and by how many ms. The other's prediction counts with half a standard deviation added: what is hardly known must promise
// more. An owner that is not in the view always loses, with gainMs 0. The caller waits until the answer has been the same
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

// Scout is the node that a download other than by the owner would tell most about: the one of the lowest prediction less
// Explore standard deviations. A small share of an owner's downloads (1 to 2 %) should go there: without them a node that
// has recovered would never be asked again. ok is false when nobody else may be faster.
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

// Explorer is who should make one of the 1 to 2 % of a server's downloads that its owner does not make: Scout's node, else one
// of those that have downloaded from the server, drawn, the faster the likelier. Without the draw none would ever be asked
// again that was slow once, however long ago. draw gives numbers from [0, 1). ok is false when nobody else is known.
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
		if draw()*sum < 1/p.Ms { // each in the end with its share of the sum
			node = p.Node
		}
	}
	return node, node != ""
}
