package console

import (
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"proxima/node/runlog"
)

const (
	// history is how long samples and places are kept.
	history = time.Hour
	// mostEvents and mostDecisions bound what is kept of each.
	mostEvents, mostDecisions = 1000, 500
	// longest bounds a text from elsewhere, in bytes.
	longest = 400
)

// Sample is the state of a node at one moment. Counters count since its start.
type Sample struct {
	T        int64          `json:"t"` // Unix time in ms
	Boot     uint64         `json:"boot"`
	Version  string         `json:"version"`
	Pages    int64          `json:"pages"`
	Bytes    int64          `json:"bytes"`
	Failed   int64          `json:"failed"` // pages without an answer, or with a server error
	Pending  int64          `json:"pending"`
	Queued   int64          `json:"queued"`
	Hosts    int64          `json:"hosts"`
	Servers  int64          `json:"servers"`
	InFlight int64          `json:"in_flight"`
	RSS      int64          `json:"rss"`
	Heap     int64          `json:"heap"`
	CPU      float64        `json:"cpu_s"`
	Stages   Stages         `json:"stages"`
	Waits    map[string]int `json:"waits"` // hosts, by what they wait for
	Leases   int64          `json:"leases"`
	Outbox   int64          `json:"outbox"`
	Paused   string         `json:"paused,omitempty"`  // why no page is begun
	Held     bool           `json:"held,omitempty"`    // an operator has paused the node
	Trouble  string         `json:"trouble,omitempty"` // why the node decides nothing about hosts
}

// Stages are the total times of the stages of all downloads, in ms.
type Stages struct {
	Downloads int64   `json:"downloads"`
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
	Body      float64 `json:"body"`
}

// Event is an event of a node. Seq numbers them.
type Event struct {
	Seq    uint64 `json:"seq"`
	T      int64  `json:"t"`
	Kind   string `json:"kind"`
	Level  string `json:"level,omitempty"`
	Host   string `json:"host,omitempty"`
	Peer   string `json:"peer,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Decision is where an assigner wants a host, or a finished hand-off.
type Decision struct {
	T           int64   `json:"t"`
	Batch       string  `json:"batch"`
	Assigner    string  `json:"assigner"`
	Host        string  `json:"host"`
	Owner       string  `json:"owner"`
	URLs        int64   `json:"urls"`
	PredictedMs float64 `json:"predicted_ms"`
	Estimates   int64   `json:"estimates"`
	Seconds     float64 `json:"seconds"`
	Decided     bool    `json:"decided"` // false for a finished hand-off
	Reason      string  `json:"reason,omitempty"`
}

// Place is the place of a server that a node crawls.
type Place struct {
	Server string      `json:"server"`
	Vector *[4]float32 `json:"vector,omitempty"` // coordinate, if known
	At     *[2]float32 `json:"at,omitempty"`     // degrees north and east, if known
}

// Places are the places of a node's servers at one moment.
type Places struct {
	T      int64   `json:"t"`
	Places []Place `json:"places"`
}

// Book keeps what the page shows: an hour of samples and places, and the latest events and decisions. The zero value is ready, and safe for
// concurrent use.
type Book struct {
	// mu guards the fields below.
	mu        sync.Mutex
	seq       uint64
	events    []Event
	decisions []Decision
	samples   []Sample
	places    []Places
	stages    Stages
}

// Sampled adds a sample.
func (b *Book) Sampled(s Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples = append(dropOld(b.samples, s.T, func(s Sample) int64 { return s.T }), s)
}

// Placed adds the places of the node's servers.
func (b *Book) Placed(p Places) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.places = append(dropOld(b.places, p.T, func(p Places) int64 { return p.T }), p)
}

// dropOld drops entries older than the history, and entries later than now, which a clock that jumped has left.
func dropOld[E any](list []E, now int64, at func(E) int64) []E {
	return slices.DeleteFunc(list, func(e E) bool { return at(e) >= now || at(e) <= now-history.Milliseconds() })
}

// Watch takes a line of the run log, or the record of one of its events.
func (b *Book) Watch(line any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := line.(type) {
	case *runlog.Fetch:
		b.stages.Downloads++
		b.stages.DNS += l.DNSMs
		b.stages.Connect += l.ConnectMs
		b.stages.TLS += l.TLSMs
		b.stages.FirstByte += l.FirstByteMs
		b.stages.Body += l.LastByteMs
	case runlog.Assign:
		b.decisions = push(b.decisions, mostDecisions, Decision{T: time.Now().UnixMilli(), Batch: l.Batch, Assigner: l.Label, Host: l.Host, Owner: l.Owner, URLs: int64(l.URLs),
			PredictedMs: l.PredictedMs, Estimates: int64(l.Estimates), Seconds: l.Seconds, Decided: l.Decided, Reason: clip(l.Reason)})
	case slog.Record:
		b.addLocked(eventOf(l))
	case runlog.Member:
		b.addLocked(Event{Kind: l.Change, Host: l.Host, Peer: l.Peer, Reason: l.Reason})
	}
}

// push appends an element. When the list is full, it drops the older half.
func push[E any](list []E, most int, e E) []E {
	if len(list) >= most {
		list = append(list[:0], list[len(list)-most/2:]...)
	}
	return append(list, e)
}

func (b *Book) addLocked(e Event) {
	b.seq++
	e.Seq, e.T = b.seq, time.Now().UnixMilli()
	e.Host, e.Reason = clip(e.Host), clip(e.Reason)
	b.events = push(b.events, mostEvents, e)
}

func clip(s string) string {
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

func eventOf(r slog.Record) Event {
	e := Event{Kind: r.Message}
	if r.Level > slog.LevelInfo {
		e.Level = r.Level.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case runlog.KeyHost:
			e.Host = a.Value.String()
		case runlog.KeyPeer:
			e.Peer = a.Value.String()
		case runlog.KeyBy:
			e.By = a.Value.String()
		case runlog.KeyReason:
			e.Reason = strings.TrimSuffix(a.Value.String()+" · "+e.Reason, " · ")
		case runlog.KeyCount:
			e.Reason = strings.TrimPrefix(e.Reason+" · "+a.Value.String(), " · ")
		case runlog.KeyForMs:
			if ms, err := strconv.ParseFloat(a.Value.String(), 64); err == nil {
				e.Reason += " · for " + (time.Duration(ms) * time.Millisecond).String()
			}
		}
		return true
	})
	return e
}

// Stages returns the totals so far in whole ms, which is shorter to send.
func (b *Book) Stages() Stages {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stages
	return Stages{s.Downloads, math.Round(s.DNS), math.Round(s.Connect), math.Round(s.TLS), math.Round(s.FirstByte), math.Round(s.Body)}
}

// Samples returns the samples of the last hour.
func (b *Book) Samples() []Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Sample{}, b.samples...)
}

// Events returns at most the given number of the latest events whose Seq is above after, the oldest first.
func (b *Book) Events(after uint64, most int) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := max(0, len(b.events)-most)
	for from < len(b.events) && b.events[from].Seq <= after {
		from++
	}
	return append([]Event{}, b.events[from:]...)
}

// Decisions returns the latest decisions, the newest first.
func (b *Book) Decisions() []Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := append([]Decision{}, b.decisions...)
	slices.Reverse(list)
	return list
}

// PlacesAt returns the latest places at or before a time, or else the first.
func (b *Book) PlacesAt(t int64) (at Places) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, p := range b.places {
		if i == 0 || p.T <= t {
			at = p
		}
	}
	return at
}
