package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"proxima/node/netsim"
)

// faults are what may happen to a node.
var faults = []func(x *troubles, i int){
	(*troubles).isKilled, (*troubles).isKilled, (*troubles).leaves, (*troubles).losesItsDisk, (*troubles).isCutOff, (*troubles).losesAPath,
	(*troubles).isMute, (*troubles).losesTheWeb, (*troubles).isFull, (*troubles).hangs, (*troubles).jumps, (*troubles).isSlow, (*troubles).moves,
	(*troubles).isLost, (*troubles).isDrained, (*troubles).isPaused, (*troubles).rotates, (*troubles).siteFails, (*troubles).siteFails,
	(*troubles).isBarred, (*troubles).getsSeeds, (*troubles).getsSeeds, (*troubles).blocks, (*troubles).drops, (*troubles).movesAway,
	(*troubles).goesBack, (*troubles).goesBack, (*troubles).goesBack, (*troubles).siteMoves, (*troubles).siteMoves,
}

// one begins a fault of a node that is well enough for one.
func (x *troubles) one() {
	i := x.rng.IntN(len(x.nodes))
	if n := x.nodes[i]; !n.dead.Load() && !x.hung[i].Load() && !n.hasEnded() {
		faults[x.rng.IntN(len(faults))](x, i)
	}
}

// downs notes that a node is down until the fault ends. It stays down if the others have ended meanwhile.
func (x *troubles) downs(i int, what string) {
	x.lasts(x.name(i)+what, func() {
		if x.ended() {
			x.behind++
		} else {
			x.start(i)
		}
	})
}

func (x *troubles) isKilled(i int) {
	x.kill(i)
	x.downs(i, " is killed")
}

// movesAway kills a node, which comes back at another address.
func (x *troubles) movesAway(i int) {
	x.kill(i)
	x.downs(i, " is killed, and moves")
	back := x.ends[len(x.ends)-1]
	x.ends[len(x.ends)-1] = func() {
		if _, away := x.moved[i]; away {
			delete(x.moved, i)
		} else if len(x.moved) == 0 {
			x.moved[i] = len(x.nodes)
		}
		back()
	}
}

func (x *troubles) leaves(i int) {
	x.leave(i)
	x.downs(i, " has left")
}

// losesItsDisk erases a disk. What is on it is on another one, unless that had a fault as well.
func (x *troubles) losesItsDisk(i int) {
	if len(x.ends) > 0 || time.Since(x.erased) < 5*time.Minute {
		return
	}
	x.kill(i)
	must(x.t, os.RemoveAll(filepath.Join(x.dir, x.name(i))))
	x.erased = time.Now()
	x.disks++
	x.ids++
	data := x.config(i).Node.Data
	must(x.t, os.MkdirAll(data, 0o700))
	must(x.t, os.Mkdir(filepath.Join(data, "logs"), 0o700)) // its next life may never begin
	must(x.t, os.WriteFile(filepath.Join(data, "logs", "member.jsonl"), nil, 0o600))
	must(x.t, os.WriteFile(filepath.Join(data, "node.json"), fmt.Appendf(nil, `{"v":1,"node":%q,"boot":0}`, netsim.ID(x.ids)), 0o600))
	x.downs(i, " has lost its disk")
}

// goesBack kills a node, whose disk is as it was when it was copied: the first time that this fault meets it.
func (x *troubles) goesBack(i int) {
	if len(x.ends) > 0 || time.Since(x.erased) < 5*time.Minute {
		return
	}
	x.kill(i)
	data, copied := x.config(i).Node.Data, filepath.Join(x.dir, "copy of "+x.name(i))
	if _, err := os.Stat(copied); err != nil {
		must(x.t, os.CopyFS(copied, os.DirFS(data)))
		x.downs(i, " is killed and copied")
		return
	}
	logs := filepath.Join(x.dir, "logs of "+x.name(i))
	must(x.t, os.Rename(filepath.Join(data, "logs"), logs)) // for the judges of this test
	must(x.t, os.RemoveAll(data))
	must(x.t, os.CopyFS(data, os.DirFS(copied)))
	must(x.t, os.RemoveAll(filepath.Join(data, "logs")))
	must(x.t, os.Rename(logs, filepath.Join(data, "logs")))
	x.erased = time.Now()
	x.disks++
	x.downs(i, " has an older disk")
}

