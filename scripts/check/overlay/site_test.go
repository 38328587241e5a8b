package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLayout: every page can be reached from the seeds by one way, over hosts that share addresses.
func TestLayout(t *testing.T) {
	for _, c := range []struct{ pages, hosts, addresses int }{{20000, 18, 12}, {3000, 18, 12}, {24, 24, 12}, {5000, 12, 12}} {
		l := newLayout(c.pages, c.hosts, c.addresses)
		if n := len(l.pages()); n != c.pages {
			t.Errorf("%+v: %d pages", c, n)
		}
		list := l.pages()
		slices.Sort(list)
		if n := len(slices.Compact(list)); n != c.pages {
			t.Errorf("%+v: %d different pages", c, n)
		}
		at, across, seeds := map[string]int{}, 0, 0
		for h := range l.hosts {
			at[l.hosts[h].addr]++
			for p := range l.hosts[h].pages {
				ph, pp, ok := l.parent(h, p)
				if !ok {
					seeds++
					continue
				}
				// A parent comes before its child by (page, host): so all ways lead to a seed.
				if pp > p || pp == p && ph >= h || pp >= l.hosts[ph].pages {
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

// TestWrite: the list names what is on disk, and each page's parent holds its link.
func TestWrite(t *testing.T) {
	w := &site{layout: newLayout(500, 6, 4), dir: filepath.Join(t.TempDir(), "site")}
	w.port = 8080
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.write(); err != nil {
		t.Fatal(err)
	}
	list, err := readList(filepath.Join(w.dir, "pages.txt"))
	if err != nil || !slices.Equal(list, w.pages()) {
		t.Errorf("list of %d pages, %v", len(list), err)
	}
	read := func(h, p int) string {
		name := target(p)
		if p == 0 {
			name = "/index.html"
		}
		b, err := os.ReadFile(filepath.Join(w.dir, "www", w.hosts[h].name, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for h := range w.hosts {
		for p := range w.hosts[h].pages {
			ph, pp, ok := w.parent(h, p)
			if !ok {
				continue
			}
			link := target(p)
			if ph != h {
				link = w.url(h, p)
			}
			if !strings.Contains(read(ph, pp), `<a href="`+link+`">child`) {
				t.Errorf("page %d of host %d is not linked", p, h)
			}
		}
	}
}

// TestConfigure: the shorter times are valid at both ends.
func TestConfigure(t *testing.T) {
	l := newLayout(100, 18, 12)
	for _, faster := range []float64{1, 7.5, 15, 20} {
		c := configure(settings{fetch: 4, faster: faster}, &l, 1, 2)
		for _, err := range c.Validate() {
			t.Errorf("faster by %v: %v", faster, err)
		}
		if c.Fetch.UserAgent != "Proxima/1.2" || len(c.Fetch.DNS.Hosts) != 18 {
			t.Errorf("%+v", c.Fetch)
		}
	}
	if got, want := configure(settings{faster: 7.5}, &l, 0, 0).Ownership.TakeAfter, 12*time.Second; got != want {
		t.Errorf("taken over after %v, want %v", got, want)
	}
}
