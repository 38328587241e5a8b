package resolve

import (
	"context"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// alive tracks the name servers as a whole. Silence about one name may only mean that the name's own servers are dead; it says
// nothing about this machine's network.
type alive struct {
	mu    sync.Mutex
	heard time.Time // when any server last answered anything but SERVFAIL
	deaf  time.Time // start of the last probe that no server answered

	probe singleflight.Group
}

// hear notes an answer that shows more than that the server itself is there.
func (a *alive) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// since reports whether a server has answered since t, and whether a probe of all since t was in vain.
func (a *alive) since(t time.Time) (heard, deaf bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.heard.Before(t), !a.deaf.Before(t)
}

// silent reports whether no server answers at all. A lookup calls it that has heard nothing since start. If no other lookup has
// either, it probes all servers with a question that each can answer: the name servers of the root. Lookups share a probe unless
// it began before start.
func (r *Resolver) silent(start time.Time) (silent, probed bool) {
	for ; r.ctx.Err() == nil; probed = true {
		if heard, deaf := r.alive.since(start); heard || deaf {
			return !heard, probed
		}
		r.alive.probe.Do("", func() (any, error) { r.probe(); return nil, nil })
	}
	return false, probed
}

// probe asks all servers at once, and notes if none answers.
func (r *Resolver) probe() {
	begun := time.Now()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var g sync.WaitGroup
	for _, server := range *r.servers.Load() {
		g.Go(func() {
			_, _ = r.try(ctx, server, "", dns.TypeNS, 0)
			if heard, _ := r.alive.since(begun); heard {
				cancel() // one is enough
			}
		})
	}
	g.Wait()
	if heard, _ := r.alive.since(begun); !heard && r.conf != "" {
		_ = r.readConf() // the network may be another now; otherwise the servers stay
	}
	r.alive.mu.Lock()
	defer r.alive.mu.Unlock()
	if r.alive.heard.Before(begun) {
		r.alive.deaf = begun
	}
}
