package placement

import (
	"fmt"
	"time"
)

// walk is what the search for ready hosts remembers from check to check.
type walk struct {
	after string // the last host looked at
	round int    // how often the walk has begun at the front
	// noticed are hosts with too few URLs: since when, and in which round they were seen last.
	noticed map[string]notice
	// resting are hosts that are left out until then.
	resting map[string]time.Time
}

type notice struct {
	since time.Time
	round int
}

// maxNoticed bounds the hosts whose waits are measured; others wait until some of these are assigned or done.
const maxNoticed = 100_000

// stride is how many hosts are looked at in one call.
const stride = 500

func newWalk() walk {
	return walk{noticed: make(map[string]notice), resting: make(map[string]time.Time)}
}

// gather goes on with the walk and returns the hosts that are ready, at most as many as a batch may have.
func (p *Placement) gather(now time.Time) ([]*host, error) {
	w := &p.walk
	for name, until := range w.resting {
		if !until.After(now) {
			delete(w.resting, name)
		}
	}
	var hosts []*host
	start, wrapped := w.after, false
	chosen := make(map[string]bool)
	for looked := 0; looked < p.cfg.Scan; looked += stride {
		found, next, err := p.deps.Frontier.Ready(w.after, 1, min(stride, p.cfg.Scan-looked))
		if err != nil {
			return nil, fmt.Errorf("look for ready hosts: %w", err)
		}
		for _, f := range found {
			if chosen[f.Host] || !p.ready(f.Host, f.Pending, now) {
				continue
			}
			chosen[f.Host] = true
			hosts = append(hosts, &host{name: f.Host, pending: f.Pending})
			if len(hosts) == p.cfg.Hosts {
				w.after = f.Host
				return hosts, nil
			}
		}
		w.after = next
		if next == "" {
			w.endRound()
			if wrapped || start == "" {
				break
			}
			wrapped = true
		} else if wrapped && next >= start { // all have been looked at
			break
		}
	}
	return hosts, nil
}

// ready says that a host belongs into a batch now.
func (p *Placement) ready(name string, pending int, now time.Time) bool {
	w := &p.walk
	if _, rests := w.resting[name]; rests || !p.deps.Owners.Mine(name) {
		return false
	}
	if pending >= p.cfg.URLs {
		delete(w.noticed, name)
		return true
	}
	n, ok := w.noticed[name]
	if !ok {
		if len(w.noticed) >= maxNoticed {
			return false
		}
		n.since = now
	}
	if ok && now.Sub(n.since) >= p.cfg.LongestWait {
		delete(w.noticed, name)
		return true
	}
	n.round = w.round
	w.noticed[name] = n
	return false
}

// endRound forgets the hosts that the round that ends did not meet, and begins the next.
func (w *walk) endRound() {
	for name, n := range w.noticed {
		if n.round < w.round {
			delete(w.noticed, name)
		}
	}
	w.round++
}

// rest leaves a host out of batches for a while.
func (w *walk) rest(name string, until time.Time) { w.resting[name] = until }
