package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
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
user_agent = "Proxima/%d"
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
func runLives(ctx context.Context, s settings, o *origin) ([]kill, error) {
	var kills []kill
	for life, p := range plans(s, len(o.expected())) {
		k, err := runLife(ctx, s, o, life, &p)
		if err != nil {
			return kills, err
		}
		kills = append(kills, k)
	}
	_, err := runLife(ctx, s, o, s.kills, nil)
	return kills, err
}

// runLife starts the node and kills it as planned, or without plan waits for its end.
func runLife(ctx context.Context, s settings, o *origin, life int, p *plan) (kill, error) {
	file := filepath.Join(s.dir, "node.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, s.fetchers, s.fetchers, life), 0o644); err != nil {
		return kill{}, fmt.Errorf("write config: %w", err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, s.proxima, "node", "-quiet", "-config", file, "-data", filepath.Join(s.dir, "data"), o.url)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return kill{}, fmt.Errorf("start node: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if p == nil {
		if err := <-ended; err != nil {
			return kill{}, fmt.Errorf("life %d, which was not killed: %w\n%s", life, errors.Join(err, ctx.Err()), tail(out.Bytes()))
		}
		return kill{}, nil
	}
	early := func(err error) (kill, error) {
		return kill{}, fmt.Errorf("life %d ended before it was killed, with %d of %d answered: %v\n%s",
			life, o.progress(), len(o.expected()), errors.Join(err, ctx.Err()), tail(out.Bytes()))
	}
	for !p.starting && o.progress() < p.after {
		select {
		case err := <-ended:
			return early(err)
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case err := <-ended:
		return early(err)
	case <-time.After(p.delay):
	}
	k := kill{at: time.Now(), starting: p.starting}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return kill{}, fmt.Errorf("kill node: %w", err)
	}
	<-ended
	if cmd.ProcessState.Exited() { // by itself, in the moment of the kill
		return early(nil)
	}
	for deadline := time.Now().Add(10 * time.Second); !o.drained(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return kill{}, fmt.Errorf("life %d: the site is still answering it", life)
		}
	}
	return k, nil
}

// tail is the end of what a node printed.
func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }
