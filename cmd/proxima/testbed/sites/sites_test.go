package sites

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"proxima/node/netsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running runs something until stop is called.
func running(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// local is the machine's own network.
func local() Deps { return Deps{Listen: net.Listen, ListenPacket: net.ListenPacket} }

// release lets something that is not to run close what it has opened.
func release(t *testing.T, run func(ctx context.Context) error) {
	t.Helper()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(stopped); err != nil {
		t.Error(err)
	}
}

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}) }

// some are sites, two to an address.
func some(n, pages int, change func(i int, s *Site)) []Site {
	var all []Site
	for i := range n {
		s := Site{Host: fmt.Sprintf("www.s%d.test", i), Addr: address(i / 2), Pages: pages, MedianBytes: 20_000, Links: 12, Abroad: 1}
		if change != nil {
			change(i, &s)
		}
		all = append(all, s)
	}
	return all
}

// world is a web on the fake clock, with a browser 10 ms away from all servers.
type world struct {
	*Web
	t     *testing.T
	hosts map[string]netip.Addr
	http  *http.Client
}

func inWorld(t *testing.T, cfg Config, test func(w *world)) {
	t.Helper()
	cfg.Listen, cfg.Port = []string{"0.0.0.0:80"}, 80
	synctest.Test(t, func(t *testing.T) {
		network := netsim.New(func(a, b netip.Addr) time.Duration { return 5 * time.Millisecond })
		defer network.Close()
		w := &world{t: t, hosts: map[string]netip.Addr{}}
		var servers []netip.Addr
		browser := netip.MustParseAddr("198.19.0.1")
		for _, s := range cfg.Sites {
			w.hosts[s.Host] = s.Addr
			if !slices.Contains(servers, s.Addr) {
				servers = append(servers, s.Addr)
			}
		}
		server, err := network.Open(servers...)
		if err != nil {
			t.Fatal(err)
		}
		client, err := network.Open(browser)
		if err != nil {
			t.Fatal(err)
		}
		if w.Web, err = New(cfg, Deps{Listen: server.Listen}); err != nil {
			t.Fatal(err)
		}
		stop := running(t, w.Run)
		transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := strings.Cut(address, ":")
			if a, known := w.hosts[host]; known {
				host = a.String()
			}
			return client.DialContext(ctx, network, host+":"+port)
		}}
		w.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		test(w)
		transport.CloseIdleConnections()
		stop()
	})
}

// get asks for a URL.
func (w *world) get(u string) (*http.Response, string) {
	w.t.Helper()
	r, err := w.http.Get(u)
	if err != nil {
		w.t.Error(err)
		return &http.Response{}, ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Error(err)
	}
	return r, string(b)
}

// requests counts the requests for each URL, as the servers saw them.
func (w *world) requests() map[string]int {
	n := map[string]int{}
	for _, all := range w.Visits() {
		for _, v := range all {
			n[v.URL]++
		}
	}
	return n
}

var href = regexp.MustCompile(`href="([^"]+)"`)

// crawl asks once for all that can be reached from a URL, and says what each answered.
func (w *world) crawl(front string) map[string]int {
	status := map[string]int{front: 0}
	for queue := []string{front}; len(queue) > 0; queue = queue[1:] {
		base, err := url.Parse(queue[0])
		if err != nil {
			w.t.Fatal(err)
		}
		r, body := w.get(queue[0])
		status[queue[0]] = r.StatusCode
		refs := []string{r.Header.Get("Location")}
		for _, m := range href.FindAllStringSubmatch(body, -1) {
			refs = append(refs, m[1])
		}
		for _, ref := range refs {
			to, err := base.Parse(ref)
			if err != nil {
				w.t.Fatal(err)
			}
			if _, known := status[to.String()]; ref != "" && !known {
				status[to.String()] = 0
				queue = append(queue, to.String())
			}
		}
	}
	return status
}

