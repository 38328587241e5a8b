package assign_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

func TestNewRefuses(t *testing.T) {
	s := assign.Server{Addr: netip.MustParseAddr("198.18.0.1")}
	if _, err := assign.New("psychic", assign.Default(), assign.Batch{}, assign.View{}, time.Time{}); err == nil {
		t.Error("an unknown name was taken")
	}
	twice := assign.Batch{Servers: []assign.Server{s, s}}
	if _, err := assign.New(assign.Random, assign.Default(), twice, assign.View{}, time.Time{}); err == nil {
		t.Error("a server was taken twice")
	}
	if _, err := assign.New(assign.Random, assign.Config{}, assign.Batch{}, assign.View{}, time.Time{}); err == nil {
		t.Error("an empty configuration was taken")
	}
}

func TestGeographic(t *testing.T) {
	at := func(lat, lon float64) *ncoord.Location { return &ncoord.Location{Lat: lat, Lon: lon} }
	v := assign.View{Nodes: []assign.Node{{ID: "berlin", Location: at(52.5, 13.4)}, {ID: "tokyo", Location: at(35.7, 139.7)},
		{ID: "tokyo-2", Location: at(35.7, 139.7)}, {ID: "lost"}, {ID: "wrong", Location: at(1000, 0)}}}
	b := assign.Batch{Servers: []assign.Server{
		{Addr: netip.MustParseAddr("198.18.0.1"), Location: at(48.9, 2.4)},
		{Addr: netip.MustParseAddr("198.18.0.2"), Location: at(37.6, -179.9)},
		{Addr: netip.MustParseAddr("198.18.0.3")},
		{Addr: netip.MustParseAddr("198.18.0.4"), Location: at(0, 400)},
	}}
	a, err := assign.New(assign.Geographic, assign.Default(), b, v, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	p, done := a.Decide(time.Time{})
	if !done || p[0].Node != "berlin" || p[1].Node != "tokyo" {
		t.Errorf("chose %+v", p)
	}
	drawn := func(choices []assign.Choice, v assign.View) {
		t.Helper()
		var ids []string
		for _, n := range v.Nodes {
			ids = append(ids, n.ID)
		}
		for _, c := range choices {
			if want := assign.Rendezvous(c.Server.String(), ids); c.Node != want {
				t.Errorf("%v goes to %q, want %q", c.Server, c.Node, want)
			}
			if want := fmt.Sprintf("no location: random draw (%d of 4 servers)", len(choices)); c.Reason != want {
				t.Errorf("%q, want %q", c.Reason, want)
			}
		}
	}
	drawn(p[2:], v)
	v.Nodes = v.Nodes[3:] // no node is where it is known
	a.SetView(v, time.Time{})
	p, _ = a.Decide(time.Time{})
	drawn(p, v)
}
