package resolve

import (
	"context"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// alive is what is known of the name servers as a whole: a name whose own servers are dead may meet silence, too, and says
// nothing about this machine's network.
type alive struct {
	mu    sync.Mutex
	heard time.Time // when any server answered anything last
	deaf  time.Time // when a question to all of them was begun last that none answered

	asking chan struct{} // holds one while all are asked
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
	return !a.heard.Before(t) && !a.heard.IsZero(), !a.deaf.Before(t) && !a.deaf.IsZero()
}

// silent reports whether no server answers at all. It is asked by a lookup that began at start and heard nothing. If none
// of the others did, all servers are asked for what each of them knows: the servers of the root.
func (r *Resolver) silent(start time.Time) bool {
	if heard, deaf := r.alive.since(start); heard || deaf {
		return !heard
	}
	r.alive.asking <- struct{}{}
	defer func() { <-r.alive.asking }()
	if heard, deaf := r.alive.since(start); heard || deaf {
		return !heard
	}
	begun := time.Now()
	var g sync.WaitGroup
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	for _, server := range r.servers {
		g.Go(func() {
			_, _ = r.try(ctx, server, "", dns.TypeNS, 0)
			if heard, _ := r.alive.since(begun); heard {
				cancel() // one is enough
			}
		})
	}
	g.Wait()
	if heard, _ := r.alive.since(begun); heard || r.ctx.Err() != nil {
		return false
	}
	r.alive.mu.Lock()
	defer r.alive.mu.Unlock()
	r.alive.deaf = begun
	return true
}
