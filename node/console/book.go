package console

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"proxima/node/journal"
)

const (
	// history is how far back the book goes.
	history = time.Hour
	// mostEvents and mostDecisions bound what is remembered of them.
	mostEvents, mostDecisions = 1000, 500
	// longest is how long a text from elsewhere is kept, in bytes.
	longest = 400
)

// Sample is a node at one moment. Counters count since its start.
type Sample struct {
	T        int64            `json:"t"` // Unix time in ms
	Boot     uint64           `json:"boot"`
	Version  string           `json:"version"`
	Pages    int64            `json:"pages"`
	Bytes    int64            `json:"bytes"`
	Failed   int64            `json:"failed"` // pages that were not answered, or with an error of the server
	Pending  int64            `json:"pending"`
	Queued   int64            `json:"queued"`
	Hosts    int64            `json:"hosts"`
	Servers  int64            `json:"servers"`
	InFlight int64            `json:"in_flight"`
	RSS      int64            `json:"rss"`
	Heap     int64            `json:"heap"`
	CPU      float64          `json:"cpu_s"`
	Stages   Stages           `json:"stages"`
	Waits    map[string]int64 `json:"waits"` // hosts by what they wait for
	Leases   int64            `json:"leases"`
	Outbox   int64            `json:"outbox"`
	Paused   string           `json:"paused,omitempty"`
	Trouble  string           `json:"trouble,omitempty"` // why it decides nothing about hosts
}

// Stages are the sums of what downloads took, in ms.
type Stages struct {
	Downloads int64   `json:"downloads"`
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
	Body      float64 `json:"body"`
}

// Event is something that happened at a node. Seq counts them.
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

// Decision is where an assigner of a batch wants a host.
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
	Decided     bool    `json:"decided"` // false: a hand-off that is done
	Reason      string  `json:"reason,omitempty"`
}

// Place is a server that a node crawls.
type Place struct {
	Server string      `json:"server"`
	Vector *[4]float32 `json:"vector,omitempty"` // in the space of coordinates, where that is known
	At     *[2]float32 `json:"at,omitempty"`     // degrees north and east, where that is known
}

// Places are the servers of a node at one moment.
type Places struct {
	T      int64   `json:"t"`
	Places []Place `json:"places"`
}

// Book remembers what a page shows: an hour of samples and places, the latest events and decisions. It is safe for concurrent use, and a slog.Handler
// for the events.
type Book struct {
	// mu guards what follows.
	mu        sync.Mutex
	seq       uint64
	events    []Event
	decisions []Decision
	samples   []Sample
	places    []Places
	stages    Stages
}

// Sampled remembers a sample; Placed where the servers were.
func (b *Book) Sampled(s Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples = append(dropOld(b.samples, s.T, func(s Sample) int64 { return s.T }), s)
}

// Placed remembers where the servers of the node are.
func (b *Book) Placed(p Places) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.places = append(dropOld(b.places, p.T, func(p Places) int64 { return p.T }), p)
}

// dropOld drops what is older than the history, and what a clock that jumped has put behind now.
func dropOld[E any](list []E, now int64, at func(E) int64) []E {
	kept := list[:0]
	for _, e := range list {
		if t := at(e); t < now && t > now-history.Milliseconds() {
			kept = append(kept, e)
		}
	}
	clear(list[len(kept):])
	return kept
}

// Watch takes a line of the journal.
func (b *Book) Watch(line any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := line.(type) {
	case *journal.Fetch:
		b.stages.Downloads++
		b.stages.DNS += l.DNSMs
		b.stages.Connect += l.ConnectMs
		b.stages.TLS += l.TLSMs
		b.stages.FirstByte += l.FirstByteMs
		b.stages.Body += l.LastByteMs
	case journal.Assign:
		b.decisions = push(b.decisions, mostDecisions, Decision{T: time.Now().UnixMilli(), Batch: l.Batch, Assigner: l.Label, Host: l.Host, Owner: l.Owner, URLs: int64(l.URLs),
			PredictedMs: l.PredictedMs, Estimates: int64(l.Estimates), Seconds: l.Seconds, Decided: l.Decided, Reason: clip(l.Reason)})
	case journal.Member:
		b.addLocked(Event{Kind: l.Change, Host: l.Host, Peer: l.Peer, Reason: l.Reason})
	}
}

// push appends and forgets the oldest.
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

// Enabled implements slog.Handler.
func (b *Book) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler: it takes an event.
func (b *Book) Handle(_ context.Context, r slog.Record) error {
	e := Event{Kind: r.Message}
	if r.Level > slog.LevelInfo {
		e.Level = r.Level.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case journal.KeyHost:
			e.Host = a.Value.String()
		case journal.KeyPeer:
			e.Peer = a.Value.String()
		case journal.KeyBy:
			e.By = a.Value.String()
		case journal.KeyReason:
			e.Reason = a.Value.String()
		case journal.KeyCount:
			e.Reason = strings.TrimPrefix(e.Reason+" · "+a.Value.String(), " · ")
		case journal.KeyForMs:
			if ms, err := strconv.ParseFloat(a.Value.String(), 64); err == nil {
				e.Reason += " · for " + (time.Duration(ms) * time.Millisecond).String()
			}
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(e)
	return nil
}

// WithAttrs implements slog.Handler.
func (b *Book) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b *Book) WithGroup(string) slog.Handler { return b }

// Stages are the sums so far, in whole ms: they are sent often.
func (b *Book) Stages() Stages {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stages
	return Stages{s.Downloads, math.Round(s.DNS), math.Round(s.Connect), math.Round(s.TLS), math.Round(s.FirstByte), math.Round(s.Body)}
}

// Samples are those of the last hour.
func (b *Book) Samples() []Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Sample{}, b.samples...)
}

// Events are those after a number, the oldest first, at most so many.
func (b *Book) Events(after uint64, most int) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := max(0, len(b.events)-most)
	for from < len(b.events) && b.events[from].Seq <= after {
		from++
	}
	return append([]Event{}, b.events[from:]...)
}

// Decisions are the latest, the newest first.
func (b *Book) Decisions() []Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Decision, 0, len(b.decisions))
	for i := range b.decisions {
		list = append(list, b.decisions[len(b.decisions)-1-i])
	}
	return list
}

// PlacesAt are those of a moment: the latest before it, the first where there is none.
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
