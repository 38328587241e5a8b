package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"proxima/frontier/revisit"
)

func recrawlConfig() (Config, Politeness) {
	cfg, polite := ownServers(testConfig())
	cfg.Recrawl.Enabled, cfg.Recrawl.Budget, cfg.Recrawl.Min, cfg.Recrawl.Max = true, 0, time.Minute, time.Hour
	return cfg, polite
}

// asSeen ends a page well, as one that was never seen before or has changed.
func asSeen(digest uint64) Outcome {
	return Outcome{Ending: Done, Asked: true, Visit: &Visit{Found: Altered, Digest: digest, Simhash: digest}}
}

// visitedOnce begins a frontier in which n pages of h1.test have been visited.
func visitedOnce(t testing.TB, cfg Config, polite Politeness, n int) *life {
	l := crawling(t, "", cfg, polite)
	l.add(pages("http://h1.test", 0, n)...)
	if got := l.visit(n, func(*Task) Outcome { return asSeen(1) }); len(got) != n {
		t.Fatalf("%d of %d pages came", len(got), n)
	}
	return l
}

// visit takes n tasks that are pages and ends them as answer says; it returns their paths. It ends before when there has
// been no page for a while.
func (l *life) visit(n int, answer func(*Task) Outcome) (visited []string) {
	l.t.Helper()
	for len(visited) < n {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		next := l.crawl(ctx, 1, answer)
		cancel()
		if len(next) == 0 {
			break
		}
		visited = append(visited, next...)
	}
	return visited
}

// Records are those of a simple map, whatever is found, and whenever the frontier is stopped short.
func TestRecordsOfPages(t *testing.T) {
	if testing.Short() {
		t.Skip("opens some hundred frontiers")
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		bad := ""
		synctest.Test(t, func(t *testing.T) { bad = modelPages(rt, t, dir) })
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}

func modelPages(rt *rapid.T, t *testing.T, dir string) (bad string) {
	cfg, polite := recrawlConfig()
	cfg.Recrawl.Min, cfg.Recrawl.Max = 5*time.Minute, 30*time.Minute
	polite.RetryPage = []time.Duration{time.Second}
	const host = "http://h1.test"
	n := rapid.IntRange(1, 30).Draw(rt, "pages")
	model := make(map[string]*PageRecord)
	known := 0
	for life := range rapid.IntRange(1, 2).Draw(rt, "lives") {
		l := crawling(t, dir, cfg, polite)
		if life == 0 {
			l.add(pages(host, 0, n)...)
		}
		for range rapid.IntRange(0, 2).Draw(rt, "rounds") {
			visits, want := map[string]int{}, map[string]int{}
			for path, p := range model {
				if p != nil && !p.Due.After(time.Now()) {
					want[path]++
				}
			}
			for i := known; i < n; i++ {
				want[page(host, i).URL.Path]++
			}
			known = n
			l.visit(10*n, func(task *Task) Outcome {
				visits[task.URL.Path]++
				before := model[task.URL.Path]
				if (before == nil) != (task.Page == nil) || before != nil && (*before != *task.Page || before.Due.After(time.Now())) {
					bad = fmt.Sprintf("%s comes as %+v, is %+v", task.URL, task.Page, before)
				}
				if before == nil {
					before = &PageRecord{Path: task.URL.Path, Depth: task.Depth}
				}
				out := drawVisit(rt)
				if out.Visit == nil && task.Page == nil {
					out = asSeen(1) // else it is not remembered at all
				}
				model[task.URL.Path] = before.after(out.Visit, cfg.Recrawl, l.bench.recrawl.plan, time.Now())
				return out
			})
			for path, n := range visits {
				if n > 1 {
					bad = fmt.Sprintf("%s came %d times", path, n)
				}
			}
			for path := range want {
				if visits[path] == 0 {
					bad = fmt.Sprintf("%s did not come: visited %v, want %v", path, visits, want)
				}
			}
			kept := 0
			for _, p := range model {
				if p != nil {
					kept++
				}
			}
			d := l.digest(host)
			if d != l.scanned(host) || d.Pages != uint64(kept) || l.Status().Pages != int64(kept) {
				bad = fmt.Sprintf("%d pages, digest %+v, on disk %+v, counted %d", kept, d, l.scanned(host), l.Status().Pages)
			}
			if bad != "" {
				l.stop()
				return bad
			}
			time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 4, 31}).Draw(rt, "minutes")) * time.Minute)
		}
		if rapid.Bool().Draw(rt, "crash with a task out") {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			l.Take(ctx) // it is never ended, and so is due as before
			cancel()
		}
		l.stop()
	}
	return ""
}

func drawVisit(rt *rapid.T) Outcome {
	out := Outcome{Ending: Done, Asked: true}
	found := rapid.SampledFrom([]int{-1, int(Unchanged), int(Trivial), int(Altered), int(Altered), int(Gone), int(Moved)}).Draw(rt, "found")
	if found < 0 {
		out.Ending = Failed
		return out
	}
	out.Visit = &Visit{Found: Found(found), ETag: rapid.SampledFrom([]string{"", `"a"`, `"b"`}).Draw(rt, "etag")}
	if out.Visit.Found == Altered {
		out.Visit.Digest, out.Visit.Simhash = rapid.Uint64Min(1).Draw(rt, "digest"), 5
	}
	return out
}

