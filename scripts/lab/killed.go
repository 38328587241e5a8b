package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Killed is a node that crawls a site on one server of this machine and is killed repeatedly.
type Killed struct {
	Place
	Kills, Pages, Fetchers int
	Seed                   uint64
	Think                  time.Duration
	Site                   *Site // after Open
	node                   *Node
}

// Subnet is the network of the site's addresses.
const Subnet = "127.0.3."

const killedConfig = `# Written by a check for one life of the node. The version in the User-Agent identifies the life.
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
user_agent = "%s"
allow_prefixes = ["127.0.3.0/24"]

%s`

// Flags defines the flags of a check, with its defaults for kills and pages.
func (k *Killed) Flags(kills, pages int) {
	k.Place.Flags()
	flag.IntVar(&k.Kills, "kills", kills, "`number` of kills")
	flag.IntVar(&k.Pages, "pages", pages, "`number` of pages of the site")
	flag.IntVar(&k.Fetchers, "fetchers", 8, "`number` of downloads at once")
	flag.Uint64Var(&k.Seed, "seed", 1, "`seed` of the kills' moments")
	flag.DurationVar(&k.Think, "think", 20*time.Millisecond, "mean `time` until the site answers; at most twice as long")
}

// Parse reads the flags. Wrong ones end the program.
func (k *Killed) Parse() {
	flag.Parse()
	Refuse(k.Kills < 0 || k.Pages < 1 || k.Fetchers < 1 || k.Kills > k.Pages)
}

// Open prepares the node, and serves the site until end is called.
func (k *Killed) Open(ctx context.Context, name string) (end func() error, err error) {
	remove, err := k.Place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	l := NewLayout(Subnet, k.Pages, 1, 1)
	l.Redirects = 25
	if k.Site, err = Serve(l, k.Think); err != nil {
		return nil, err
	}
	nodes, err := NewCrew(k.Dir, k.Proxima, k.Site.Seeds(), "", "")
	if err != nil {
		return nil, errors.Join(err, k.Site.Close())
	}
	k.node = nodes[0]
	return func() error {
		defer remove()
		return k.Site.Close()
	}, nil
}

// Data returns the directory of the node's data.
func (k *Killed) Data() string { return k.node.Data() }

// Kill ends a life. Life i ends with kill i; the last life ends by itself.
type Kill struct {
	At       time.Time // just before the signal
	Starting bool      // aimed at the start of the node
}

// killing says when a kill comes: a delay after a number of answered paths, or after the start of the life.
type killing struct {
	starting bool
	after    int
	delay    time.Duration
}

// killings draws the kills. One in four is aimed at the start of the node; the others are spread over the crawl, by progress rather than by
// the clock, so that all fit in on a machine of any speed.
func (k *Killed) killings(paths int) []killing {
	random := rand.New(rand.NewPCG(k.Seed, 0))
	list := make([]killing, k.Kills)
	for i := range list {
		list[i].after = random.IntN(paths * 19 / 20)
	}
	slices.SortFunc(list, func(a, b killing) int { return a.after - b.after })
	for i := range list {
		if list[i].starting = random.IntN(4) == 0; list[i].starting {
			// Squared, so that most come early, while the node opens its store and reads what is pending.
			r := random.Float64()
			list[i].after, list[i].delay = 0, time.Duration(r*r*float64(200*time.Millisecond))
		} else {
			list[i].delay = time.Duration(random.Int64N(int64(2*k.Think) + 1))
		}
	}
	return list
}

// Crawl runs the lives of the node, with sections added to its configuration, and returns the kills. A life that makes no progress is killed
// after a time of at most patience, if that is not 0. watch is called all the time until a kill. The crawl may end before the last kill.
func (k *Killed) Crawl(ctx context.Context, sections string, patience time.Duration, watch func(life int)) (kills []Kill, err error) {
	random := rand.New(rand.NewPCG(k.Seed, 1))
	for life, plan := range k.killings(len(k.Site.Pages())) {
		if err := k.start(ctx, life, sections); err != nil {
			return kills, err
		}
		var late <-chan time.Time
		if patience > 0 {
			late = time.After(time.Duration(random.Int64N(int64(patience))))
		}
		killed, err := k.kill(plan, late, func() { watch(life) })
		if err != nil {
			return kills, fmt.Errorf("life %d ended before it was killed, with %d of %d pages answered: %w\n%s", life, k.Site.Finished(), k.Pages,
				errors.Join(err, ctx.Err()), k.node.Now.Tail())
		}
		if killed.IsZero() {
			return kills, nil
		}
		kills = append(kills, Kill{killed, plan.starting})
		if !Within(ctx, 10*time.Second, func() bool { return k.Site.Active() == 0 }) {
			return kills, fmt.Errorf("life %d: the site is still answering it", life)
		}
	}
	if err := k.start(ctx, k.Kills, sections); err != nil {
		return kills, err
	}
	if err := k.node.Now.Wait(); err != nil {
		return kills, fmt.Errorf("life %d, which was not killed: %w\n%s", k.Kills, errors.Join(err, ctx.Err()), k.node.Now.Tail())
	}
	return kills, nil
}

func (k *Killed) start(ctx context.Context, life int, sections string) error {
	k.node.Life = life
	return k.node.Start(ctx, fmt.Sprintf(killedConfig, k.Fetchers, k.Fetchers, k.node.Agent(), sections), nil, "-quiet")
}

// kill kills the node as planned. It returns the time of the kill; or, if the node ended before, zero and how it ended.
func (k *Killed) kill(plan killing, late <-chan time.Time, watch func()) (time.Time, error) {
	p, waiting := k.node.Now, true
	for waiting && p.Running() && k.Site.Finished() < plan.after {
		watch()
		select {
		case <-late:
			waiting = false
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-p.Ended():
	case <-time.After(plan.delay):
	}
	at := time.Now()
	if !p.Kill() { // it ended by itself
		return time.Time{}, p.Wait()
	}
	return at, nil
}
