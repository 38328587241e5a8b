package peer

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Refusal is something that a server did not accept.
type Refusal struct {
	// Peer is the id of the node that sent it, or the host of an address where the node is not known.
	Peer string
	// Kind is one of the Kinds.
	Kind string
	// Procedure is the call, empty for a connection.
	Procedure string
	// Reason says in words what was wrong with it.
	Reason string
	// Skipped counts refusals of the same peer and kind since the last that was told.
	Skipped uint64
}

const (
	// refusalEvery is how often one kind of one peer is told.
	refusalEvery = time.Second
	// maxTold bounds how many peers and kinds are remembered; strangers have as many addresses as they like.
	maxTold = 1024
	// toldFor is how long those are remembered, at least, of whom more was refused than was told.
	toldFor = time.Minute
	// maxReason is the length in bytes of the longest words of a peer that are kept or told.
	maxReason = 300
)

// refusals counts what is refused, and tells some of it. Safe for concurrent use.
type refusals struct {
	tally *tally
	tell  func(Refusal)

	// mu guards what follows.
	mu   sync.Mutex
	told map[[2]string]*told
}

type told struct {
	at      time.Time
	skipped uint64
}

func newRefusals(t *tally, tell func(Refusal)) *refusals {
	return &refusals{tally: t, tell: tell, told: map[[2]string]*told{}}
}

func (r *refusals) add(f Refusal) {
	r.tally.failed(f.Kind)
	if r.tell == nil {
		return
	}
	f.Reason = plain(f.Reason)
	if r.due(&f) {
		r.tell(f)
	}
}

// plain makes words that a peer chose harmless: they end up in logs, and must not fill one, or break a line or a terminal.
func plain(words string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == utf8.RuneError {
			return '?'
		}
		return c
	}, words[:min(len(words), maxReason)])
}

// due says whether a refusal is told, and fills in how many were not.
func (r *refusals) due(f *Refusal) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{f.Peer, f.Kind}
	last := r.told[key]
	if last == nil && len(r.told) >= maxTold {
		for k, t := range r.told {
			if age := now.Sub(t.at); age >= refusalEvery && t.skipped == 0 || age >= toldFor {
				delete(r.told, k)
			}
		}
		if len(r.told) >= maxTold {
			key = [2]string{"", f.Kind} // all others together
			last = r.told[key]
		}
	}
	switch {
	case last == nil:
		r.told[key] = &told{at: now}
		return true
	case now.Sub(last.at) < refusalEvery:
		last.skipped++
		return false
	}
	f.Skipped, last.skipped, last.at = last.skipped, 0, now
	return true
}

// faults takes net/http's log of what went wrong with connections of peers.
type faults struct{ r *refusals }

// Write is one line of the log.
func (f faults) Write(line []byte) (int, error) {
	f.r.add(Refusal{Kind: KindInternal, Reason: strings.TrimSpace(string(line))})
	return len(line), nil
}

// unread is the refusal of a call that connect refused of its own accord: its message was never read.
func unread(c *call, status int, body []byte) Refusal {
	f := Refusal{Peer: c.peer, Procedure: c.procedure, Kind: KindMalformed, Reason: http.StatusText(status)}
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		f.Kind = KindOversized
	case http.StatusUnsupportedMediaType, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		f.Kind = KindProcedure
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, http.StatusServiceUnavailable, 499:
		f.Kind = KindUnavailable
	case http.StatusInternalServerError:
		f.Kind = KindInternal
	}
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) == nil && said.Message != "" {
		f.Reason = said.Message
	}
	return f
}
