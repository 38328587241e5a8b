package lab

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestLayout: every page can be reached from the seeds by one way, over hosts that share addresses.
func TestLayout(t *testing.T) {
	for _, c := range []struct{ pages, hosts, addresses int }{{20000, 18, 12}, {3000, 18, 12}, {24, 24, 12}, {5000, 12, 12}} {
		l := NewLayout("127.0.3.", c.pages, c.hosts, c.addresses)
		if n := len(l.Pages()); n != c.pages {
			t.Errorf("%+v: %d pages", c, n)
		}
		list := l.Pages()
		slices.Sort(list)
		if n := len(slices.Compact(list)); n != c.pages {
			t.Errorf("%+v: %d different pages", c, n)
		}
		at, across, seeds := map[string]int{}, 0, 0
		for h := range l.Hosts {
			at[l.Hosts[h].Addr]++
			for p := range l.Hosts[h].Pages {
				ph, pp, ok := l.parent(h, p)
				if !ok {
					seeds++
					continue
				}
				// A parent comes before its child by (page, host): so all ways lead to a seed.
				if pp > p || pp == p && ph >= h || pp >= l.Hosts[ph].Pages {
					t.Fatalf("%+v: the parent of %d/%d is %d/%d", c, h, p, ph, pp)
				}
				if ph != h {
					across++
				}
			}
		}
		if len(at) != c.addresses || seeds != min(seedHosts, c.hosts) || c.pages > 1000 && across < c.pages/6 {
			t.Errorf("%+v: %d addresses, %d seeds, %d links between hosts alone", c, len(at), seeds, across)
		}
		for addr, n := range at {
			if n > 2 {
				t.Errorf("%+v: %d hosts at %s", c, n, addr)
			}
		}
	}
}

// TestServe: following links from the seeds finds every page and redirect, and nothing else but what is forbidden.
func TestServe(t *testing.T) {
	for _, hosts := range []int{1, 6} {
		l := NewLayout("127.0.3.", 300, hosts, min(hosts, 4))
		l.Redirects = 25
		s, err := Serve(l, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		seen := map[string]bool{}
		queue := s.Seeds()
		for len(queue) > 0 {
			host, path, _ := strings.Cut(strings.TrimPrefix(queue[0], "http://"), "/")
			queue = queue[1:]
			if path = "/" + path; seen[host+path] || strings.HasPrefix(path, "/forbidden/") {
				continue
			}
			seen[host+path] = true
			req, err := http.NewRequest(http.MethodGet, "http://"+s.Hosts[s.targets[host+"/"].host].Addr+host[strings.IndexByte(host, ':'):]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("User-Agent", "Proxima/3.7 (x)")
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			refs := []string{res.Header.Get("Location")}
			for _, part := range bytes.Split(body, []byte(`href="`))[1:] {
				ref, _, _ := strings.Cut(string(part), `"`)
				refs = append(refs, ref)
			}
			for _, ref := range refs {
				if strings.HasPrefix(ref, "/") {
					ref = "http://" + host + ref
				}
				if ref != "" {
					queue = append(queue, ref)
				}
			}
		}
		want := s.Pages()
		slices.Sort(want)
		var got []string
		for page := range seen {
			got = append(got, page)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(want) <= 300 {
			t.Errorf("%d hosts: found %d, there are %d", hosts, len(got), len(want))
		}
		for _, r := range s.Requests() {
			if r.Node != 3 || r.Life != 7 || !r.Whole() || r.End.Before(r.Start) || !strings.HasPrefix(r.Server, "127.0.3.") {
				t.Errorf("%+v", r)
			}
		}
		if s.Finished() != len(want) || s.Active() != 0 {
			t.Errorf("%d finished, %d active", s.Finished(), s.Active())
		}
	}
}