func TestEveryPageIsReachedFromEveryFrontPage(t *testing.T) {
	cfg := Config{Seed: 7, Sites: some(5, 60, func(i int, s *Site) { s.Errors, s.Redirects, s.Links = 0.2, 0.3, 1+i*3 })}
	inWorld(t, cfg, func(w *world) {
		var want []string
		for _, s := range cfg.Sites {
			for page := range s.Pages {
				want = append(want, w.URL(s.Host, page))
			}
		}
		slices.Sort(want)
		if len(want) != 300 {
			t.Fatalf("%d URLs", len(want))
		}
		for _, front := range w.Fronts() {
			var pages, statuses []string
			for u, status := range w.crawl(front) {
				if status == http.StatusOK {
					pages = append(pages, u)
				} else if s := fmt.Sprint(status); !slices.Contains(statuses, s) {
					statuses = append(statuses, s)
				}
			}
			if slices.Sort(pages); !slices.Equal(pages, want) {
				t.Errorf("from %s: %d pages of %d", front, len(pages), len(want))
			}
			if !slices.Contains(statuses, "302") || !slices.Contains(statuses, "404") {
				t.Errorf("from %s: no redirect or no error among %v", front, statuses)
			}
		}
		requests := w.requests()
		for _, u := range want {
			if requests[u] != 5 {
				t.Errorf("%s: the server saw %d requests, want one from each front page", u, requests[u])
			}
		}
	})
}

// With links to other sites, the front pages make a ring. Without them each site is an island.
func TestFrontPagesMakeARing(t *testing.T) {
	for abroad, want := range map[float64]int{1e-9: 15, 0: 3} {
		inWorld(t, Config{Sites: some(5, 3, func(_ int, s *Site) { s.Abroad = abroad })}, func(w *world) {
			if got := len(w.crawl(w.Fronts()[3])); got != want {
				t.Errorf("%d pages, want %d", got, want)
			}
		})
	}
}

func TestTheSeedDecides(t *testing.T) {
	body := func(seed uint64, u string) (text string) {
		inWorld(t, Config{Seed: seed, Sites: some(3, 10, nil)}, func(w *world) { _, text = w.get(u) })
		return text
	}
	words := func(body string) string {
		_, text, _ := strings.Cut(body, "</ul><p>")
		return text[:min(100, len(text))]
	}
	const u = "http://www.s1.test/p4.html"
	first, again, other := body(1, u), body(1, u), body(2, u)
	if first == "" || first != again || first == other || words(first) == words(body(1, "http://www.s1.test/p5.html")) {
		t.Error("pages are not what the seed, the host and the number say")
	}
}

// Medians and spreads of 40,000 pages are those of the configuration.
func TestSizesAndThinkTimes(t *testing.T) {
	sites := some(400, 100, func(_ int, s *Site) { s.Think = 100 * time.Millisecond })
	w, err := New(Config{Seed: 3, Listen: []string{"127.0.0.1:0"}, Sites: sites}, local())
	if err != nil {
		t.Fatal(err)
	}
	release(t, w.Run)
	var hosts, pages, thinks []float64
	for _, s := range w.sites {
		hosts = append(hosts, math.Log(s.median))
		for i := range s.Pages {
			d := s.draw(i)
			pages = append(pages, math.Log(float64(d.bytes)/s.median))
			thinks = append(thinks, math.Log(d.think.Seconds()))
		}
	}
	for _, c := range []struct {
		name                  string
		logs                  []float64
		median, sigma, within float64
	}{{"hosts", hosts, 20_000, 0.6, 0.1}, {"pages", pages, 1, 0.5, 0.02}, {"thinks", thinks, 0.1, 0.3, 0.02}} {
		slices.Sort(c.logs)
		at := func(p float64) float64 { return c.logs[int(p*float64(len(c.logs)))] }
		sigma := (at(0.841) - at(0.159)) / 2
		if median := math.Exp(at(0.5)); math.Abs(median/c.median-1) > c.within || math.Abs(sigma/c.sigma-1) > c.within {
			t.Errorf("%s: median %.4g, sigma %.3g; want %v, %v", c.name, median, sigma, c.median, c.sigma)
		}
	}
	for i := range 50 { // a page is as long as was drawn, unless its links need more
		s := w.sites[i]
		d := s.draw(i)
		if got := len(w.body(s, i, d)); got != d.bytes && d.bytes > 4000 {
			t.Errorf("page %d has %d bytes, drawn %d", i, got, d.bytes)
		}
	}
}