// The budget bounds the visits of a day, and new pages go on beside it.
func TestRevisitBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		cfg.Recrawl.Budget, cfg.Recrawl.Share, cfg.Recrawl.Max = 24*240, 1, 10*time.Minute
		l := visitedOnce(t, cfg, polite, 1000)
		time.Sleep(61 * time.Minute)
		l.add(pages("http://h1.test", 1000, 500)...)
		revisits, others := 0, 0
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		l.crawl(ctx, math.MaxInt, func(task *Task) Outcome {
			if task.Page != nil {
				revisits++
			} else {
				others++
			}
			return asSeen(1)
		})
		if others != 500 {
			t.Errorf("%d of 500 new pages came", others)
		}
		if revisits < 230 || revisits > 485 { // those of an hour may have been saved up
			t.Errorf("%d pages were visited again in an hour, of 240", revisits)
		}
	})
}

// A visit that was interrupted, or that was refused without a request, leaves its budget to the next.
func TestNoVisitCostsNoBudget(t *testing.T) {
	for what, out := range map[string]Outcome{
		"interrupted": {Ending: Again, Trouble: Interrupted, Asked: true},
		"refused":     {Ending: Dropped, Reason: "robots.txt disallows"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := recrawlConfig()
			cfg.Recrawl.Budget = 24
			l := visitedOnce(t, cfg, polite, 2)
			time.Sleep(3 * time.Hour)
			first := l.visit(1, func(*Task) Outcome { return out })
			next := l.visit(1, func(*Task) Outcome { return asSeen(1) })
			if len(first) != 1 || len(next) != 1 {
				t.Errorf("%s: after %q comes %q", what, first, next)
			}
			if more := l.visit(1, nil); len(more) > 0 {
				t.Errorf("%s: the budget is for one visit an hour, and %q comes at once", what, more)
			}
		})
	}
}

// A host that is given up keeps its pages, and they wait until it is asked again.
func TestGivenUpHostKeepsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		polite.EndedFor = time.Hour
		const host = "http://h1.test"
		l := visitedOnce(t, cfg, polite, 40)
		time.Sleep(61 * time.Minute)
		l.visit(10, func(task *Task) Outcome { return asSeen(2) })
		synctest.Wait() // no search for hosts with due pages is under way, which could find the host as it was
		must(t, second(l.DropHost(context.Background(), host, "test")))
		l.mu.Lock() // a search that began before has found the host as it was
		l.bench.recrawl.ahead = []dueHost{{host, stampOf(time.Now())}}
		l.mu.Unlock()
		if got := l.visit(1, func(*Task) Outcome { return asSeen(2) }); len(got) > 0 {
			t.Errorf("%s came from a host that was given up", got)
		}
		if s := l.Status(); s.Pages != 40 {
			t.Errorf("%d pages are left of 40", s.Pages)
		}
		time.Sleep(61 * time.Minute)
		if got := l.visit(31, func(task *Task) Outcome { return Outcome{Ending: Done, Visit: &Visit{}} }); len(got) < 30 {
			t.Errorf("%d of 30 pages came later", len(got))
		}
	})
}

// A page is visited when it is due, also where its host has nothing else but a URL that waits for another try.
func TestPageDueBesideADelayedURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		polite.RetryPage = []time.Duration{6 * time.Hour}
		l := visitedOnce(t, cfg, polite, 1)
		l.add(page("http://h1.test", 1))
		l.visit(1, func(*Task) Outcome { return Outcome{Ending: Again, Trouble: Broken, Asked: true} })
		visits := 0
		for task := l.taking(12 * time.Hour); ; task = l.taking(12 * time.Hour) {
			if task == nil || task.Page == nil {
				if task == nil || task.Attempt != 1 {
					t.Errorf("after the visits comes %+v", task)
				}
				break
			}
			if late := time.Since(task.Page.Due); late > time.Minute {
				t.Errorf("visit %d comes %v too late", visits, late)
			}
			visits++
			l.finish(task, asSeen(1))
		}
		if visits < 4 {
			t.Errorf("%d visits before the other try", visits)
		}
	})
}

// Pages that are due and wait for their budget hold up no other URL: neither one of their host that waits for another try, nor a host at the
// same server that waits.
func TestSpentBudgetHoldsUpNothingElse(t *testing.T) {
	for what, out := range map[string]Outcome{
		"another try": {Ending: Again, Trouble: Broken, Asked: true},
		"a busy host": {Ending: Again, Trouble: Busy, Asked: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := recrawlConfig()
			cfg.Recrawl.Budget = 1
			polite.RetryPage = []time.Duration{3 * time.Hour}
			l := visitedOnce(t, cfg, polite, 3)
			time.Sleep(2 * time.Hour)
			host := "http://h1.test"
			if out.Trouble == Busy {
				host = "http://h2.test"
				must(t, l.Activate(t.Context(), "http://h1.test"))
			}
			l.add(page(host, 4))
			l.visit(1, func(task *Task) Outcome {
				if task.Page != nil {
					t.Errorf("%s: there is budget for %s", what, task.URL)
				}
				return out
			})
			begun := time.Now()
			if got := l.taking(4 * time.Hour); got == nil || got.Page != nil || got.Attempt != 1 {
				t.Errorf("%s: after %v comes %+v", what, time.Since(begun), got)
			}
		})
	}
}

