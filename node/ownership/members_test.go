package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"proxima/node/view"
)

// The members of the world follow the rules of package member, without gossip and Paxos: each node says itself that it is settled, dead
// nodes count for a while, and a majority of the voters decides on the next voters.

const (
	deadAfter      = 5 * time.Second
	deathsSpread   = 15 * time.Second // how much later some nodes notice a death than others
	settleAfter    = time.Minute
	forgetAfter    = time.Minute
	majorityWindow = 10 * time.Minute
	// hearWithin is how long a voter counts after it was last heard with the same set of voters.
	hearWithin = 20 * time.Second
)

// seat is what a node knows of the members. The lock of the world guards its fields.
type seat struct {
	// voters is the number of the set of voters that it holds, renounced the one in which it gave up its vote. Both are on disk.
	voters, renounced int
	declared          bool      // it has told that it is settled
	down              time.Time // when it last stopped
	held              time.Time // since when it has seen a majority
	heard             map[int]time.Time
	matched           map[int]time.Time // when other nodes last held the same voters
	counts            map[int]bool      // who is settled
	departed          map[int]int       // who left in order, and which voters they held
	slow              map[int]time.Duration
	unreachable       map[int]bool // who cannot be dialled, as they said when they were last heard
}

// sit begins a life.
func (a *actor) sit(now time.Time) {
	a.heard, a.matched, a.counts, a.departed, a.slow = map[int]time.Time{}, map[int]time.Time{}, map[int]bool{}, map[int]int{}, map[int]time.Duration{}
	a.unreachable = map[int]bool{}
	a.held = now
	if !a.down.IsZero() && now.Sub(a.down) > forgetAfter {
		a.declared = false
	}
}

// slept makes the others seem as alive as they were before the freeze. Their votes count when they are heard again.
func (a *actor) slept(d time.Duration) {
	clear(a.matched)
	for at := range a.heard {
		a.heard[at] = a.heard[at].Add(d)
	}
}

// up reports whether a process runs and is not frozen.
func (a *actor) up() bool { return a.stop != nil && !a.now.dead && a.now.frozen == nil }

// aliveLocked reports whether another node counts as alive.
func (a *actor) aliveLocked(at int, now time.Time) bool {
	heard, ever := a.heard[at]
	_, left := a.departed[at]
	return ever && !left && now.Sub(heard) < deadAfter+a.slow[at]
}

// nearLocked returns the nodes whose gossip reaches a node, if need be by way of others.
func (w *world) nearLocked(a *actor) (near []*actor) {
	talk := func(i, j int) bool {
		return w.nodes[i].up() && w.nodes[j].up() && !w.cut[[2]int{i, j}] && !w.cut[[2]int{j, i}]
	}
	seen := map[int]bool{a.at: true}
	queue := []int{a.at}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		near = append(near, w.nodes[i])
		for j := range w.nodes {
			if !seen[j] && talk(i, j) {
				seen[j] = true
				queue = append(queue, j)
			}
		}
	}
	return near
}

// watch makes the views of all nodes, once a second.
func (w *world) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, a := range w.all() {
			w.see(a)
		}
	}
}

// see makes the view of a node.
func (w *world) see(a *actor) {
	now := time.Now()
	w.mu.Lock()
	if !a.up() {
		w.mu.Unlock()
		return
	}
	w.hearLocked(a, now)
	majority := w.majorityLocked(a, now)
	if !majority {
		a.held = now
	}
	if majority && now.Sub(a.held) >= settleAfter {
		a.declared, a.counts[a.at] = true, true
	}
	if majority {
		w.decideLocked(a, now)
	}
	v := view.View{Self: a.id, Majority: majority, Version: uint64(now.UnixNano())}
	for at, b := range w.nodes {
		alive := a.aliveLocked(at, now)
		if alive {
			v.Alive = append(v.Alive, b.id)
		} else if a.counts[at] || w.sets[a.voters][at] {
			v.Absent = append(v.Absent, b.id)
		}
		if !alive && now.Sub(a.heard[at]) > deadAfter+a.slow[at]+forgetAfter {
			delete(a.counts, at)
		}
		if a.counts[at] {
			v.Settled = append(v.Settled, b.id)
			if !a.unreachable[at] {
				v.Homes = append(v.Homes, b.id)
			}
		}
	}
	slices.Sort(v.Settled)
	slices.Sort(v.Homes)
	l, members := a.now, fmt.Sprint(v.Alive, v.Settled, v.Homes)
	changed := l.members != members
	l.members = members
	w.mu.Unlock()
	l.grantor.SetView(v)
	l.holder.SetView(v)
	l.owner.SetView(v)
	if changed {
		l.outbox.Review()
	}
}