func (x *troubles) isCutOff(int) {
	side := x.rng.Perm(len(x.nodes))[:1+x.rng.IntN(2)]
	x.part(side, true)
	x.lasts(fmt.Sprint("partition of ", side), func() { x.part(nil, false) })
}

func (x *troubles) losesAPath(i int) {
	j := (i + 1 + x.rng.IntN(len(x.nodes)-1)) % len(x.nodes)
	x.net.Cut(x.place(i), x.place(j))
	x.lasts(fmt.Sprintf("no path between %s and %s", x.name(i), x.name(j)), func() { x.part(nil, false) })
}

func (x *troubles) isMute(i int) {
	x.nodes[i].mute.Store(true)
	x.lasts(x.name(i)+" dials nobody", func() { x.nodes[i].mute.Store(false) })
}

func (x *troubles) losesTheWeb(i int) {
	x.Cut(x.name(i), true)
	x.lasts(x.name(i)+" has no web", func() { x.Cut(x.name(i), x.nodes[i].dead.Load()) })
}

// isBarred takes a site out of a node's reach for good. No site is out of the reach of two.
func (x *troubles) isBarred(i int) {
	k := x.owned(i)
	if _, barred := x.bars.LoadOrStore(netip.MustParseAddr(address(k)), i); !barred {
		x.Reset(x.name(i))
		x.log("%s does not reach %s any more", x.name(i), x.sites[k])
	}
}

func (x *troubles) isFull(i int) {
	free := []int64{10, 50}[x.rng.IntN(2)] // for anything, for pages
	x.nodes[i].full.Store(free)
	x.lasts(fmt.Sprintf("%s has %d MiB free", x.name(i), free), func() { x.nodes[i].full.Store(0) })
}

func (x *troubles) hangs(i int) {
	x.hung[i].Store(true)
	x.lasts(x.name(i)+" has a hung disk", func() {
		x.hung[i].Store(false)
		if x.nodes[i].hasEnded() { // as a failure: it could write nothing more
			x.nodes[i].dead.Store(true)
			x.behind++
		}
	})
}

func (x *troubles) jumps(i int) {
	d := time.Duration((x.rng.Float64() - 0.5) * float64(10*time.Hour))
	x.log("the clock of %s jumps by %v", x.name(i), d)
	x.nodes[i].jump.Add(int64(d))
}

func (x *troubles) isSlow(i int) {
	x.nodes[i].rate.Store(2e5)
	x.lasts(x.name(i)+" is slow", func() { x.nodes[i].rate.Store(2e6) })
}

// owned draws a site that a node owns, or any if it owns none.
func (x *troubles) owned(i int) int {
	first := x.rng.IntN(len(x.sites))
	for d := range x.sites {
		if k := (first + d) % len(x.sites); x.nodes[i].node.Owns("http://" + x.sites[k]) {
			return k
		}
	}
	return first
}

func (x *troubles) moves(i int) {
	host, to := x.sites[x.owned(i)], netsim.ID(x.rng.IntN(len(x.nodes)))
	_, err := x.operator(i).Move(x.t.Context(), host, to, "ann")
	x.log("%s is asked to move %s to %s: %v", x.name(i), host, to, err)
}

// isLost kills a node for good.
func (x *troubles) isLost(i int) {
	if x.lost || len(x.ends) > 0 || time.Since(x.erased) < 5*time.Minute {
		return
	}
	x.kill(i)
	x.lost, x.erased = true, time.Now()
	x.disks++
	x.log("%s is lost for good", x.name(i))
}

// isDrained lets a node hand over its hosts and stop. If it has not stopped when that ends, it is restarted, and goes on as if nothing had happened.
func (x *troubles) isDrained(i int) {
	if err := x.operator(i).Drain("ann"); err != nil {
		x.log("%s: %v", x.name(i), err)
		return
	}
	x.lasts(x.name(i)+" is drained", func() {
		if n := x.nodes[i]; !n.dead.Load() {
			over := x.ended()
			x.leave(i)
			if over {
				x.behind++
			} else {
				x.start(i)
			}
		}
	})
}

