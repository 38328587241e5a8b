package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"proxima/cmd/proxima/compare"
)

// worldMap shows to which node one row gave each server, on the globe or in the plane in which the coordinates differ most.
type worldMap struct {
	Title   string
	Grid    string // path of meridians and parallels, "" in the coordinate space
	Land    string // transform of the coastlines, which are in half degrees
	Links   []link
	Servers []mark
	Nodes   []mark
}

// mark is a place in a drawing of 360 × 180. Anchor, Tx and Ty place a node's name.
type mark struct {
	X, Y   float64
	Slot   int
	Title  string
	Name   string
	Anchor string
	Tx, Ty float64
}

// link is a line from a server to the node that was chosen for it.
type link struct {
	X1, Y1, X2, Y2 float64
	Slot           int
}

// mostNames bounds the names of nodes in a map.
const mostNames = 40

// maps draws a map for each row that chose nodes.
func maps(r *compare.Result, colours map[string]int) (list []worldMap) {
	at, grid, land := places(r)
	if at == nil {
		return nil
	}
	var nodes []mark
	for _, n := range r.Nodes {
		if p, ok := at[n.Name]; ok {
			nodes = append(nodes, mark{X: p[0], Y: p[1], Slot: colours[n.Name] % slots, Name: n.Name, Title: n.Name + ", " + n.City})
		}
	}
	name(nodes)
	for _, a := range r.Assigners {
		m := worldMap{Title: a.Name, Grid: grid, Land: land, Nodes: nodes}
		for _, s := range r.Servers {
			p, ok := at[s.Addr]
			for _, k := range s.Choices {
				if ok && k.Row == a.Name {
					if n, ok := at[k.Node]; ok {
						m.Links = append(m.Links, link{p[0], p[1], n[0], n[1], colours[k.Node] % slots})
					}
					m.Servers = append(m.Servers, mark{X: p[0], Y: p[1], Slot: colours[k.Node] % slots, Title: fmt.Sprintf("%s %s, %s: %s", s.Addr,
						s.Host, s.City, k.Node)})
				}
			}
		}
		if len(m.Servers) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// places returns where nodes and servers are in the drawing: on the globe, with its grid and land, or in the coordinate space if they have
// no locations. It returns nil if both are unknown.
func places(r *compare.Result) (at map[string]compare.Point, grid, land string) {
	at = map[string]compare.Point{}
	var names []string
	var vectors []float64
	dims := 0
	take := func(name string, geo *compare.Point, space []float64) {
		if geo != nil && finite(*geo) && *geo != (compare.Point{}) {
			at[name] = compare.Point{geo[0], -geo[1]}
		}
		if len(space) > 0 && (dims == 0 || dims == len(space)) {
			dims = len(space)
			names, vectors = append(names, name), append(vectors, space...)
		}
	}
	for _, n := range r.Nodes {
		take(n.Name, n.Geo, n.Space)
	}
	for _, s := range r.Servers {
		take(s.Addr, s.Geo, s.Space)
	}
	if len(at) > 2 {
		to := fit(at)
		for d := -180.0; d <= 180; d += 30 {
			v, h := to(compare.Point{d, d / 2}), to(compare.Point{0, d / 2})
			grid += fmt.Sprintf("M%.1f 0V180M0 %.1fH360", v[0], h[1])
		}
		origin, one := to(compare.Point{}), to(compare.Point{.5, 0})
		return at, grid, fmt.Sprintf("translate(%.2f %.2f) scale(%.4f)", origin[0], origin[1], one[0]-origin[0])
	}
	var pc stat.PC
	if len(names) <= dims || dims < 2 || !pc.PrincipalComponents(mat.NewDense(len(names), dims, vectors), nil) {
		return nil, "", ""
	}
	var axes, plane mat.Dense
	pc.VectorsTo(&axes)
	plane.Mul(mat.NewDense(len(names), dims, vectors), axes.Slice(0, dims, 0, 2))
	for i, name := range names {
		at[name] = compare.Point{plane.At(i, 0), plane.At(i, 1)}
	}
	fit(at)
	return at, "", ""
}

// fit moves points into the drawing, with the same scale on both axes, and returns the transformation.
func fit(at map[string]compare.Point) (to func(compare.Point) compare.Point) {
	low, high := compare.Point{math.Inf(1), math.Inf(1)}, compare.Point{math.Inf(-1), math.Inf(-1)}
	for _, p := range at {
		for k := range p {
			low[k], high[k] = math.Min(low[k], p[k]), math.Max(high[k], p[k])
		}
	}
	scale := math.Min(310/math.Max(high[0]-low[0], 1e-9), 150/math.Max(high[1]-low[1], 1e-9))
	to = func(p compare.Point) compare.Point {
		return compare.Point{180 + scale*(p[0]-(low[0]+high[0])/2), 90 + scale*(p[1]-(low[1]+high[1])/2)}
	}
	for name, p := range at {
		at[name] = to(p)
	}
	return to
}

// name places the names of nodes beside them, where they cover neither another name nor a node. A name without room is left out.
func name(nodes []mark) {
	const height = 7
	var taken [][4]float64
	for _, n := range nodes {
		taken = append(taken, [4]float64{n.X - 3, n.Y - 3, n.X + 3, n.Y + 3})
	}
	free := func(b [4]float64) bool {
		return b[0] >= 0 && b[2] <= 360 && b[1] >= 0 && b[3] <= 180 && !slices.ContainsFunc(taken, func(t [4]float64) bool {
			return b[0] < t[2] && t[0] < b[2] && b[1] < t[3] && t[1] < b[3]
		})
	}
	for i := range nodes {
		n := &nodes[i]
		width := 4.2 * float64(len([]rune(n.Name)))
		text := n.Name
		n.Name = ""
		for _, p := range [...]struct {
			anchor    string
			x, y, box float64 // box is how much of the text's width is left of x
		}{{"start", 6, 2.5, 0}, {"end", -6, 2.5, 1}, {"middle", 0, -5, .5}, {"middle", 0, 10, .5}} {
			left, base := n.X+p.x-p.box*width, n.Y+p.y
			if box := [4]float64{left, base - height, left + width, base + 1.5}; i < mostNames && free(box) {
				taken = append(taken, box)
				n.Name, n.Anchor, n.Tx, n.Ty = text, p.anchor, n.X+p.x, base
				break
			}
		}
	}
}
