package frontier

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A host is crawled only while Suspend allows it.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, two = "http://h1.test", "http://h2.test"
		cfg, polite := testConfig()
		cfg.Shared = true
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		l.add(append(pages(one, 0, 30), pages(two, 0, 30)...)...)
		crawled := func(most int, want map[string]int) {
			t.Helper()
			got := map[string]int{}
			for task := l.taking(time.Minute); task != nil; task = l.taking(time.Minute) {
				got[task.Host]++
				if l.finish(task, Outcome{}); got[task.Host] == most {
					break
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("crawled %v, want %v", got, want)
			}
		}
		crawled(1, map[string]int{}) // before anybody was asked
		var asked []string
		for len(asked) < 2 {
			names, err := l.Unchecked(t.Context())
			must(t, err)
			asked = append(asked, names...)
		}
		if slices.Sort(asked); !slices.Equal(asked, []string{one, two}) || len(l.Active()) != 2 {
			t.Errorf("asked about %v, active are %v", asked, l.Active())
		}
		l.Suspend(map[string]string{one: "", two: "its home is silent", "http://h3.test": ""})
		crawled(5, map[string]int{one: 5})
		l.Suspend(map[string]string{one: "no majority"})
		crawled(5, map[string]int{})
		if l.Idle(time.Minute) {
			t.Error("idle with suspended hosts")
		}
		l.Suspend(map[string]string{one: "", two: ""})
		crawled(100, map[string]int{one: 26, two: 31})
	})
}

// While the frontier is held nothing is taken, and the status says why; then it goes on.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		l.placing(addr1)
		l.add(page("http://h1.test", 1), page("http://h1.test", 2))
		task := l.taking(time.Minute)
		l.Hold("sink", "nobody takes the pages")
		l.finish(task, Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}})
		if task := l.taking(time.Hour); task != nil {
			t.Errorf("%s was taken", task.URL)
		}
		if got := l.Status().Paused; got != "nobody takes the pages" {
			t.Errorf("paused: %q", got)
		}
		if l.Idle(time.Minute) {
			t.Error("idle with pages left")
		}
		l.Hold("operator", "by hand")
		l.Hold("sink", "still nobody")
		if got := l.Status().Paused; got != "by hand" {
			t.Errorf("of two, not the first by name says why: %q", got)
		}
		l.Hold("operator", "")
		l.Hold("sink", "")
		if got := l.work(2); len(got) != 2 {
			t.Errorf("downloaded %v", got)
		}
	})
}

// A node that is slowed down waits before each of its tasks.
func TestSlow(t *testing.T) {
	cfg, polite := ownServers(testConfig())
	synctest.Test(t, func(t *testing.T) {
		l := crawling(t, "", cfg, polite)
		l.add(pages("http://h1.test", 0, 3)...)
		over, end := context.WithCancel(t.Context())
		end()
		for _, on := range []bool{false, true, false} {
			l.SetSlow(on)
			begun := time.Now()
			task := l.taking(time.Minute)
			if task == nil || (time.Since(begun) > 0) != on {
				t.Fatalf("slow %v: %v comes after %v", on, task, time.Since(begun))
			}
			l.finish(task, Outcome{})
			if _, err := l.Take(over); err == nil {
				t.Errorf("slow %v: a task comes after the end", on)
			}
		}
	})
}
