package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/console"
	"proxima/node/runlog"
	"proxima/node/wire"
)

const (
	// mostHosts and mostServers bound the lists in answers.
	mostHosts, mostServers = 300, 300
	// mostPredicted is for how many nodes, the best ones, a server's download times are given.
	mostPredicted = 5
	// askPatience is how long a sample of a peer is waited for.
	askPatience = 800 * time.Millisecond
)

// watcher observes a node: it samples it for the logs and the console, and shows its hosts, servers and members.
type watcher struct{ *Node }

// HostRow is a host as the console shows it.
type HostRow struct {
	frontier.HostStatus
	Owner   string `json:"owner"`
	Replica string `json:"replica,omitempty"`
}

// HostList is the result of a search for hosts.
type HostList struct {
	Hosts []HostRow `json:"hosts"`
	All   int       `json:"all"` // how many were found; Hosts may have fewer
}

// ServerRow is a web server as the console shows it: its coordinate, its lease, and the expected download times.
type ServerRow struct {
	Addr      string       `json:"addr"`
	Hosts     []string     `json:"hosts"` // some of those that it serves
	AllHosts  int          `json:"all_hosts"`
	WaitMs    int64        `json:"wait_ms"` // until its next request
	InFlight  int          `json:"in_flight"`
	LeaseMs   int64        `json:"lease_ms"` // how long this node still has its lease
	Lacks     string       `json:"lacks,omitempty"`
	Grantor   string       `json:"grantor,omitempty"`
	Vector    []float64    `json:"vector,omitempty"`
	HeightMs  float64      `json:"height_ms"`
	Accuracy  float64      `json:"accuracy"`
	Updates   int          `json:"updates"`
	At        *[2]float32  `json:"at,omitempty"`
	Predicted []Prediction `json:"predicted,omitempty"`
}

// Prediction is the time that a node probably needs for a typical page of a server.
type Prediction struct {
	Node  string  `json:"node"`
	Ms    float64 `json:"ms"`
	Error float64 `json:"error"`
	Seen  int     `json:"seen"`
}

// MemberRow is a member as the console shows it.
type MemberRow struct {
	PeerStatus
	Boot     uint64      `json:"boot"`
	Vector   []float64   `json:"vector,omitempty"`
	HeightMs float64     `json:"height_ms"`
	Accuracy float64     `json:"accuracy"`
	QueueMs  float64     `json:"queue_ms"` // how long a page waits for a fetcher there
	At       *[2]float32 `json:"at,omitempty"`
}

func (w watcher) sampleNow() console.Sample {
	f, c, load := w.frontier.Status(), w.loop.Stats(), runlog.SampleLoad(w.cfg.Node.Data)
	s := console.Sample{T: time.Now().UnixMilli(), Boot: w.id.Boot, Version: Version(), Pages: c.Pages, Bytes: c.Bytes, Pending: f.Pending, Servers: int64(f.Servers),
		InFlight: int64(f.InFlight), RSS: load.RSSBytes, Heap: load.HeapBytes, CPU: load.CPUSeconds, Stages: w.book.Stages(), Waits: f.Hosts,
		Paused: f.Paused, Held: w.told.paused()}
	for class, pages := range answers(&Status{Crawl: c}) {
		if class != "1xx" && class != "2xx" && class != "3xx" && class != "4xx" {
			s.Failed += pages
		}
	}
	for _, urls := range f.Queues {
		s.Queued += int64(urls)
	}
	for _, hosts := range f.Hosts {
		s.Hosts += int64(hosts)
	}
	if o := w.overlay; o != nil {
		s.Leases, s.Outbox = int64(o.holder.Status().Held), int64(o.outbox.Pending())
		if v := o.there(); !v.Majority {
			s.Trouble = o.members.View().Reason
		}
	}
	return s
}

// placesNow returns the servers whose leases the node has. A node that crawls alone has none.
func (w watcher) placesNow() console.Places {
	p := console.Places{T: time.Now().UnixMilli(), Places: []console.Place{}}
	if w.overlay == nil {
		return p
	}
	for _, addr := range w.overlay.holder.Held() {
		if len(p.Places) == mostServers {
			break
		}
		at := console.Place{Server: addr.String()}
		if m, ok := w.overlay.holder.Memory(addr); ok && m.Proxy.Updates > 0 {
			at.Vector = new([ncoord.MaxDims]float32)
			for i, x := range m.Proxy.Coord.Vec {
				at.Vector[i] = float32(x)
			}
		}
		at.At = degrees(w.atlas.locate(addr))
		p.Places = append(p.Places, at)
	}
	return p
}

// degrees returns a location as degrees north and east, or nil if there is none.
func degrees(l *ncoord.Location) *[2]float32 {
	if l == nil {
		return nil
	}
	return &[2]float32{float32(l.Lat), float32(l.Lon)}
}

