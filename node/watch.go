package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/console"
	"proxima/node/runlog"
	"proxima/node/wire"
)

const (
	// mostHosts and mostServers are how many of them a page is told of.
	mostHosts, mostServers = 300, 300
	// mostPredicted is of how many nodes it is told what is expected of them for a server: the best.
	mostPredicted = 5
	// askPatience is how long a watcher waits for a peer.
	askPatience = 800 * time.Millisecond
)

// HostRow is a host as the page shows it.
type HostRow struct {
	frontier.HostStatus
	Owner   string `json:"owner"`
	Replica string `json:"replica,omitempty"`
}

// HostList is an answer to who looks for hosts.
type HostList struct {
	Hosts []HostRow `json:"hosts"`
	All   int       `json:"all"` // more may be found than are told
}

// ServerRow is a web server as the page shows it: where it is, what is expected of the nodes, and who lends it.
type ServerRow struct {
	Addr      string       `json:"addr"`
	Hosts     []string     `json:"hosts"`   // some that it serves
	WaitMs    int64        `json:"wait_ms"` // until it may be asked
	InFlight  int          `json:"in_flight"`
	LeaseMs   int64        `json:"lease_ms"` // how long it is leased to this node
	Lacks     string       `json:"lacks,omitempty"`
	Grantor   string       `json:"grantor,omitempty"`
	Vector    []float64    `json:"vector,omitempty"`
	HeightMs  float64      `json:"height_ms"`
	Accuracy  float64      `json:"accuracy"`
	Updates   int          `json:"updates"`
	At        *[2]float32  `json:"at,omitempty"`
	Predicted []Prediction `json:"predicted,omitempty"`
}

// Prediction is how long a node is expected to need for a typical page of a server.
type Prediction struct {
	Node  string  `json:"node"`
	Ms    float64 `json:"ms"`
	Error float64 `json:"error"`
	Seen  int     `json:"seen"`
}

// MemberRow is a member as the page shows it.
type MemberRow struct {
	PeerStatus
	Boot     uint64      `json:"boot"`
	Vector   []float64   `json:"vector,omitempty"`
	HeightMs float64     `json:"height_ms"`
	Accuracy float64     `json:"accuracy"`
	QueueMs  float64     `json:"queue_ms"` // how long a page waits for a fetcher there
	At       *[2]float32 `json:"at,omitempty"`
}

// watchRoutes are the calls that the page makes to show what goes on.
func watchRoutes() []route {
	return []route{
		{method: "GET", path: "/stream", does: "Sends the samples of all nodes and the new events of this one, once a second.", media: "text/event-stream",
			stream: func(n *Node, w http.ResponseWriter, c *apiCall) { n.hub.ServeHTTP(w, c.Request) }},
		{method: "GET", path: "/sample", does: "Says in figures what the node is doing.", answer: console.Sample{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.sampleNow(), nil }},
		{method: "GET", path: "/history", does: "Gives the samples of the last hour.", answer: []console.Sample{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.book.Samples(), nil }},
		{method: "GET", path: "/events", does: "Gives the latest events.", query: []param{{"after", "the number of the last one that is known", false}}, answer: []console.Event{},
			run: func(n *Node, c *apiCall) (any, error) {
				after, err := number(c.param("after"))
				return n.book.Events(uint64(after), 300), err
			}},
		{method: "GET", path: "/decisions", does: "Gives the latest decisions about hosts.", answer: []console.Decision{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.book.Decisions(), nil }},
		{method: "GET", path: "/places", does: "Says where the servers are that the node crawls, or has crawled in the last hour.",
			query: []param{{"t", "the moment, Unix time in ms; now where it is missing", false}}, answer: console.Places{},
			run: func(n *Node, c *apiCall) (any, error) {
				t, err := number(c.param("t"))
				if t > 0 {
					return n.book.PlacesAt(t), err
				}
				return n.placesNow(), err
			}},
		{method: "GET", path: "/hosts", does: "Finds hosts on the workbench, those with the most URLs in memory first.",
			query: []param{{"part", "what their names contain", false}}, answer: HostList{},
			run: func(n *Node, c *apiCall) (any, error) { return n.hosts(c.param("part")), nil }},
		{method: "GET", path: "/servers", does: "Gives the web servers on the workbench.", answer: []ServerRow{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.servers(), nil }},
		{method: "GET", path: "/members", does: "Gives the members of the overlay as the node sees them.", answer: []MemberRow{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.members(), nil }},
	}
}

// number reads a parameter that may be missing.
func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, badInput(fmt.Errorf("%q is not a number", text))
	}
	return v, nil
}

