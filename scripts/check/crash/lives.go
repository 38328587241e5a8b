package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"proxima/scripts/lab"
)

// kill ends a life. Life i ends with kill i; the last life ends by itself.
type kill struct {
	at       time.Time // just before the signal
	starting bool      // aimed at the start of the node
}

// plan says when a kill comes: a delay after a number of answered paths, or after the start of the life.
type plan struct {
	starting bool
	after    int
	delay    time.Duration
}

// plans draws the kills. One in four is aimed at the start of the node; the others are spread over the crawl, by progress
// rather than by the clock, so that all fit in on a machine of any speed.
func plans(s settings, total int) []plan {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	list := make([]plan, s.Kills)
	marks := make([]int, s.Kills)
	for i := range marks {
		marks[i] = random.IntN(total * 19 / 20)
	}
	slices.Sort(marks)
	for i := range list {
		list[i] = plan{starting: random.IntN(4) == 0, after: marks[i]}
		if list[i].starting {
			// Squared, so that most come early, while the node opens its store and reads what is pending.
			r := random.Float64()
			list[i].delay = time.Duration(r * r * float64(200*time.Millisecond))
		} else {
			list[i].delay = time.Duration(random.Int64N(int64(2*s.Think) + 1))
		}
	}
	return list
}

// runLives crawls, kills and resumes, and waits for the end of the last life.
func runLives(ctx context.Context, s settings, site *lab.Site) ([]kill, error) {
	var kills []kill
	for life, p := range plans(s, len(expected(site))) {
		k, err := runLife(ctx, s, site, life, &p)
		if err != nil {
			return kills, err
		}
		kills = append(kills, k)
	}
	_, err := runLife(ctx, s, site, s.Kills, nil)
	return kills, err
}

// runLife starts the node and kills it as planned; without a plan it waits for the end.
func runLife(ctx context.Context, s settings, site *lab.Site, life int, p *plan) (kill, error) {
	node, err := s.Start(ctx, site, life, "")
	if err != nil {
		return kill{}, err
	}
	if p == nil {
		return kill{}, s.Last(ctx, node)
	}
	early := func() (kill, error) {
		return kill{}, fmt.Errorf("life %d ended before it was killed, with %d of %d answered: %v\n%s",
			life, site.Finished(), len(expected(site)), errors.Join(node.Wait(), ctx.Err()), node.Tail())
	}
	for !p.starting && site.Finished() < p.after {
		select {
		case <-node.Ended():
			return early()
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-node.Ended():
		return early()
	case <-time.After(p.delay):
	}
	k := kill{at: time.Now(), starting: p.starting}
	if !node.Kill() { // it ended by itself at this moment
		return early()
	}
	for deadline := time.Now().Add(10 * time.Second); site.Active() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return kill{}, fmt.Errorf("life %d: the site is still answering it", life)
		}
	}
	return k, nil
}
