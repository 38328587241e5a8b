package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
)

// space is the coordinate space as it is drawn: one picture per assigner, with a line from each server to the node that has it.
type space struct {
	nodes, servers []Place
	plane          plane
	at             map[string]Point // of nodes, by name
	x, y           scale
	tick           float64
}

const (
	mapWidth, mapHeight = 420.0, 400.0
	mapTop, mapFoot     = 34.0, 42.0
	mapLeft, mapRight   = 44.0, 12.0
	mostRows            = 400 // of the table beneath
)

// spaceView draws the map of the coordinate space.
func spaceView(p *pageMaker, m Map) figureView {
	v := figureView{ID: "map", Title: "Coordinate space: who has which server", Part: p.origin, Grid: true}
	s, ok := newSpace(m)
	if !ok {
		v.Missing = "The logs have no coordinates to draw."
		return v
	}
	names := s.assigners(p.names)
	for i, name := range names {
		v.Pictures = append(v.Pictures, s.draw(p, i, name))
	}
	v.How = fmt.Sprintf("Circles are nodes, dots are servers; a line joins a server to the node that has it: the shorter the lines, "+
		"the better the choice. Distances are ms of round trip, without heights. The page shows the plane that keeps most of the "+
		"differences: %s of the variance.", percent(s.plane.kept))
	v.Table = s.table(names)
	return v
}

// newSpace takes the places that have coordinates of equal length.
func newSpace(m Map) (*space, bool) {
	s := &space{at: map[string]Point{}}
	dims := 0
	take := func(from []Place, to *[]Place) {
		for _, q := range from {
			good := len(q.Vector) > 0 && (dims == 0 || len(q.Vector) == dims)
			for _, x := range q.Vector {
				good = good && finite(x)
			}
			if good {
				dims = len(q.Vector)
				*to = append(*to, q)
			}
		}
	}
	take(m.Nodes, &s.nodes)
	take(m.Servers, &s.servers)
	if len(s.nodes)+len(s.servers) == 0 {
		return nil, false
	}
	var vectors [][]float64
	for _, q := range slices.Concat(s.nodes, s.servers) {
		vectors = append(vectors, q.Vector)
	}
	s.plane = planeOf(vectors)
	for _, q := range s.nodes {
		s.at[q.Name] = s.plane.at(q.Vector)
	}
	s.scales()
	return s, true
}

// scales give both directions the same ms per pixel. A few far-off servers do not push all others together: they are drawn at
// the edge.
func (s *space) scales() {
	var xs, ys []float64
	for _, q := range s.servers {
		p := s.plane.at(q.Vector)
		xs, ys = append(xs, p.X), append(ys, p.Y)
	}
	span := func(values []float64, of func(Point) float64) (float64, float64) {
		slices.Sort(values)
		lo, hi := quantile(values, 0.02), quantile(values, 0.98)
		for _, p := range s.at {
			if v := of(p); !finite(lo) {
				lo, hi = v, v
			} else {
				lo, hi = math.Min(lo, v), math.Max(hi, v)
			}
		}
		pad := math.Max((hi-lo)*0.09, 1)
		return lo - pad, hi + pad
	}
	xlo, xhi := span(xs, func(p Point) float64 { return p.X })
	ylo, yhi := span(ys, func(p Point) float64 { return p.Y })
	w, h := mapWidth-mapLeft-mapRight, mapHeight-mapTop-mapFoot
	per := math.Max((xhi-xlo)/w, (yhi-ylo)/h)
	xm, ym := (xlo+xhi)/2, (ylo+yhi)/2
	s.x = scale{lo: xm - per*w/2, hi: xm + per*w/2, from: mapLeft, to: mapWidth - mapRight}
	s.y = scale{lo: ym - per*h/2, hi: ym + per*h/2, from: mapHeight - mapFoot, to: mapTop}
	s.tick = niceStep(per * w / 8)
}

// pixel is where a point is drawn, at the edge if it lies outside.
func (s *space) pixel(p Point) (x, y float64, outside bool) {
	x, y = s.x.at(p.X), s.y.at(p.Y)
	cx := math.Min(math.Max(x, s.x.from+4), s.x.to-4)
	cy := math.Min(math.Max(y, s.y.to+4), s.y.from-4)
	return cx, cy, cx != x || cy != y
}

