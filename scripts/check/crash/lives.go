package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"proxima/scripts/lab"
)

const config = `# Written by the crash check for one life of the node: the version in the User-Agent tells the lives apart.
[crawl]
fetchers = %d
patience = "5s"

[scope]
seed_scope = "host"

[politeness]
own = ["127.0.3.0/24"]
own_gap = "0s"
own_parallel = %d

[fetch]
user_agent = "Proxima/0.%d"
allow_prefixes = ["127.0.3.0/24"]
`

// kill is the end of one life. Life i ends with kill i; the last life ends by itself.
type kill struct {
	at       time.Time // just before the signal was sent
	starting bool      // meant to meet the start of the node
}

// plan says when a kill comes: after so many paths were answered, or counted from the start of the life, and a delay.
type plan struct {
	starting bool
	after    int
	delay    time.Duration
}

// plans draws the moments: one kill in four meets the start of the node, the others are spread at random over the
// crawl. The progress and not the clock spaces them, so that all fit on machines of any speed.
func plans(s settings, total int) []plan {
	random := rand.New(rand.NewPCG(s.seed, 0))
	list := make([]plan, s.kills)
	marks := make([]int, s.kills)
	for i := range marks {
		marks[i] = random.IntN(total * 19 / 20)
	}
	slices.Sort(marks)
	for i := range list {
		list[i] = plan{starting: random.IntN(4) == 0, after: marks[i]}
		if list[i].starting {
			// Squared: most come in the first moments, when the node opens its store and reads what is pending.
			r := random.Float64()
			list[i].delay = time.Duration(r * r * float64(200*time.Millisecond))
		} else {
			list[i].delay = time.Duration(random.Int64N(int64(2*s.think) + 1))
		}
	}
	return list
}

// runLives crawls, kills and resumes, and lets the last life come to its end.
func runLives(ctx context.Context, s settings, site *lab.Site) ([]kill, error) {
	var kills []kill
	for life, p := range plans(s, len(expected(site))) {
		k, err := runLife(ctx, s, site, life, &p)
		if err != nil {
			return kills, err
		}
		kills = append(kills, k)
	}
	_, err := runLife(ctx, s, site, s.kills, nil)
	return kills, err
}

// runLife starts the node and kills it as planned, or without plan waits for its end.
func runLife(ctx context.Context, s settings, site *lab.Site, life int, p *plan) (kill, error) {
	file := filepath.Join(s.dir, "node.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, s.fetchers, s.fetchers, life), 0o644); err != nil {
		return kill{}, fmt.Errorf("write config: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.proxima, "node", "-quiet", "-config", file, "-data", filepath.Join(s.dir, "data"), site.URL(0, 0))
	node, err := lab.Start(cmd)
	if err != nil {
		return kill{}, err
	}
	if p == nil {
		if err := node.Wait(); err != nil {
			return kill{}, fmt.Errorf("life %d, which was not killed: %w\n%s", life, errors.Join(err, ctx.Err()), node.Tail())
		}
		return kill{}, nil
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
	if !node.Kill() { // it ended by itself, in the moment of the kill
		return early()
	}
	for deadline := time.Now().Add(10 * time.Second); site.Active() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return kill{}, fmt.Errorf("life %d: the site is still answering it", life)
		}
	}
	return k, nil
}