// sampleNow is the node in figures.
func (n *Node) sampleNow() console.Sample {
	f, c, load := n.frontier.Status(), n.loop.Stats(), runlog.SampleLoad(n.cfg.Node.Data)
	s := console.Sample{T: time.Now().UnixMilli(), Boot: n.id.Boot, Version: Version(), Pages: c.Pages, Bytes: c.Bytes, Pending: f.Pending, Servers: int64(f.Servers),
		InFlight: int64(f.InFlight), RSS: load.RSSBytes, Heap: load.HeapBytes, CPU: load.CPUSeconds, Stages: n.book.Stages(), Waits: map[string]int64{},
		Paused: f.Paused}
	for class, pages := range answers(&Status{Crawl: c}) {
		if class != "1xx" && class != "2xx" && class != "3xx" && class != "4xx" {
			s.Failed += pages
		}
	}
	for _, urls := range f.Queues {
		s.Queued += int64(urls)
	}
	for kind, hosts := range f.Hosts {
		s.Waits[kind] = int64(hosts)
		s.Hosts += int64(hosts)
	}
	if o := n.overlay; o != nil {
		s.Leases, s.Outbox = int64(o.holder.Status().Held), int64(o.outbox.Pending())
		if v := o.there(); !v.Majority {
			s.Trouble = o.members.View().Reason
		}
	}
	return s
}

// placesNow are the servers that the node has leases of; all that it knows where it crawls alone.
func (n *Node) placesNow() console.Places {
	p := console.Places{T: time.Now().UnixMilli(), Places: []console.Place{}}
	if n.overlay == nil {
		return p
	}
	for _, addr := range n.overlay.holder.Held() {
		if len(p.Places) == mostServers {
			break
		}
		at := console.Place{Server: addr.String()}
		if m, ok := n.overlay.holder.Memory(addr); ok && m.Proxy.Updates > 0 {
			at.Vector = new([ncoord.MaxDims]float32)
			for i, x := range m.Proxy.Coord.Vec {
				at.Vector[i] = float32(x)
			}
		}
		if l := n.overlay.atlas.locate(addr); l != nil {
			at.At = &[2]float32{float32(l.Lat), float32(l.Lon)}
		}
		p.Places = append(p.Places, at)
	}
	return p
}

func (n *Node) hosts(part string) HostList {
	found, all := n.frontier.Find(part, mostHosts)
	list := HostList{Hosts: []HostRow{}, All: all}
	for _, h := range found {
		row := HostRow{HostStatus: h, Owner: n.id.Node}
		if o := n.overlay; o != nil {
			if r, ok, err := o.owners.Record(h.Host); err == nil && ok {
				row.Owner = r.Owner
			}
			v := o.there()
			row.Replica = v.Replica(h.Host, row.Owner)
		}
		list.Hosts = append(list.Hosts, row)
	}
	return list
}

func (n *Node) servers() []ServerRow {
	list := []ServerRow{}
	all := n.frontier.Servers()
	slices.SortFunc(all, func(a, b frontier.ServerState) int { return a.Addr.Compare(b.Addr) })
	for _, s := range all[:min(mostServers, len(all))] {
		row := ServerRow{Addr: s.Addr.String(), Hosts: s.Hosts, WaitMs: s.Wait.Milliseconds(), InFlight: s.InFlight}
		if o := n.overlay; o != nil {
			v := o.there()
			row.Grantor, row.Lacks = v.Grantor(s.Addr), o.holder.Why(s.Addr)
			row.LeaseMs = max(0, time.Until(s.Until).Milliseconds())
			if m, ok := o.holder.Memory(s.Addr); ok {
				row.Vector, row.HeightMs, row.Accuracy, row.Updates = m.Proxy.Coord.Vec[:], m.Proxy.Coord.Height, m.Proxy.Coord.Error, m.Proxy.Updates
				all := assign.Predictions(m, o.peers())
				for _, p := range all[:min(mostPredicted, len(all))] {
					row.Predicted = append(row.Predicted, Prediction(p))
				}
			}
			if l := o.atlas.locate(s.Addr); l != nil {
				row.At = &[2]float32{float32(l.Lat), float32(l.Lon)}
			}
		}
		list = append(list, row)
	}
	return list
}

