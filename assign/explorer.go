package assign

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