// hearLocked takes in the gossip of the others.
func (w *world) hearLocked(a *actor, now time.Time) {
	near := w.nearLocked(a)
	for _, b := range near {
		delete(a.departed, b.at)
		if _, ever := a.heard[b.at]; !ever {
			a.slow[b.at] = time.Duration(w.rng.IntN(int(deathsSpread)))
		}
		a.heard[b.at], a.unreachable[b.at] = now, b.outbound
		if b.declared {
			a.counts[b.at] = true
		}
		a.voters = max(a.voters, b.voters)
	}
	for _, b := range near {
		if b.voters == a.voters {
			a.matched[b.at] = now
		}
		for at, of := range b.departed {
			if !w.nodes[at].up() {
				a.departed[at] = of
				delete(a.counts, at)
			}
		}
		for at := range b.counts { // newcomers hear of dead nodes that still count
			if _, ever := a.heard[at]; !ever && !b.aliveLocked(at, now) {
				a.heard[at], a.slow[at], a.counts[at] = b.heard[at], b.slow[at], true
			}
		}
	}
}

// majorityLocked reports whether a node sees a majority of its voters. Of two halves, the one with the lowest id counts.
func (w *world) majorityLocked(a *actor, now time.Time) bool {
	set := w.sets[a.voters]
	all, count, present := len(set) > 0, 0, 0
	lowest, has := "", false
	for at := range set {
		here := a.aliveLocked(at, now) && now.Sub(a.matched[at]) < hearWithin
		all = all && here
		if of, gone := a.departed[at]; gone && of == a.voters {
			continue
		}
		here = here && w.nodes[at].renounced != a.voters
		count++
		if here {
			present++
		}
		if id := w.nodes[at].id; lowest == "" || id < lowest {
			lowest, has = id, here
		}
	}
	return all || 2*present > count || 2*present == count && has
}

// decideLocked lets the present voters decide on the next set, if a node sees enough of them that hold the latest set.
func (w *world) decideLocked(a *actor, now time.Time) {
	set, next := w.sets[a.voters], map[int]bool{}
	for at, b := range w.nodes {
		of, gone := a.departed[at]
		switch alive := a.aliveLocked(at, now); {
		case gone && of == a.voters:
		case alive && (set[at] || a.counts[at]), !alive && set[at] && now.Sub(a.heard[at]) < majorityWindow:
			next[b.at] = true
		}
	}
	if a.voters != len(w.sets)-1 || len(next) == 0 || maps.Equal(set, next) {
		return
	}
	near, agree := w.nearLocked(a), 0
	for _, b := range near {
		if set[b.at] && b.voters == a.voters && b.renounced != a.voters {
			agree++
		}
	}
	if 2*agree <= len(set) {
		return
	}
	w.sets = append(w.sets, next)
	for _, b := range near {
		b.voters = len(w.sets) - 1
	}
}

// goAlone acts as an operator who makes the running nodes the voters.
func (w *world) goAlone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	set := map[int]bool{}
	for _, a := range w.nodes {
		if a.stop != nil {
			set[a.at] = true
		}
	}
	w.sets = append(w.sets, set)
	for at := range set {
		w.nodes[at].voters = len(w.sets) - 1
	}
}

// farewell lets a node that leaves in order give up its vote.
func (w *world) farewell(a *actor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.renounced = a.voters
	for _, b := range w.nearLocked(a) {
		if b != a {
			b.departed[a.at] = a.voters
			delete(b.counts, a.at)
		}
	}
}