func (n *Node) members() []MemberRow {
	o := n.overlay
	if o == nil {
		return []MemberRow{{PeerStatus: PeerStatus{ID: n.id.Node, Phase: "alive", ForS: time.Since(n.started).Seconds()}, Boot: n.id.Boot}}
	}
	list := []MemberRow{}
	view, boots := o.members.View(), map[string]uint64{}
	for _, m := range o.members.Status().Members {
		boots[m.ID] = m.Boot
	}
	for _, p := range o.status().Peers {
		row := MemberRow{PeerStatus: p, Boot: boots[p.ID]}
		for _, m := range view.Peers {
			if m.ID != p.ID {
				continue
			}
			if row.QueueMs = m.Factors.QueueMs; m.Placed {
				row.Vector, row.HeightMs, row.Accuracy = m.Coord.Vec[:], m.Coord.Height, m.Coord.Error
			}
			if l := m.Location; l != nil {
				row.At = &[2]float32{float32(l.Lat), float32(l.Lon)}
			}
		}
		list = append(list, row)
	}
	return list
}

// tick is what a stream is sent once a second.
type tick struct {
	Node   string                     `json:"node"`
	Nodes  map[string]json.RawMessage `json:"nodes"` // samples
	Events []console.Event            `json:"events"`
}

// ticks makes the ticks of the event streams: this node's sample each time, its peers' every other time.
func (n *Node) ticks() func(ctx context.Context) []byte {
	var last uint64
	var odd bool
	return func(ctx context.Context) []byte {
		t := tick{Node: n.id.Node, Nodes: map[string]json.RawMessage{}, Events: n.book.Events(last, 100)}
		if len(t.Events) > 0 {
			last = t.Events[len(t.Events)-1].Seq
		}
		if odd = !odd; odd && n.overlay != nil {
			n.askAll(ctx, "/sample", t.Nodes)
		}
		own, err := json.Marshal(n.sampleNow())
		if err == nil {
			t.Nodes[n.id.Node] = own
		}
		text, err := json.Marshal(t)
		if err != nil {
			n.warn(fmt.Errorf("tell those who watch: %w", err))
		}
		return text
	}
}

// askAll makes a call of the API of all peers that are there, and takes the answers of those that answer in time.
func (n *Node) askAll(ctx context.Context, call string, answers map[string]json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(16)
	for _, id := range n.overlay.there().Alive {
		if id == n.id.Node {
			continue
		}
		g.Go(func() error {
			res, err := n.overlay.client.Ask(ctx, id, &wire.AskRequest{Call: call})
			if err == nil && res.GetStatus() == http.StatusOK && json.Valid(res.GetAnswer()) {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = res.GetAnswer()
			}
			return nil
		})
	}
	_ = g.Wait() // who does not answer is left out
}

// passOn has a peer answer a call.
func (n *Node) passOn(r route, c *apiCall, to string) (status int, v any) {
	if n.overlay == nil || !n.overlay.has(to) {
		return http.StatusNotFound, trouble{fmt.Sprintf("%s is no member that is there", to)}
	}
	q := c.URL.Query()
	q.Del("node")
	res, err := n.overlay.client.Ask(c.Context(), to, &wire.AskRequest{Call: r.path + "?" + q.Encode()})
	if err != nil || !json.Valid(res.GetAnswer()) {
		return http.StatusServiceUnavailable, trouble{fmt.Sprintf("%s does not answer: %v", to, err)}
	}
	return int(max(http.StatusOK, min(res.GetStatus(), 599))), json.RawMessage(res.GetAnswer())
}

func (o *overlay) has(id string) bool {
	v := o.there()
	return v.IsAlive(id)
}

// asked answers the calls of peers to the API: those that change nothing.
type asked struct{ node *Node }

// Ask implements peer.Handler.
func (a asked) Ask(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	path, query, _ := strings.Cut(req.GetCall(), "?")
	for _, r := range routes() {
		if r.path != path || !r.mayBeAsked() {
			continue
		}
		web := (&http.Request{Method: r.method, URL: &url.URL{Path: path, RawQuery: query}}).WithContext(ctx)
		if web.URL.Query().Has("node") {
			break // it is asked itself
		}
		status, v := a.node.carryOut(r, &apiCall{web, from})
		text, err := json.Marshal(v)
		return &wire.AskResponse{Status: uint32(status), Answer: text}, err
	}
	return &wire.AskResponse{Status: http.StatusNotFound, Answer: []byte(`{"error":"no such call"}`)}, nil
}

// serveConsole serves the page until the context ends. A node that cannot crawls all the same, and says so.
func (n *Node) serveConsole(ctx context.Context) error {
	if n.console == nil {
		return nil
	}
	l, err := n.console.Listen()
	if err == nil {
		n.runlog.Events().Info(runlog.EventConsole, runlog.KeyAddress, l.Addr().String())
		err = n.console.Serve(ctx, l)
	}
	if err != nil {
		n.warn(err)
	}
	return nil
}
