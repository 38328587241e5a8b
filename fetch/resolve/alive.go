package resolve

import (
	"context"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// alive is what is known of the name servers as a whole: a name whose own servers are dead may meet silence, too, and says
// nothing about this machine's network.
type alive struct {
	mu    sync.Mutex
	heard time.Time // when any server answered anything last
	deaf  time.Time // when a question to all of them was begun last that none answered

	probe singleflight.Group
}

// hear notes an answer.
func (a *alive) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// since says whether a server has answered since a time, and whether all have been asked in vain since then.
func (a *alive) since(t time.Time) (heard, deaf bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.heard.Before(t), !a.deaf.Before(t)
}

// silent reports whether no server answers at all. It is asked by a lookup that has heard nothing since start. If none
// of the others did, all servers are asked for what each of them knows: the servers of the root. Lookups share that probe,
// unless it was begun before start.
func (r *Resolver) silent(start time.Time) (silent, probed bool) {
	for ; r.ctx.Err() == nil; probed = true {
		if heard, deaf := r.alive.since(start); heard || deaf {
			return !heard, probed
		}
		r.alive.probe.Do("", func() (any, error) { r.probe(); return nil, nil })
	}
	return false, probed
}

// probe asks all servers at once, and notes where none answers.
func (r *Resolver) probe() {
	begun := time.Now()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var g sync.WaitGroup
	for _, server := range r.servers {
		g.Go(func() {
			_, _ = r.try(ctx, server, "", dns.TypeNS, 0)
			if heard, _ := r.alive.since(begun); heard {
				cancel() // one is enough
			}
		})
	}
	g.Wait()
	r.alive.mu.Lock()
	defer r.alive.mu.Unlock()
	if r.alive.heard.Before(begun) && r.ctx.Err() == nil {
		r.alive.deaf = begun
	}
}
