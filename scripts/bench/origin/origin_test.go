package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"proxima/scripts/bench/origin/client"
)

var hrefs = regexp.MustCompile(`href="([^"]*)"`)

// crawl follows all links of a world from one URL, as a crawler would, and returns the URLs it reached.
func crawl(t *testing.T, w *World, from string) map[string]bool {
	t.Helper()
	sites := map[string]*Site{}
	for i := range w.Sites {
		sites[w.Sites[i].Host] = &w.Sites[i]
	}
	reached := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		base, err := url.Parse(queue[0])
		if err != nil {
			t.Fatal(err)
		}
		site := sites[base.Host]
		for _, m := range hrefs.FindAllSubmatch(site.Bodies[site.Index[base.Path]], -1) {
			u, err := base.Parse(string(m[1]))
			if err != nil {
				t.Fatalf("link %q on %s: %v", m[1], base, err)
			}
			u.Fragment = ""
			if u.Scheme != "http" || strings.HasPrefix(u.Path, disallowedPath) || reached[u.String()] {
				continue
			}
			if s := sites[u.Host]; s == nil {
				t.Fatalf("link to %s leaves the world", u)
			} else if _, ok := s.Index[u.Path]; !ok {
				t.Fatalf("link to %s on %s is dead", u, base)
			}
			reached[u.String()] = true
			queue = append(queue, u.String())
		}
	}
	return reached
}

func TestEveryPageIsReachable(t *testing.T) {
	for _, tt := range []client.Config{
		{Addresses: 1, Pages: 1, Port: 8080, Seed: 1},
		{Addresses: 1, Pages: 900, Port: 8080, Seed: 1},
		{Addresses: 9, Pages: 5, Port: 8080, Seed: 2},
		{Addresses: 30, Pages: 40, Port: 80, Seed: 3},
	} {
		w := NewWorld(tt)
		got := crawl(t, w, "http://"+w.Sites[0].Host+"/")
		if want := tt.Addresses * tt.Pages; len(got) != want {
			t.Errorf("%+v: reached %d pages from the first front page, want %d", tt, len(got), want)
		}
	}
}

func TestWorldDependsOnConfigAlone(t *testing.T) {
	cfg := client.Config{Addresses: 3, Pages: 20, Port: 8080, Seed: 7}
	a, b := NewWorld(cfg), NewWorld(cfg)
	cfg.Seed = 8
	c := NewWorld(cfg)
	differs := false
	for i := range a.Sites {
		for p := range a.Sites[i].Bodies {
			if !bytes.Equal(a.Sites[i].Bodies[p], b.Sites[i].Bodies[p]) {
				t.Fatalf("page %d of site %d differs between equal configs", p, i)
			}
			differs = differs || !bytes.Equal(a.Sites[i].Bodies[p], c.Sites[i].Bodies[p])
		}
	}
	if !differs {
		t.Error("another seed gave the same pages")
	}
}

func TestPagesLookLikePages(t *testing.T) {
	w := NewWorld(client.Config{Addresses: 4, Pages: 300, Port: 8080, Seed: 1})
	var size, links, n int
	for i := range w.Sites {
		for p, body := range w.Sites[i].Bodies {
			size += len(body)
			links += len(hrefs.FindAll(body, -1))
			n++
			if !bytes.Contains(body, []byte(disallowedPath)) {
				t.Fatalf("page %d of site %d does not tempt into %s", p, i, disallowedPath)
			}
		}
	}
	if mean := size / n; mean < 20_000 || mean > 32_000 {
		t.Errorf("mean size %d bytes, want 20 to 32 kB", mean)
	}
	if mean := links / n; mean < 60 || mean > 90 {
		t.Errorf("mean of %d links a page, want 60 to 90", mean)
	}
}

func TestConfigValidate(t *testing.T) {
	ok := client.Config{Addresses: 64, Pages: 400, Port: 8080}
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, break1 := range map[string]func(*client.Config){
		"addresses": func(c *client.Config) { c.Addresses = 5001 },
		"pages":     func(c *client.Config) { c.Pages = 0 },
		"port":      func(c *client.Config) { c.Port = 65536 },
	} {
		c := ok
		break1(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("broken %s: %v", name, err)
		}
	}
}

func TestCounts(t *testing.T) {
	w := NewWorld(client.Config{Addresses: 2, Pages: 3, Port: 8080, Seed: 1})
	c := NewCounts(w)
	ask := func(site int, method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		c.Site(site).ServeHTTP(rec, httptest.NewRequest(method, "http://"+w.Sites[site].Host+path, nil))
		return rec
	}
	ask(0, "GET", "/") // before robots.txt
	if rec := ask(0, "GET", "/robots.txt"); rec.Body.String() != robots {
		t.Errorf("robots.txt is %q", rec.Body)
	} else if got := rec.Header().Get("Connection"); got != "keep-alive" {
		t.Errorf("Connection: %q", got)
	}
	if rec := ask(0, "GET", w.Sites[0].Paths[2]); !bytes.Equal(rec.Body.Bytes(), w.Sites[0].Bodies[2]) {
		t.Error("page 2 was not served as generated")
	}
	ask(0, "GET", w.Sites[0].Paths[2])
	ask(0, "GET", disallowedPath+"account-1.html")
	ask(1, "GET", "/robots.txt")
	ask(1, "GET", "/")
	for path, method := range map[string]string{"/none.html": "GET", "/?a=b": "GET", "/": "HEAD"} {
		if rec := ask(1, method, path); rec.Code == http.StatusOK {
			t.Errorf("%s %s: status 200", method, path)
		}
	}
	rec := httptest.NewRecorder()
	c.Control().ServeHTTP(rec, httptest.NewRequest("GET", "/_stats", nil))
	var got client.Stats
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Seconds <= 0 {
		t.Errorf("window of %v s", got.Seconds)
	}
	size := int64(len(w.Sites[0].Bodies[0]) + 2*len(w.Sites[0].Bodies[2]) + len(w.Sites[1].Bodies[0]))
	if got.CPU <= 0 {
		t.Errorf("%v of processor time", got.CPU)
	}
	got.Seconds, got.CPU = 0, 0
	want := client.Stats{Total: 6, Pages: 4, Distinct: 3, Repeats: 1, Robots: 2, Disallowed: 1, Early: 1, Other: 3, Bytes: size}
	if len(got.Agents) != 1 || got.Agents[""].Pages != 4 {
		t.Errorf("agents %+v", got.Agents)
	}
	got.Agents = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("counts\n got %+v\nwant %+v", got, want)
	}
	c.Control().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/_reset", nil))
	if got := c.Stats(); got.Total != 6 || got.Pages != 0 || len(got.Agents) != 0 {
		t.Errorf("after reset %+v", got)
	}
}

func TestURLsListEveryPageOnce(t *testing.T) {
	w := NewWorld(client.Config{Addresses: 3, Pages: 11, Port: 8080, Seed: 1})
	rec := httptest.NewRecorder()
	NewCounts(w).Control().ServeHTTP(rec, httptest.NewRequest("GET", "/_urls", nil))
	urls := map[string]bool{}
	for line := range strings.Lines(rec.Body.String()) {
		urls[strings.TrimSpace(line)] = true
	}
	for u := range crawl(t, w, "http://"+w.Sites[0].Host+"/") {
		if !urls[u] {
			t.Errorf("list lacks %s", u)
		}
		delete(urls, u)
	}
	if len(urls) != 0 {
		t.Errorf("list has what no link leads to: %v", urls)
	}
}
