package node_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/runlog"
)

// While a node is paused no request begins; seeds that are added belong to the crawl, and are remembered; what is dropped is given up.
func TestControl(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Scope.SeedScope = identity.ScopeHost
		a := w.Site("a.test", server1).Pages(20)
		b := w.Site("b.test", server2).Pages(5)
		c := w.Site("c.test", server3).Pages(50)
		var paused, resumed time.Time
		var dropped int
		w.watch = func(n *node.Node) {
			time.Sleep(10 * time.Second)
			if err := n.Operator().Pause("tester"); err != nil {
				w.t.Error(err)
			}
			paused = time.Now()
			if why := n.Status().Frontier.Paused; why == "" {
				w.t.Error("the status does not say that it is paused")
			}
			refused, err := n.Operator().AddSeeds(w.t.Context(), seeds(w.t, "http://b.test/\nhttp://c.test/\nhttps://c.test/"), "tester")
			if err != nil || len(refused) > 0 {
				w.t.Errorf("seeds: %v, %v", refused, err)
			}
			time.Sleep(5 * time.Minute)
			resumed = time.Now()
			if err := n.Operator().Resume("tester"); err != nil {
				w.t.Error(err)
			}
			time.Sleep(20 * time.Second)
			if dropped, err = n.Operator().Drop(w.t.Context(), "c.test", "tester"); err != nil || dropped < 30 {
				w.t.Errorf("%d URLs dropped: %v", dropped, err)
			}
			if dropped, err := n.Operator().Drop(w.t.Context(), "nobody.test", "tester"); !errors.Is(err, node.ErrNotHere) || dropped != 0 {
				w.t.Errorf("%d URLs of an unknown host dropped: %v", dropped, err)
			}
		}
		end, _ := w.crawl(w.t.Context(), "http://a.test/")
		w.dropped(end, "dropped by the operator", int64(dropped))
		for _, v := range w.Visits(nil) {
			if v.Start.After(paused.Add(time.Second)) && v.Start.Before(resumed) {
				w.t.Errorf("%s was asked for %v after the pause", v.URL(), v.Start.Sub(paused))
			}
		}
		if len(pages(a.Visits())) != 21 || len(pages(b.Visits())) != 6 {
			w.t.Errorf("%d pages of 21, and %d of 6 of the added seed", len(pages(a.Visits())), len(pages(b.Visits())))
		}
		if n := len(pages(c.Visits())); n == 0 || n > 20 {
			w.t.Errorf("%d pages of the dropped host", n)
		}
		acts := 0
		for _, l := range w.jsonLines(runlog.LogNode) {
			if l["event"] == runlog.EventControl && l[runlog.KeyBy] == "tester" {
				acts++
			}
		}
		if acts != 5 {
			w.t.Errorf("%d acts in the log: want pause, seeds, resume and two hosts of one name", acts)
		}

		w.watch = nil
		_, logs := w.crawl(w.t.Context())
		hosts := map[string]bool{}
		for _, l := range logs.fetches {
			u, err := identity.Parse(l.URL)
			if err != nil {
				w.t.Fatal(err)
			}
			hosts[u.Name()] = true
		}
		if got := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, []string{"a.test", "b.test", "c.test"}) {
			w.t.Errorf("hosts %v", got)
		}
	})
}