func (w watcher) hosts(part string) HostList {
	found, all := w.frontier.Find(strings.ToLower(part), mostHosts)
	list, paused := HostList{Hosts: []HostRow{}, All: all}, w.frontier.Status().Paused
	for _, h := range found {
		row := HostRow{HostStatus: whilePaused(h, paused), Owner: w.id.Node}
		if o := w.overlay; o != nil {
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

// busiest sorts servers and returns those that fit into an answer, those with the most hosts first.
func busiest(all []frontier.ServerState) []frontier.ServerState {
	slices.SortFunc(all, func(a, b frontier.ServerState) int { return cmp.Or(b.AllHosts-a.AllHosts, a.Addr.Compare(b.Addr)) })
	return all[:min(mostServers, len(all))]
}

func (w watcher) servers() []ServerRow {
	list := []ServerRow{}
	for _, s := range busiest(w.frontier.Servers()) {
		row := ServerRow{Addr: s.Addr.String(), Hosts: s.Hosts, AllHosts: s.AllHosts, WaitMs: s.Wait.Milliseconds(), InFlight: s.InFlight}
		if o := w.overlay; o != nil {
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
			row.At = degrees(w.atlas.locate(s.Addr))
		}
		list = append(list, row)
	}
	return list
}

func (w watcher) members() []MemberRow {
	o := w.overlay
	if o == nil {
		return []MemberRow{{PeerStatus: PeerStatus{ID: w.id.Node, Phase: "alive", ForS: time.Since(w.started).Seconds()}, Boot: w.id.Boot}}
	}
	list := []MemberRow{}
	for _, m := range o.members.View().Members {
		row := MemberRow{PeerStatus: o.peerStatus(m), Boot: m.Boot}
		if m.Phase == "alive" {
			row.QueueMs, row.At = m.Factors.QueueMs, degrees(m.Location)
		}
		if m.Placed {
			row.Vector, row.HeightMs, row.Accuracy = m.Coord.Vec[:], m.Coord.Height, m.Coord.Error
		}
		list = append(list, row)
	}
	return list
}

// tick is what is sent to an event stream once a second.
type tick struct {
	Node   string                     `json:"node"`
	Nodes  map[string]json.RawMessage `json:"nodes"` // samples
	Events []console.Event            `json:"events"`
}

// ticks returns a function that makes the next tick. Every tick has a sample of this node, and every other one has those of its peers.
func (w watcher) ticks() func(ctx context.Context) []byte {
	var last uint64
	var odd bool
	return func(ctx context.Context) []byte {
		t := tick{Node: w.id.Node, Nodes: map[string]json.RawMessage{}, Events: w.book.Events(last, 100)}
		if len(t.Events) > 0 {
			last = t.Events[len(t.Events)-1].Seq
		}
		if odd = !odd; odd && w.overlay != nil {
			w.askAll(ctx, "/sample", t.Nodes)
		}
		own, err := json.Marshal(w.sampleNow())
		if err == nil {
			t.Nodes[w.id.Node] = own
		}
		text, err := json.Marshal(t)
		if err != nil {
			w.warn(fmt.Errorf("tell those who watch: %w", err))
		}
		return text
	}
}

// askAll makes a call of the API of all peers that are alive. It puts the answers that come in time into the map.
func (w watcher) askAll(ctx context.Context, call string, answers map[string]json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var mu sync.Mutex
	v := w.overlay.there()
	bell.Each(16, v.Others(), func(id string) {
		res, err := w.overlay.client.Ask(ctx, id, &wire.AskRequest{Call: call})
		if err == nil && res.GetStatus() == http.StatusOK && json.Valid(res.GetAnswer()) { // peers that do not answer are left out
			mu.Lock()
			defer mu.Unlock()
			answers[id] = res.GetAnswer()
		}
	})
}

// sampleInterval is how often a node writes samples to its logs. The console gets the places of servers every sixth time.
const sampleInterval = 10 * time.Second

func (w watcher) run(ctx context.Context) error {
	i := 0
	sample := func() {
		w.sample()
		w.book.Sampled(w.sampleNow())
		if i%6 == 0 {
			w.book.Placed(w.placesNow())
		}
		i++
	}
	sample()
	return bell.Every(ctx, sampleInterval, sample)
}

// sample writes the state of the queues and the load of the node to the logs.
func (w watcher) sample() {
	w.runlog.Queue(queueLine(w.frontier.Status(), w.loop.Stats().Drops))
	load := runlog.SampleLoad(w.cfg.Node.Data)
	if w.overlay != nil {
		load.LinksSent = int64(w.overlay.owners.Counts().LinksRouted)
		load.MessagesSent, load.BytesSent, load.BytesReceived = w.overlay.traffic()
	}
	w.runlog.Load(load)
}

// queueLine returns the status of a frontier as the log has it. Links that were dropped before they reached the frontier count as its
// drops: both are URLs that were not crawled.
func queueLine(s frontier.Status, links map[string]int64) runlog.Queue {
	q := runlog.Queue{
		Pending: s.Pending, ServersReady: int64(s.Ready), InFlight: int64(s.InFlight),
		Accepted: int64(s.Accepted), Duplicate: int64(s.Duplicate), Done: int64(s.Done), Failed: int64(s.Failed),
		Dropped: int64(s.Dropped), AtStart: s.AtStart, Arrived: int64(s.Arrived), Left: int64(s.Left), Held: s.Held,
		Drops: map[string]int64{}, Waits: map[string]int64{}, Queues: s.Queues,
	}
	for kind, hosts := range s.Hosts {
		q.HostsActive += int64(hosts)
		if kind != "fetching" && kind != "ready" && kind != "idle" {
			q.Waits[kind] = int64(hosts)
			q.HostsWaiting += int64(hosts)
		}
	}
	q.ServersBusy = int64(s.InFlight)
	q.ServersWaiting = max(0, int64(s.Servers-s.InFlight-s.Ready))
	for reason, count := range s.Reasons {
		q.Drops[short(reason)] += int64(count)
	}
	for reason, count := range links {
		q.Drops[short(reason)] += count
	}
	return q
}

// short returns the kind of a reason, so that reasons can be counted: "blocked" for "blocked: example.org".
func short(reason string) string {
	kind, _, _ := strings.Cut(reason, ":")
	return kind
}