func TestServersThink(t *testing.T) {
	sites := some(4, 5, func(_ int, s *Site) { s.Think, s.MedianBytes = 80*time.Millisecond, 3000 })
	inWorld(t, Config{Sites: sites}, func(w *world) {
		for i := range 3 { // connections are made
			w.get(w.URL(sites[i].Host, 0))
		}
		for _, slow := range []time.Duration{0, 5 * time.Second, 0} {
			if err := w.Slow(address(0), slow); err != nil {
				t.Error(err)
			}
			for i, slow := range []time.Duration{slow, slow, 0} {
				want := slow + w.sites[i].draw(1).think + 10*time.Millisecond
				begin := time.Now()
				w.get(w.URL(sites[i].Host, 1))
				if took := time.Since(begin); took != want {
					t.Errorf("slowed by %v: site %d takes %v, want %v", slow, i, took, want)
				}
			}
		}
		if err := w.Slow(address(9), time.Second); err == nil {
			t.Error("slowed a server that is not there")
		}
	})
}

// TestRefusals: each third page is refused, and all that come before its Retry-After is over; the server tells of each request.
func TestRefusals(t *testing.T) {
	sites := some(1, 50, func(i int, s *Site) { s.RefuseEvery, s.RetryAfter = 3, 5*time.Second })
	inWorld(t, Config{Sites: sites}, func(w *world) {
		for i, want := range []int{200, 200, 429, 429, 200} {
			if i == 4 {
				time.Sleep(5 * time.Second)
			}
			r, _ := w.get(fmt.Sprintf("http://www.s0.test/p%d.html", i+1))
			if r.StatusCode != want || want == 429 && r.Header.Get("Retry-After") == "" {
				t.Errorf("page %d: %d, Retry-After %q", i, r.StatusCode, r.Header.Get("Retry-After"))
			}
		}
		all := w.Visits()[address(0)]
		if len(all) != 5 || all[2].RetryAfter != 5*time.Second || all[4].RetryAfter != 0 || all[4].Begin.Sub(all[3].End) < 5*time.Second {
			t.Errorf("visits %+v", all)
		}
	})
}

func TestWhatElseServersAnswer(t *testing.T) {
	sites := some(3, 50, nil)
	sites[0].Robots = "User-agent: *\nDisallow: /p7.html\n"
	inWorld(t, Config{Sites: sites}, func(w *world) {
		if r, body := w.get("http://www.s0.test/robots.txt"); r.StatusCode != 200 || body != sites[0].Robots {
			t.Errorf("robots.txt: %d %q", r.StatusCode, body)
		}
		for u, want := range map[string]int{
			"http://www.s1.test/robots.txt": 404, "http://www.s0.test/p50.html": 404, "http://www.s0.test/p0.html": 404,
			"http://www.s0.test/p01.html": 404, "http://www.s0.test/go/3": 404, "http://www.s0.test/gone/3": 404, "http://www.s0.test/x?y=1": 404,
		} {
			if r, _ := w.get(u); r.StatusCode != want {
				t.Errorf("%s: %d", u, r.StatusCode)
			}
		}
		w.hosts["www.s0.test"] = address(1) // another server
		w.hosts["stranger.test"] = address(0)
		for _, u := range []string{"http://www.s0.test/", "http://stranger.test/"} {
			w.http.CloseIdleConnections()
			if r, _ := w.get(u); r.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s at a foreign address: %d", u, r.StatusCode)
			}
		}
		if got := w.requests(); len(got) != 8 || got["http://www.s0.test/x?y=1"] != 1 || got["http://www.s0.test/"] != 0 {
			t.Errorf("the servers saw %v: want what is not there, and nothing that was sent to the wrong address", got)
		}
	})
}

