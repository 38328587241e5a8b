package resolve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestNoServer tells silence about one name from servers that answer nothing at all.
func TestNoServer(t *testing.T) {
	others := zone(map[string][]string{"dead.example.org. A": {"silence"}, "broken.example.org. A": {"SERVFAIL"}})
	stray := func(_, _ string, q *dns.Msg) [][]byte {
		m := answerTo(q, dns.RcodeSuccess, q.Question[0].Name+" 60 IN A 192.0.2.1")
		m.Id++
		return [][]byte{packed(m)}
	}
	helpless := func(_, _ string, q *dns.Msg) [][]byte { return [][]byte{packed(answerTo(q, dns.RcodeServerFailure))} }
	aliases := func(_, _ string, q *dns.Msg) [][]byte {
		time.Sleep(2 * time.Second)
		return records(q, q.Question[0].Name+" 60 CNAME x"+q.Question[0].Name)
	}
	begun := sync.OnceValue(time.Now)
	back := func(_, _ string, q *dns.Msg) [][]byte {
		if time.Since(begun()) < 9*time.Second {
			return nil
		}
		return records(q, q.Question[0].Name+" 60 A 192.0.2.1")
	}
	for _, tc := range []struct {
		name, host string
		handle     handler
		kind       string
		noServer   bool
		seconds    int // that it takes
	}{
		{"all are silent", "www.example.org", silence, "temporary", true, 12},
		{"guesses are no answers", "www.example.org", stray, "temporary", true, 12},
		{"SERVFAIL about everything, as without a network", "www.example.org", helpless, "temporary", true, 0},
		{"one of two knows only failures", "dead.example.org", func(server, network string, q *dns.Msg) [][]byte {
			if server == "192.0.2.53:53" {
				return helpless(server, network, q)
			}
			return others(server, network, q)
		}, "temporary", false, 12},
		{"silent about one name", "dead.example.org", others, "temporary", false, 18},
		{"SERVFAIL", "broken.example.org", others, "temporary", false, 0},
		{"NXDOMAIN", "none.example.org", others, "not found", false, 0},
		{"they answer once the tries are over", "www.example.org", back, "", false, 9},
		{"a long way of aliases", "a.example.org", aliases, "temporary", false, 9},
		{"one of two answers about others", "dead.example.org", func(server, network string, q *dns.Msg) [][]byte {
			if server == "192.0.2.53:53" {
				return nil
			}
			return others(server, network, q)
		}, "temporary", false, 18},
	} {
		_, got, err := lookup(t, tc.host, tc.handle)
		if kindOf(t, err) != tc.kind || errors.Is(err, ErrNoServer) != tc.noServer || got.Elapsed != time.Duration(tc.seconds)*time.Second {
			t.Errorf("%s: %v after %v: ErrNoServer is %v, want %q and %v after %d s", tc.name, err, got.Elapsed, errors.Is(err, ErrNoServer), tc.kind, tc.noServer, tc.seconds)
		}
	}
}

// A probe in vain says that all servers are silent, unless another lookup has heard one since.
func TestSilence(t *testing.T) {
	r, now := start(t, &fakeServers{handle: silence}, nil), time.Now()
	before := now.Add(-1)
	for _, c := range []struct {
		heard, deaf time.Time
		silent      bool
	}{{now, before, false}, {before, now, true}, {now, now, false}} {
		r.alive.heard, r.alive.deaf = c.heard, c.deaf
		if silent, probed := r.silent(now); silent != c.silent || probed {
			t.Errorf("heard at %v, deaf at %v: silent %v, probed %v", c.heard, c.deaf, silent, probed)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r, begin := start(t, &fakeServers{handle: silence}, nil), time.Now()
		for i := range 2 { // the second begins after the first probe
			if silent, probed := r.silent(begin.Add(time.Duration(i))); !silent || !probed {
				t.Errorf("lookup %d: silent %v, probed %v", i, silent, probed)
			}
		}
	})
}

// TestNoServerTogether has many lookups share the question whether anybody answers, and see the servers come back. Servers that never answer
// cost Attempts × Timeout, and one more to see that they answer nobody. That says nothing about the name: it is not kept.
func TestNoServerTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		f := &fakeServers{handle: func(_, _ string, q *dns.Msg) [][]byte {
			if !back.Load() {
				return nil
			}
			return records(q, q.Question[0].Name+" 60 IN A 192.0.2.1")
		}}
		r := start(t, f, func(c *Config) { c.IPv6 = false })
		together(t, r, 3, func(got Answer, err error) {
			if !errors.Is(err, ErrNoServer) || got.Elapsed != 12*time.Second || got.TTL != 0 {
				t.Errorf("%v after %v", err, got.Elapsed)
			}
			if !strings.Contains(err.Error(), "ask 192.0.2.5") || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("error %q does not name server and reason", err)
			}
		})
		if f.queries() != 3*3 || f.probes() != 2 {
			t.Errorf("%d queries and %d probes, want 3 for each name, and one to each server", f.queries(), f.probes())
		}
		back.Store(true)
		if got, err := r.Lookup(t.Context(), "www0.example.org"); err != nil || len(got.Addrs) != 1 {
			t.Error(got, err)
		}
	})
}

// A resolv.conf that names servers only once the network is up, or others in another network, is read again when no server answers.
func TestServersThatChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	var there atomic.Pointer[string] // the server that answers
	f := &fakeServers{handle: func(asked, _ string, q *dns.Msg) [][]byte {
		if asked != *there.Load()+":53" {
			return nil
		}
		return records(q, q.Question[0].Name+" 60 A 198.51.100.1")
	}}
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Default(), Deps{Dial: f.dial, ResolvConf: path, HostsFile: path})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i, server := range []string{"192.0.2.8", "192.0.2.9"} {
			there.Store(&server)
			name := server + ".test"
			if _, err := r.Lookup(t.Context(), name); !errors.Is(err, ErrNoServer) {
				t.Errorf("%d: before the change: %v", i, err)
			}
			if err := os.WriteFile(path, []byte("nameserver "+server+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first finds that the old one is silent
				time.Sleep(time.Minute)
				_, err = r.Lookup(t.Context(), name)
			}
			if err != nil {
				t.Errorf("%d: after the change: %v", i, err)
			}
		}
	})
}