// assigners are those who own servers, in the order of the report; one without name if nobody does.
func (s *space) assigners(order []string) []string {
	seen := map[string]bool{}
	var found []string
	for _, q := range s.servers {
		for _, o := range q.Owners {
			if !seen[o.Assigner] {
				seen[o.Assigner] = true
				found = append(found, o.Assigner)
			}
		}
	}
	if len(found) == 0 {
		return []string{""}
	}
	rank := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// ownerOf is the node that an assigner gave a server, "" if it gave it to none.
func ownerOf(q Place, assigner string) string {
	for _, o := range q.Owners {
		if o.Assigner == assigner {
			return o.Node
		}
	}
	return ""
}

// distances are those from servers to their owners under an assigner, sorted.
func (s *space) distances(assigner string) []float64 {
	var out []float64
	for _, q := range s.servers {
		owner := ownerOf(q, assigner)
		if i := slices.IndexFunc(s.nodes, func(n Place) bool { return n.Name == owner }); i >= 0 {
			out = append(out, distance(q, s.nodes[i]))
		}
	}
	slices.Sort(out)
	return out
}

func (s *space) draw(p *pageMaker, i int, assigner string) template.HTML {
	title := "Coordinate space"
	if assigner != "" {
		title = assigner
	}
	note := ""
	if d := s.distances(assigner); len(d) > 0 {
		note = "median distance to owner " + millis(quantile(d, 0.5))
	}
	slot := p.colours.of([]string{assigner})[0]
	c := newCanvas(fmt.Sprintf("map-%d", i), "plot facet", title+": map of the coordinate space",
		fmt.Sprintf("%d nodes and %d servers in the plane; %s. %s.", len(s.nodes), len(s.servers), note, p.origin), mapWidth, mapHeight)
	c.text(4, 14, "start", "facet-name t"+strconv.Itoa(slot), fit(title, 13*1.16, 160))
	c.text(mapWidth-4, 14, "end", "origin", note)
	s.grid(c)
	c.open("g", "class", "c"+strconv.Itoa(slot))
	for _, q := range s.servers {
		x, y, _ := s.pixel(s.plane.at(q.Vector))
		if at, ok := s.at[ownerOf(q, assigner)]; ok {
			nx, ny, _ := s.pixel(at)
			c.line(x, y, nx, ny, "tie")
		}
	}
	c.close("g")
	for _, q := range s.servers {
		x, y, outside := s.pixel(s.plane.at(q.Vector))
		class, tip := "server", clean(q.Name)
		if q.City != "" {
			tip += ", " + clean(q.City)
		}
		if o := ownerOf(q, assigner); o != "" {
			tip += " → " + clean(o)
		}
		if outside {
			class, tip = "server outside", tip+" (beyond the edge)"
		}
		c.shape("circle", "cx", x, "cy", y, "r", 2.6, "class", class, "data-t", tip)
	}
	s.drawNodes(c)
	return c.done()
}

// grid draws lines at equal distances, labelled from the middle of the space.
func (s *space) grid(c *canvas) {
	for _, v := range steps(s.x.lo, s.x.hi, s.tick) {
		at := s.x.at(v)
		c.line(at, s.y.to, at, s.y.from, "grid")
		c.text(at, s.y.from+16, "middle", "tick", short(v))
	}
	for _, v := range steps(s.y.lo, s.y.hi, s.tick) {
		at := s.y.at(v)
		c.line(s.x.from, at, s.x.to, at, "grid")
		c.text(s.x.from-6, at+4, "end", "tick", short(v))
	}
	c.text((s.x.from+s.x.to)/2, mapHeight-6, "middle", "axis", "ms, both directions")
}

// drawNodes draws the nodes and writes the names for which there is room.
func (s *space) drawNodes(c *canvas) {
	type box struct{ x0, y0, x1, y1 float64 }
	var taken []box
	r := 5.5
	if len(s.nodes) > 40 {
		r = 3.8
	}
	for _, q := range s.nodes {
		x, y, _ := s.pixel(s.at[q.Name])
		tip := clean(q.Name)
		if q.City != "" {
			tip += ", " + clean(q.City)
		}
		c.shape("circle", "cx", x, "cy", y, "r", r, "class", "node", "data-t", tip)
		taken = append(taken, box{x - r, y - r, x + r, y + r})
	}
	free := func(b box) bool {
		if b.x0 < s.x.from || b.x1 > mapWidth-2 || b.y0 < s.y.to || b.y1 > s.y.from {
			return false
		}
		return !slices.ContainsFunc(taken, func(t box) bool { return b.x0 < t.x1+2 && t.x0 < b.x1+2 && b.y0 < t.y1 && t.y0 < b.y1 })
	}
	for _, q := range s.nodes {
		x, y, _ := s.pixel(s.at[q.Name])
		name := fit(clean(q.Name), 11, 110)
		w := textWidth(name, 11)
		for _, b := range [...]box{{x + 8, y - 8, x + 8 + w, y + 7}, {x - 8 - w, y - 8, x - 8, y + 7},
			{x - w/2, y - 23, x + w/2, y - 8}, {x - w/2, y + 8, x + w/2, y + 23}} {
			if free(b) {
				taken = append(taken, b)
				c.text(b.x0, b.y1-4, "start", "place", name)
				break
			}
		}
	}
}

// table says in words which node has which server.
func (s *space) table(names []string) *tableView {
	t := &tableView{Caption: "Servers and their nodes", Head: []string{"server", "city"}, Left: 2 + len(names)}
	for _, name := range names {
		if name == "" {
			name = "node"
		}
		t.Head = append(t.Head, name)
	}
	for _, q := range s.servers[:min(len(s.servers), mostRows)] {
		row := []string{q.Name, q.City}
		for _, name := range names {
			words := dash
			if owner := ownerOf(q, name); owner != "" {
				words = owner
				if i := slices.IndexFunc(s.nodes, func(n Place) bool { return n.Name == owner }); i >= 0 {
					words += " (" + millis(distance(q, s.nodes[i])) + ")"
				}
			}
			row = append(row, words)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = "In brackets the predicted round trip, heights included."
	if n := len(s.servers) - mostRows; n > 0 {
		t.Note += " " + several(n, "server is", "servers are") + " left out."
	}
	return t
}