// On real sockets, too, the address that was dialled is known.
func TestRealSockets(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	port := freePort(t)
	w, err := New(Config{Listen: []string{netip.AddrPortFrom(here, port).String()}, Port: port, Sites: some(2, 3, func(i int, s *Site) {
		if i == 0 {
			s.Addr = here
		}
	})}, local())
	if err != nil {
		t.Fatal(err)
	}
	defer running(t, w.Run)()
	for i, want := range []int{http.StatusOK, http.StatusMisdirectedRequest} {
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		front, err := url.Parse(w.Fronts()[i])
		if err != nil {
			t.Fatal(err)
		}
		r.Host = front.Host
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%v: %d, want %d", front, answer.StatusCode, want)
		}
	}
}

func TestServersSeeHowTheyAreTreated(t *testing.T) {
	inWorld(t, Config{Sites: some(4, 9, func(_ int, s *Site) { s.Think = 300 * time.Millisecond })}, func(w *world) {
		var all sync.WaitGroup
		for _, u := range []string{"http://www.s0.test/", "http://www.s1.test/p1.html", "http://www.s1.test/p2.html"} { // one server
			all.Go(func() { w.get(u) })
		}
		all.Wait()
		time.Sleep(time.Second)
		for _, u := range []string{"http://www.s0.test/", "http://www.s1.test/", "http://www.s1.test/p1.html"} { // each while the last is at work
			all.Go(func() { w.get(u) })
			time.Sleep(60 * time.Millisecond)
		}
		all.Wait()
		w.get("http://www.s2.test/")
		time.Sleep(2 * time.Second)
		w.get("http://www.s2.test/p1.html")
		time.Sleep(time.Second)
		w.get("http://www.s3.test/")
		// gaps are the times from the end of one request to the beginning of the next; negative ones overlap.
		gaps := func(addr netip.Addr) (all []time.Duration) {
			visits := w.Visits()[addr]
			for i := range visits[1:] {
				all = append(all, visits[i+1].Begin.Sub(visits[i].End))
			}
			return all
		}
		if a := gaps(address(0)); len(a) != 5 || a[0] >= 0 || a[1] >= 0 || a[2] < time.Second || a[2] > time.Second+50*time.Millisecond ||
			a[3] >= 0 || a[4] >= 0 {
			t.Errorf("three at once, and later three that overlap: %v", a)
		}
		// The time there and back, and a handshake for the other host.
		const gap = time.Second + 30*time.Millisecond
		if b := gaps(address(1)); len(b) != 2 || (b[0]-gap-time.Second).Abs() > 20*time.Millisecond || (b[1]-gap).Abs() > 20*time.Millisecond {
			t.Errorf("one after the other: %v", b)
		}
	})
}

func TestOneListenerServesThousandsOfAddresses(t *testing.T) {
	inWorld(t, Config{Sites: some(6000, 2, nil)}, func(w *world) {
		for i := 0; i < 6000; i += 599 {
			u := fmt.Sprintf("http://www.s%d.test/p1.html", i)
			if r, body := w.get(u); r.StatusCode != 200 || !strings.Contains(body, fmt.Sprintf("Page 1 of www.s%d.test", i)) {
				t.Errorf("%s: %d", u, r.StatusCode)
			}
		}
	})
}

func TestAHostIsThereOnce(t *testing.T) {
	cfg := Config{Listen: []string{"127.0.0.1:0"}, Sites: some(2, 1, func(_ int, s *Site) { s.Host = "www.test" })}
	if _, err := New(cfg, local()); err == nil || !strings.Contains(err.Error(), "www.test is there twice") {
		t.Errorf("%v", err)
	}
}
