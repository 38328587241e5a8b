package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

const soa60 = "example.org. 600 IN SOA ns.example.org. root.example.org. 1 2 3 4 60"

// The texts of a name are those of its own records, each in one piece.
func TestTXT(t *testing.T) {
	f := &fakeServers{handle: zone(map[string][]string{
		"_x.example.org. TXT": {`_x.example.org. 60 TXT "one" "piece"`, `other.example.org. 60 TXT "another's"`, `_x.example.org. 60 TXT "two"`},
		"broken.example. TXT": {"SERVFAIL"},
	})}
	r := start(t, f, nil)
	if got, err := r.TXT(t.Context(), "_x.example.org"); err != nil || !slices.Equal(got, []string{"onepiece", "two"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.TXT(t.Context(), "none.example.org"); err != nil || got != nil {
		t.Errorf("of a name that is not there: %q, %v", got, err)
	}
	if _, err := r.TXT(t.Context(), "broken.example"); err == nil {
		t.Error("of a broken server: no error")
	}
}

func TestLookup(t *testing.T) {
	records := map[string][]string{
		"one.example.org. A": {"one.example.org. 100 A 192.0.2.1", "one.example.org. 80 A 192.0.2.1", "www.example.net. 80 A 192.0.2.66",
			"one.example.org. 80 TXT x", "one.example.org. 80 AAAA 2001:db8::1", "one.example.org. 90 A 192.0.2.2"},
		"one.example.org. AAAA": {"one.example.org. 80 AAAA 2001:db8::1", "one.example.org. 80 AAAA ::ffff:192.0.2.7", "one.example.org. 80 AAAA ::ffff:192.0.2.1", "one.example.org. 80 AAAA 2001:db8::2"},
		"short.example.org. A":  {"short.example.org. 1 A 192.0.2.1"},
		"long.example.org. A":   {"long.example.org. 2000000 A 192.0.2.1"},
		"odd.example.org. A":    {"odd.example.org. 4294967295 A 192.0.2.1"},
		"ever.example.org. A":   {"ever.example.org. 2147483647 A 192.0.2.1"},
		"many.example.org. A": {"many.example.org. 100 A 192.0.2.1", "many.example.org. 100 A 192.0.2.2", "many.example.org. 100 A 192.0.2.3",
			"many.example.org. 100 A 192.0.2.4", "many.example.org. 100 A 192.0.2.5", "many.example.org. 100 A 192.0.2.6",
			"many.example.org. 100 A 192.0.2.7", "many.example.org. 100 A 192.0.2.8", "many.example.org. 100 A 192.0.2.9"},
		"many.example.org. AAAA":   {"many.example.org. 100 AAAA 2001:db8::1", "many.example.org. 100 AAAA 2001:db8::2"},
		"alias.example.org. A":     {"alias.example.org. 70 CNAME a.example.net.", "A.Example.Net. 100 CNAME b.example.net.", "b.example.net. 100 A 192.0.2.9"},
		"shuffled.example.org. A":  {"b.example.net. 100 A 192.0.2.9", "a.example.net. 100 CNAME b.example.net.", "shuffled.example.org. 70 CNAME a.example.net."},
		"server.example.org. A":    {"example.org. 600 NS ns.example.org.", "example.com. 600 IN SOA ns.example.com. root.example.com. 1 2 3 4 200", soa60},
		"part.example.org. A":      {"part.example.org. 50 CNAME one.example.org."},
		"gone.example.org. A":      {"gone.example.org. 100 CNAME nothing.example.org."},
		"loop.example.org. A":      {"loop.example.org. 100 CNAME loop.example.org."},
		"ping.example.org. A":      {"ping.example.org. 100 CNAME pong.example.org."},
		"pong.example.org. A":      {"pong.example.org. 100 CNAME ping.example.org."},
		"badalias.example.org. A":  {`badalias.example.org. 100 CNAME a\032b.example.org.`},
		"other.example.org. A":     {"www.example.net. 100 A 192.0.2.66"},
		"nodata.example.org. A":    {soa60},
		"nodata.example.org. AAAA": {"example.org. 50 IN SOA ns.example.org. root.example.org. 1 2 3 4 60"},
		"nodata3.example.org. A":   {"example.org. 600 IN SOA ns.example.org. root.example.org. 1 2 3 4 600"},
		"nodata2.example.org. A":   {"nodata2.example.org. 40 CNAME x.example.org.", soa60},
		"cross.example.org. A":     {"cross.example.org. 100 CNAME x.example.net.", "example.net. 50 IN SOA ns.example.net. root.example.net. 1 2 3 4 60"},
		"foreign.example.org. A":   {"example.com. 600 IN SOA ns.example.com. root.example.com. 1 2 3 4 200"},
		"fail.example.org. A":      {"SERVFAIL"},
		"silent.example.org. A":    {"silence"},
		"v6.example.org. A":        {soa60},
		"v6.example.org. AAAA":     {"v6.example.org. 100 AAAA 2001:db8::6"},
		"v6half.example.org. A":    {"SERVFAIL"},
		"v6half.example.org. AAAA": {"v6half.example.org. 100 AAAA 2001:db8::6"},
		"v4half.example.org. A":    {"v4half.example.org. 100 A 192.0.2.4"},
		"v4half.example.org. AAAA": {"SERVFAIL"},
		"bad.example.org. A":       {"SERVFAIL"},
		"v6bad.example.org. A":     {soa60},
		"v6bad.example.org. AAAA":  {"SERVFAIL"},
	}
	const s = time.Second
	tests := []struct {
		host    string
		ipv6    bool
		addrs   []string
		kind    string
		ttl     time.Duration
		queries int
	}{
		{"one.example.org", false, []string{"192.0.2.1", "192.0.2.2"}, "", 90 * s, 1},
		{"ONE.example.org.", false, []string{"192.0.2.1", "192.0.2.2"}, "", 90 * s, 1},
		{"one.example.org", true, []string{"192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.7", "2001:db8::2"}, "", 80 * s, 2},
		{"short.example.org", false, []string{"192.0.2.1"}, "", 30 * s, 1},
		{"long.example.org", false, []string{"192.0.2.1"}, "", 24 * time.Hour, 1},
		{"odd.example.org", false, []string{"192.0.2.1"}, "", 30 * s, 1},
		{"ever.example.org", false, []string{"192.0.2.1"}, "", 24 * time.Hour, 1},
		{"many.example.org", false, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8"}, "", 100 * s, 1},
		{"many.example.org", true, []string{"192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"}, "", 100 * s, 2},
		{"alias.example.org", false, []string{"192.0.2.9"}, "", 70 * s, 1},
		{"shuffled.example.org", false, []string{"192.0.2.9"}, "", 70 * s, 1},
		{"server.example.org", false, nil, "not found", 60 * s, 1},
		{"part.example.org", false, []string{"192.0.2.1", "192.0.2.2"}, "", 50 * s, 2},
		{"gone.example.org", false, nil, "not found", 30 * s, 2},
		{"loop.example.org", false, nil, "temporary", 30 * s, 2},
		{"ping.example.org", false, nil, "temporary", 30 * s, 14},
		{"badalias.example.org", false, nil, "temporary", 30 * s, 2},
		{"other.example.org", false, nil, "not found", 30 * s, 1},
		{"nodata.example.org", false, nil, "not found", 60 * s, 1},
		{"nodata.example.org", true, nil, "not found", 50 * s, 2},
		{"nodata2.example.org", false, nil, "not found", 40 * s, 1},
		{"nodata3.example.org", false, nil, "not found", 300 * s, 1},
		{"cross.example.org", false, nil, "not found", 50 * s, 1},
		{"foreign.example.org", false, nil, "not found", 30 * s, 1},
		{"missing.example.org", false, nil, "not found", 30 * s, 1},
		{"fail.example.org", false, nil, "temporary", 30 * s, 4},
		{"silent.example.org", false, nil, "temporary", 30 * s, 6},
		{"v6.example.org", true, []string{"2001:db8::6"}, "", 100 * s, 2},
		{"v6.example.org", false, nil, "not found", 60 * s, 1},
		{"v6half.example.org", true, []string{"2001:db8::6"}, "", 30 * s, 3},
		{"v4half.example.org", true, []string{"192.0.2.4"}, "", 100 * s, 3},
		{"bad.example.org", true, nil, "temporary", 30 * s, 3},
		{"v6bad.example.org", true, nil, "temporary", 30 * s, 3},
		{"missing.example.org", true, nil, "not found", 30 * s, 2},
		{"192.0.2.1", false, []string{"192.0.2.1"}, "", 24 * time.Hour, 0},
		{"2001:db8::1", false, []string{"2001:db8::1"}, "", 24 * time.Hour, 0},
		{"[2001:db8::1]", false, []string{"2001:db8::1"}, "", 24 * time.Hour, 0},
		{"[::ffff:192.0.2.1]", false, []string{"192.0.2.1"}, "", 24 * time.Hour, 0},
		{"localhost", false, []string{"127.0.0.1"}, "", 24 * time.Hour, 0},
		{"a.LocalHost.", true, []string{"127.0.0.1", "::1"}, "", 24 * time.Hour, 0},
		{"notlocalhost", false, nil, "not found", 30 * s, 1},
		{"invalid", false, nil, "not found", 24 * time.Hour, 0},
		{"x.invalid", false, nil, "not found", 24 * time.Hour, 0},
		{"x.onion", false, nil, "not found", 24 * time.Hour, 0},
		{"private.test", false, []string{"10.0.0.1", "fd00::1"}, "", 24 * time.Hour, 0},
		{"b.localhost", false, []string{"10.0.0.2"}, "", 24 * time.Hour, 0},
		{"www.private.test", false, nil, "not found", 30 * s, 1},
		{"a..b", false, nil, "invalid", 0, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40s %v", tt.host, tt.ipv6), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServers{handle: zone(records)}
				r := start(t, f, func(c *Config) {
					c.IPv6 = tt.ipv6
					c.Hosts = map[string][]string{"Private.test": {"10.0.0.1", "fd00::1", "10.0.0.1"}, "b.localhost": {"10.0.0.2"}}
				})
				got, err := r.Lookup(t.Context(), tt.host)
				if kind := kindOf(t, err); kind != tt.kind {
					t.Errorf("kind %q (%v), want %q", kind, err, tt.kind)
				}
				if want := addrs(tt.addrs...); !slices.Equal(got.Addrs, want) {
					t.Errorf("addresses %v, want %v", got.Addrs, want)
				}
				if got.TTL != tt.ttl {
					t.Errorf("TTL %v, want %v", got.TTL, tt.ttl)
				}
				if f.queries() != tt.queries {
					t.Errorf("queries %q, want %d", f.asked, tt.queries)
				}
				clear(got.Addrs) // they are the caller's
				again, err := r.Lookup(t.Context(), tt.host)
				if kindOf(t, err) != tt.kind || again.Elapsed != 0 || f.queries() != tt.queries || !slices.Equal(again.Addrs, addrs(tt.addrs...)) {
					t.Errorf("again: %+v, %v after %q, want the same without a question", again, err, f.asked)
				}
			})
		})
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := &fakeServers{handle: func(_, _ string, q *dns.Msg) [][]byte {
			time.Sleep(50 * time.Millisecond)
			n++
			return records(q, fmt.Sprintf("www.example.org. 120 A 192.0.2.%d", n))
		}}
		r := start(t, f, nil)
		look := func(want Answer) {
			t.Helper()
			got, err := r.Lookup(t.Context(), "www.example.org")
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		look(Answer{Addrs: addrs("192.0.2.1"), TTL: 120 * time.Second, Elapsed: 50 * time.Millisecond})
		time.Sleep(119 * time.Second)
		look(Answer{Addrs: addrs("192.0.2.1"), TTL: time.Second})
		time.Sleep(time.Second)
		look(Answer{Addrs: addrs("192.0.2.2"), TTL: 120 * time.Second, Elapsed: 50 * time.Millisecond})
	})
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServers{handle: func(_, _ string, q *dns.Msg) [][]byte {
			time.Sleep(time.Second)
			return records(q, "www.example.org. 120 A 192.0.2.1")
		}}
		r := start(t, f, nil)
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if i < 10 { // the first, that began the lookup, among them
					begin := time.Now()
					_, err := r.Lookup(impatient, "www.example.org")
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond || errors.Is(err, ErrTemporary) {
						t.Errorf("impatient caller: %v after %v", err, time.Since(begin))
					}
					return
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
				got, err := r.Lookup(t.Context(), "www.example.org")
				want := time.Second - time.Duration(i)*time.Millisecond
				if err != nil || len(got.Addrs) != 1 || got.Elapsed != want {
					t.Errorf("caller %d: %+v, %v, want one address after %v", i, got, err, want)
				}
				got.Addrs[0] = addrs("192.0.2.99")[0] // must harm nobody
			})
		}
		wg.Wait()
		if f.queries() != 1 {
			t.Errorf("%d queries, want 1", f.queries())
		}
		if got, err := r.Lookup(t.Context(), "www.example.org"); err != nil || got.Addrs[0] != addrs("192.0.2.1")[0] {
			t.Errorf("afterwards: %v, %v", got, err)
		}
		if r.fly("www.example.org"); f.queries() != 1 {
			t.Error("a caller who comes when the lookup has just ended asks again")
		}
	})
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServers{handle: func(server, _ string, q *dns.Msg) [][]byte {
			if server == "192.0.2.53:53" {
				return nil
			}
			return records(q, q.Question[0].Name+" 120 A 192.0.2.1")
		}}
		r := start(t, f, nil)
		for i, want := range []time.Duration{3 * time.Second, 0, 0} { // the dead server costs its time once
			got, err := r.Lookup(t.Context(), fmt.Sprintf("www%d.example.org", i))
			if err != nil || got.Elapsed != want {
				t.Errorf("lookup %d: %+v, %v, want %v", i, got, err, want)
			}
		}
		want := []string{"udp 192.0.2.53:53 A www0.example.org.", "udp 192.0.2.54:5353 A www0.example.org.",
			"udp 192.0.2.54:5353 A www1.example.org.", "udp 192.0.2.54:5353 A www2.example.org."}
		if !slices.Equal(f.asked, want) {
			t.Errorf("asked %q, want %q", f.asked, want)
		}
	})
}