func (x *troubles) isPaused(i int) {
	must(x.t, x.operator(i).Pause("ann"))
	x.log("%s is paused", x.name(i))
}

// resume ends the pauses of all nodes: a node stays paused over its death.
func (x *troubles) resume() {
	for i, n := range x.nodes {
		if !n.dead.Load() && !n.hasEnded() {
			must(x.t, x.operator(i).Resume("ann"))
		}
	}
}

// getsSeeds makes a node begin a site that nothing links to.
func (x *troubles) getsSeeds(i int) {
	if len(x.late) == 0 {
		return
	}
	site := x.late[0]
	x.late = x.late[1:]
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	refused, err := x.operator(i).AddSeeds(ctx, seeds(x.t, "http://"+site+"/"), "ann")
	if err == nil && len(refused) == 0 {
		x.added[site] = i
	}
	x.log("%s is given %s: %v, %v", x.name(i), site, refused, err)
}

// blocks makes all nodes leave one site alone.
func (x *troubles) blocks(i int) {
	if len(x.given) > 0 {
		return
	}
	site := x.sites[x.owned(i)]
	_, _, err := x.operator(i).Block(site, "ann", "", false)
	x.log("%s blocks %s: %v", x.name(i), site, err)
	if x.given[site] = true; err == nil {
		x.blocked = site
	}
}

// drops makes the owner of a site give up what it has of it.
func (x *troubles) drops(i int) {
	if len(x.given) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	site := x.sites[x.owned(i)]
	n, err := x.operator(i).Drop(ctx, site, "ann")
	x.log("%s drops %s: %d URLs, %v", x.name(i), site, n, err)
	x.given[site] = true
}

func (x *troubles) rotates(i int) {
	_, err := x.operator(i).RotateSecret("ann")
	x.log("%s rotates the secret: %v", x.name(i), err)
}

// siteFails lets a site fail once, for a time that its retries outlast.
func (x *troubles) siteFails(int) {
	k := x.rng.IntN(len(x.sites))
	if x.failed[k] {
		return
	}
	x.failed[k] = true
	site, share := x.Web.sites[x.sites[k]], x.rng.Float64()
	until := func(most time.Duration) time.Time { return time.Now().Add(time.Duration(share * float64(most))) }
	answers := func(most time.Duration, h http.HandlerFunc, paths ...string) {
		end := until(most)
		site.set(func() {
			for _, path := range paths {
				well := site.handlers[path]
				if well == nil {
					well = http.NotFound
				}
				site.handlers[path] = func(w http.ResponseWriter, r *http.Request) {
					if time.Now().Before(end) {
						h(w, r)
					} else {
						well(w, r)
					}
				}
			}
		})
	}
	what := []string{"refuses connections", "is busy", "breaks off", "has broken robots.txt", "is slow"}[x.rng.IntN(5)]
	switch what {
	case "refuses connections":
		x.Down(address(k), true)
		time.AfterFunc(time.Until(until(5*time.Minute)), func() { x.Down(address(k), false) })
	case "is busy":
		answers(5*time.Minute, Status(http.StatusServiceUnavailable, "Retry-After", "20"), append(x.paths, "/robots.txt")...)
	case "breaks off":
		answers(2*time.Minute, Broken, x.paths...)
	case "has broken robots.txt":
		answers(5*time.Minute, Status(http.StatusInternalServerError), "/robots.txt")
	case "is slow":
		site.Took(15 * time.Second)
		x.lasts(site.name+" "+what, func() { site.Took(20 * time.Millisecond) })
		return
	}
	x.log("%s %s for some minutes", site.name, what)
}

// siteMoves gives a site another address. Nodes that know the old one keep it for a while, and its server answers as before.
func (x *troubles) siteMoves(int) {
	if x.roamed == len(x.roams) {
		return
	}
	k := x.roams[x.roamed]
	x.roamed++
	x.names.set(x.sites[k], roamsTo(k))
	x.log("%s moves to %s", x.sites[k], roamsTo(k))
}