// A host that stays on the workbench after its URLs were dropped is not read again and again once one of its pages is due.
func TestPageDueAfterADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := recrawlConfig()
		var reads atomic.Int64
		l := beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) {
			f.store.fault = func() error {
				if reads.Add(1) > 10_000 {
					return errBroken
				}
				return nil
			}
		})
		l.placing(addr1)
		l.add(pages(host, 1, 1)...)
		l.finish(l.taking(time.Minute), Outcome{}) // robots.txt
		out := l.taking(time.Minute)
		must(t, second(l.DropHost(t.Context(), host, "test")))
		l.add(page(host, 2))
		l.finish(l.taking(time.Minute), asSeen(1))
		time.Sleep(2 * time.Hour)
		l.add(page(host, 3))
		task := l.taking(time.Minute)
		if task == nil || task.URL != page(host, 3).URL {
			t.Fatalf("took %+v", task)
		}
		l.finish(task, asSeen(1))
		l.finish(out, asSeen(1))
		time.Sleep(polite.EndedFor)
		if got := l.visit(3, func(*Task) Outcome { return asSeen(1) }); len(got) != 2 {
			t.Errorf("later %q came", got)
		}
	})
}

// A new plan is made for all pages, whether they are due or not. While the disk is all but full, the sample is not written.
func TestReplan(t *testing.T) {
	cfg, polite := recrawlConfig()
	cfg.Recrawl.Budget, cfg.Recrawl.Max = 200, 100*24*time.Hour
	f := opened(t, cfg, polite)
	now := time.Now()
	for i := range 10 {
		f.bench.recrawl.sample.Put(uint64(i), revisit.History{}.With(revisit.Visit{Gap: time.Hour, Changed: i%2 == 0}))
	}
	for i := range 100 {
		f.ledger.count.page(Owned, stampOf(now)+dueStep*stamp(i-50), 1)
	}
	for _, full := range []bool{true, false} {
		f.store.gate.shut.Store(full)
		f.bench.recrawl.plan = nil
		must(t, f.replan())
		if want := cfg.Recrawl.plan().NewPlan(f.bench.recrawl.sample, 100); !reflect.DeepEqual(f.bench.recrawl.plan, want) {
			t.Errorf("full %v: the plan is %+v, want %+v", full, f.bench.recrawl.plan, want)
		}
		if value, err := f.store.get(kindPrefix(kindSample)); (value == nil) != full || err != nil {
			t.Errorf("full %v: %d bytes of a sample are on disk, %v", full, len(value), err)
		}
	}
}

// Pages that are made due at the start are not written to a disk that is all but full. The store is not called damaged, and goes on later.
func TestAgeOnAFullDisk(t *testing.T) {
	const host = "http://h1.test"
	dir := t.TempDir()
	cfg, polite := recrawlConfig()
	l := begin(t, dir, cfg, polite, Deps{})
	l.imported(host, chunkOf(host, 0))
	l.role(host, Owned)
	l.stop()
	cfg.Recrawl.Age = 7 * time.Hour
	free, err := FreeBytes(dir)
	must(t, err)
	most := 4 * int(free>>20) // for which there would just be room
	for _, c := range []struct {
		free int
		want error
	}{{most + most/4, ErrDiskFull}, {most - most/4, nil}, {most + most/4, nil}} { // the last time they are due then already
		cfg.MinFreeMiB = c.free
		f, err := Open(dir, cfg, polite, Deps{})
		if !errors.Is(err, c.want) || errors.Is(err, ErrDamaged) {
			t.Fatalf("with a watermark of %d MiB: %v", c.free, err)
		}
		if err == nil {
			must(t, f.store.close())
		}
	}
}

// A host with many pages that were seen by a clock that ran ahead is put in order once, however long that takes.
func TestRescheduleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		var reads atomic.Int64
		l := beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) {
			f.store.fault = func() error {
				switch n := reads.Add(1); {
				case n > 1000*maxMoved:
					return errBroken
				case n%maxMoved == 0:
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		const host = "http://h1.test"
		c := Chunk{}
		for _, link := range pages(host, 0, 2*maxMoved) {
			seen := time.Now().Add(24 * time.Hour)
			c.Pages = append(c.Pages, PageRecord{Path: link.URL.Path, Seen: seen, Due: seen.Add(time.Hour)})
		}
		l.imported(host, c)
		if err := l.ledger.reschedule(7 * 24 * time.Hour); err != nil {
			t.Error(err)
		}
	})
}