// together looks up so many names at the same time.
func together(t *testing.T, r *Resolver, n int, check func(got Answer, err error)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			check(r.Lookup(t.Context(), fmt.Sprintf("www%d.example.org", i)))
		})
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServers{handle: silence}
		r := start(t, f, func(c *Config) { c.IPv6 = true })
		begin := time.Now()
		time.AfterFunc(time.Second, func() {
			if r.Close(); len(r.slots) > 0 {
				t.Errorf("%d lookups outlive Close", len(r.slots))
			}
		})
		together(t, r, maxLookups+3, func(got Answer, err error) { // three of them wait for a slot
			if kindOf(t, err) != "temporary" || !errors.Is(err, ErrClosed) || got.TTL != 0 || time.Since(begin) != time.Second {
				t.Errorf("%v for %v after %v, want closed after 1 s", err, got.TTL, time.Since(begin))
			}
		})
		if f.queries() != 2*maxLookups {
			t.Errorf("%d queries, want those of %d lookups", f.queries(), maxLookups)
		}
		if _, err := r.Lookup(t.Context(), "late.example.org"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := r.Lookup(t.Context(), "192.0.2.1"); err != nil {
			t.Errorf("literal after Close: %v", err)
		}
		if n := r.cache.Len(); n != 0 {
			t.Errorf("%d failures of Close kept", n)
		}
		r.cache.Add("known.example.org", &entry{expires: time.Now().Add(time.Hour)})
		if _, err := r.Lookup(t.Context(), "known.example.org"); !errors.Is(err, ErrClosed) {
			t.Errorf("a known name after Close: %v", err)
		}
	})
}

func TestMaxLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeServers{handle: func(_, _ string, q *dns.Msg) [][]byte {
			time.Sleep(time.Second)
			return records(q, q.Question[0].Name+" 120 A 192.0.2.1")
		}}, nil)
		begin := time.Now()
		together(t, r, 2*maxLookups+1, func(_ Answer, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("%d lookups of 1 s, %d at a time, took %v, want 3 s", 2*maxLookups+1, maxLookups, d)
		}
	})
}
