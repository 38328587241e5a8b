package placement

import (
	"fmt"
	"maps"
	"time"
)

// walk is the state of the search for ready hosts. A search begins where the last one ended.
type walk struct {
	after     string               // the last host that was looked at
	lastBegan time.Time            // when the last walk began that has looked at all hosts; zero before
	thisBegan time.Time            // when the present walk began; zero for the first one
	scan      int                  // maxScan, less in tests
	most      int                  // maxNoticed, less in tests
	noticed   map[string]time.Time // hosts with too few URLs, and since when
	resting   map[string]time.Time // hosts that are left out, and until when
}

const (
	// maxNoticed bounds the hosts whose waits are measured. Others wait until some of these are assigned or done.
	maxNoticed = 100_000
	// maxScan is how many hosts one check looks at: a multiple of stride, which is how many one call looks at.
	maxScan, stride = 5_000, 500
)

func newWalk() walk {
	return walk{scan: maxScan, most: maxNoticed, noticed: make(map[string]time.Time), resting: make(map[string]time.Time)}
}

// gather continues the walk and returns hosts that are ready for a batch that has some already. Both together are no more than a batch may have.
func (p *Placement) gather(now time.Time, already []*host) ([]*host, error) {
	w := &p.walk
	maps.DeleteFunc(w.resting, func(_ string, until time.Time) bool { return !until.After(now) })
	if len(w.noticed) >= w.most { // hosts that a whole walk has not found since they were overdue are gone; a walk over many takes long
		maps.DeleteFunc(w.noticed, func(_ string, since time.Time) bool { return since.Add(p.cfg.LongestWait).Before(w.lastBegan) })
	}
	var hosts []*host
	start, wrapped := w.after, false
	chosen := make(map[string]bool)
	for _, h := range already {
		chosen[h.name] = true
	}
	if len(chosen) >= p.cfg.Hosts {
		return nil, nil
	}
	for looked := 0; looked < w.scan; looked += stride {
		found, next, err := p.deps.Frontier.Ready(w.after, 1, stride)
		if err != nil {
			return nil, fmt.Errorf("look for ready hosts: %w", err)
		}
		for _, f := range found {
			if chosen[f.Host] || !p.ready(f.Host, f.Pending, now) {
				continue
			}
			chosen[f.Host] = true
			hosts = append(hosts, &host{name: f.Host, pending: f.Pending})
			if len(chosen) == p.cfg.Hosts {
				w.after = f.Host
				return hosts, nil
			}
		}
		if w.after = next; next == "" {
			w.lastBegan, w.thisBegan = w.thisBegan, now
		}
		switch {
		case next == "" && (wrapped || start == ""), next != "" && wrapped && next >= start:
			return hosts, nil // the walk has looked at all hosts
		case next == "":
			wrapped = true
		}
	}
	return hosts, nil
}

// ready reports whether a host belongs into a batch now: it has enough URLs, or has waited long for more.
func (p *Placement) ready(name string, pending int, now time.Time) bool {
	w := &p.walk
	if _, rests := w.resting[name]; rests || !p.deps.Owners.Mine(name) {
		return false
	}
	since, noticed := w.noticed[name]
	if pending >= p.cfg.URLs || noticed && now.Sub(since) >= p.cfg.LongestWait {
		delete(w.noticed, name)
		return true
	}
	if !noticed && len(w.noticed) < w.most {
		w.noticed[name] = now
	}
	return false
}
