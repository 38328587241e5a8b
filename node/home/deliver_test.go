package home

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/wire"
)

// TestVerdicts offers links of all kinds to a node: each gets its answer, in order, and those that are not wanted leave
// nothing behind.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		ctx := context.Background()
		mine, other := w.hostOf(0, 1), w.hostOf(1, 0)
		handed, leaving, fresh := below("away", mine), below("leaving", mine), below("fresh", mine) // of the same domain, so of the same home
		for _, host := range []string{mine, handed, leaving} {
			if err := w.house(0).offer(pages(host, 0, 3)...); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second) // its second copy is made
		if err := w.house(0).home.HandOff(ctx, handed, w.ids[2], true, "test"); err != nil {
			t.Fatal(err)
		}
		if err := w.house(0).home.freeze(ctx, leaving, w.ids[2]); err != nil {
			t.Fatal(err)
		}
		url := func(host, path string) *wire.Link { return &wire.Link{Url: host + path} }
		type want struct {
			link    *wire.Link
			verdict wire.Verdict
			reason  string
			record  *wire.Record
		}
		const (
			accepted, duplicate = wire.Verdict_VERDICT_ACCEPTED, wire.Verdict_VERDICT_DUPLICATE
			refused, moved      = wire.Verdict_VERDICT_REFUSED, wire.Verdict_VERDICT_MOVED
			later               = wire.Verdict_VERDICT_LATER
		)
		wants := []want{
			{link: url(mine, "/new"), verdict: accepted},
			{link: url(mine, "/new"), verdict: duplicate},
			{link: url(mine, "/page-1?of=1"), verdict: duplicate},
			{link: url(fresh, "/"), verdict: accepted},
			{link: url(other, "/"), verdict: moved, record: &wire.Record{Host: other, Owner: w.ids[1], Home: w.ids[0]}},
			{link: url(handed, "/new"), verdict: moved, record: &wire.Record{Host: handed, Epoch: 2, Owner: w.ids[2], Home: w.ids[0]}},
			{link: url(leaving, "/new"), verdict: later, reason: "its owner is not known yet"},
			{link: url(mine, "/unwanted"), verdict: refused, reason: "out of scope"},
			{link: url(below("unwanted", mine), "/unwanted"), verdict: refused, reason: "out of scope"},
			{link: &wire.Link{}, verdict: refused, reason: "not a URL"},
			{link: &wire.Link{Url: "not a URL"}, verdict: refused, reason: "not a URL"},
			{link: &wire.Link{Url: "ftp://" + mine + "/"}, verdict: refused, reason: "not a URL"},
			{link: &wire.Link{Url: mine + "/deep", Depth: 256}, verdict: refused, reason: "not a URL"},
			{link: &wire.Link{Url: mine + "/far", Hops: 1 << 20}, verdict: refused, reason: "not a URL"},
			{link: nil, verdict: refused, reason: "not a URL"},
			{link: url(mine, "/last"), verdict: accepted},
		}
		req := &wire.DeliverRequest{}
		for _, x := range wants {
			req.Links = append(req.Links, x.link)
		}
		res, err := w.house(0).home.Deliver(ctx, w.ids[1], req)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.GetAnswers()) != len(wants) {
			t.Fatalf("%d answers to %d links", len(res.GetAnswers()), len(wants))
		}
		for i, a := range res.GetAnswers() {
			x := wants[i]
			if a.GetVerdict() != x.verdict || a.GetReason() != x.reason || !proto.Equal(a.GetRecord(), x.record) {
				t.Errorf("%d %s: %v", i, x.link.GetUrl(), a)
			}
		}
		if _, ok, _ := w.house(0).home.Record(below("unwanted", mine)); ok {
			t.Error("a host of which nothing is wanted has a record")
		}
		if r, ok, _ := w.house(0).home.Record(fresh); !ok || r.Owner != w.ids[0] || r.Epoch != 1 || r.Assigned {
			t.Errorf("a new host has the record %+v", r)
		}
		if n := w.house(0).home.Counts().LinksDelivered; n != 5 {
			t.Errorf("%d links counted as delivered", n)
		}
		// A node that has just lost sight of the others cannot say whose a new host is.
		w.believe(func() { w.small[w.ids[0]] = true })
		res, err = w.house(0).home.Deliver(ctx, w.ids[1], &wire.DeliverRequest{Links: []*wire.Link{url(below("lone", mine), "/"), url(mine, "/two")}})
		if err != nil || res.GetAnswers()[0].GetVerdict() != later || res.GetAnswers()[1].GetVerdict() != accepted {
			t.Errorf("on the smaller side: %v, %v", res, err)
		}
	})
}

// TestLinksOfAHostThatMoves offers links everywhere while a slow hand-off is under way: they wait in outboxes, and are
// with the new owner soon after it.
func TestLinksOfAHostThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 60)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.set(func() {
			w.before = func(_, _ string, req proto.Message) error {
				if _, ok := req.(*wire.TransferRequest); ok {
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		over := make(chan error)
		go func() { over <- w.house(0).home.HandOff(context.Background(), host, w.ids[2], true, "test") }()
		time.Sleep(time.Second)
		waiting := 0
		for n := 60; ; n++ {
			select {
			case err := <-over:
				if err != nil {
					t.Fatal(err)
				}
				if waiting == 0 {
					t.Error("nothing waited in the outbox of the former owner")
				}
				time.Sleep(time.Minute)
				w.is(host, 2, digestOf(links, nil))
				c := w.house(2).home.Counts()
				if c.Received != 1 || w.house(0).home.Counts().HandedOff != 1 || c.LinksDelivered == 0 {
					t.Errorf("counts are %+v", c)
				}
				return
			case <-time.After(200 * time.Millisecond):
				l := pageOf(host, n)
				links = append(links, l)
				if err := w.house(n % 3).offer(l); err != nil {
					t.Fatal(err)
				}
				if w.house(0).outbox.PendingOf(w.ids[0]) > 0 {
					waiting++
				}
				d, err := w.house(2).DigestOf(context.Background(), host)
				if hold, known, _ := w.house(2).HoldOf(context.Background(), host); err != nil || (known && hold == frontier.Arriving && d.Accepted > 60) {
					t.Errorf("a link came in between the chunks: %+v, %v", d, err)
				}
			}
		}
	})
}

// below is a host whose name is below that of another.
func below(label, host string) string { return strings.Replace(host, "://", "://"+label+".", 1) }
