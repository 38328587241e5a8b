package node_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/node/runlog"
)

// heapPeak samples the objects on the heap until stop is called, which returns the most there were, in bytes.
func heapPeak() (stop func() uint64) {
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { close(done); return <-peak }
}

func gzipped(t *testing.T, write func(w io.Writer)) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(z)
	must(t, z.Close())
	return b.String()
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// raw takes the connection of a request from the server, and closes it after the answer.
func raw(answer func(c net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		answer(c)
	}
}

// rawText answers with these bytes.
func rawText(text string) http.HandlerFunc { return raw(func(c net.Conn) { io.WriteString(c, text) }) }

// rawFlood answers with a beginning, and then more and more until the client is gone.
func rawFlood(head, more string) http.HandlerFunc {
	block := strings.Repeat(more, 1+(32<<10)/len(more))
	return raw(func(c net.Conn) {
		for _, err := io.WriteString(c, head); err == nil; {
			_, err = io.WriteString(c, block)
		}
	})
}

// rawDrip answers with a byte every now and then until the client is gone.
func rawDrip(head string) http.HandlerFunc {
	return raw(func(c net.Conn) {
		for _, err := io.WriteString(c, head); err == nil; time.Sleep(time.Second) {
			_, err = io.WriteString(c, "#")
		}
	})
}

// silence answers nothing until the client is gone.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// coded answers with a page in a content coding.
func coded(coding, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		Text("text/html", body)(w, r)
	}
}

// TestHostileWeb has one node crawl a web in which each site misbehaves in its way, and a good one. The crawl ends by itself, the good site
// is crawled whole, and the logs say of each bad one what was wrong with it. Package fetch tests each way to misbehave.
func TestHostileWeb(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // the heap is little more than what is in use
	runtime.GC()                                     // what earlier tests have left does not count
	peak := heapPeak()
	inBubble(t, hostileWeb)
	if heap := peak(); heap > 200<<20 {
		t.Errorf("the heap grew to %d MiB", heap>>20)
	}
}

func hostileWeb(w *trial) {
	const htmlHead = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	const decoded, mostURLs = 24 << 20, 60
	t, c := w.t, &w.cfg
	p := &c.Politeness
	p.BackoffMin, p.BackoffMax = time.Hour, time.Hour
	p.RetryConnect, p.RetryName, p.RetryPage = []time.Duration{time.Second}, []time.Duration{time.Second}, []time.Duration{time.Second}
	c.Crawl.Fetchers, c.Frontier.MaxHostURLs = 64, mostURLs
	c.Fetch.MaxBodyBytes, c.Fetch.MaxDecodedBytes = 6<<20, decoded
	dns := &nameServer{mute: "silent.test."}
	w.deps.DialDNS = dns.dial

	// Sites, and what the log must say of their first pages, or of robots.txt where that is why there are none: status, class of error, links,
	// and a part of the reason.
	type page struct {
		site        *Site
		url         string
		says        string
		reason      string
		robots      bool
		hostDropped string // why the host was given up, "" if it was not
	}
	var hostile []page
	seeds := []string{"http://silent.test/"}
	next := 0
	place := func() string { next++; return fmt.Sprintf("198.51.100.%d", next) }
	add := func(answer http.HandlerFunc, says string, p page) *Site {
		name := fmt.Sprintf("h%d.test", len(hostile))
		if p.says, p.url = says, "http://"+name+"/"; says == "0 tls 0" {
			p.url = "https://" + name + "/"
		}
		p.site = w.Site(name, place()).Handle("/", answer)
		hostile, seeds = append(hostile, p), append(seeds, p.url)
		return p.site
	}
	bomb := gzipped(t, func(z io.Writer) { io.Copy(z, io.LimitReader(zeros{}, 4*decoded)) })
	million := gzipped(t, func(z io.Writer) {
		for i := range 1_000_000 {
			fmt.Fprintf(z, "<a href=/%d>", i)
		}
	})
	binary := make([]byte, 100<<10)
	rand.NewChaCha8([32]byte{}).Read(binary)

	add(rawFlood(htmlHead+"\r\n", "x"), "200  0", page{reason: "body cut: length"})
	add(rawFlood(htmlHead, "X: y\r\n"), "0 header_too_large 0", page{})
	add(rawDrip(htmlHead+"\r\n"), "200 too_slow 0", page{})
	add(silence, "0 timeout_header 0", page{})
	add(coded("gzip", bomb), "200 bomb 0", page{})
	add(coded("gzip", "this is no gzip"), "200 decode 0", page{})
	add(Broken, "200 eof 1", page{})
	add(rawText("220 mail.example ESMTP\r\n"), "0 protocol 0", page{})
	add(Text("text/html", string(binary)), "200  0", page{reason: "binary labelled as HTML"})
	charset := add(Text("text/html; charset=\"klingon\xff\"", "\xe9\xff\x80<a href=/next>\xc3\x28</a>\xf0"), "200  1", page{})
	many := add(coded("gzip", million), "200  1000000", page{})
	calendar := add(html("/1", "/7"), "200  2", page{})
	for day := range 10 * mostURLs {
		calendar.Page(fmt.Sprintf("/%d", day), fmt.Sprintf("/%d", day+1), fmt.Sprintf("/%d", day+7))
	}
	loop := add(Status(302, "Location", "/a"), "302  1", page{}).Redirect("/a", "/b").Redirect("/b", "/a")
	hops := add(Status(301, "Location", "/x"), "301  1", page{})
	for path := "/x"; len(path) < 2*c.Scope.MaxHops; path += "x" {
		hops.Redirect(path, path+"x")
	}
	hugeRobots := add(html("/private/a"), "200  1", page{}).Handle("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "User-agent: *\nDisallow: /private\n")
		rule := "Disallow: /" + strings.Repeat("x", 1000) + "\n"
		for n, err := 0, error(nil); n < 50<<20 && err == nil; n += len(rule) {
			_, err = io.WriteString(w, rule)
		}
	})
	drip := rawDrip("HTTP/1.1 200 OK\r\n\r\n")
	unread := map[string]http.HandlerFunc{"200 too_slow 0": drip, "0 timeout_header 0": silence, "200 eof 0": Broken}
	for says, robots := range unread {
		add(http.NotFound, says, page{robots: true}).Handle("/robots.txt", robots)
	}
	// Nothing there is HTTP over TLS, so robots.txt is asked for again and again, until the host is given up.
	add(http.NotFound, "0 tls 0", page{robots: true, hostDropped: "tls"})
	w.BreakTLS(fmt.Sprintf("198.51.100.%d", next), false)
	add(http.NotFound, "0 refused 0", page{robots: true, hostDropped: "refused"})
	w.Down(fmt.Sprintf("198.51.100.%d", next), true)

	// Names, links and redirects that lead inside.
	w.Site("inside.test", "127.0.0.1")
	forbidden := map[string]string{ // host -> how the log names its address
		"inside.test":     "dial 127.0.0.1: loopback",
		"127.0.0.1":       "dial 127.0.0.1: loopback",
		"169.254.169.254": "dial 169.254.169.254: link local",
		"[::1]":           "dial ::1: ",
		"10.0.0.1":        "dial 10.0.0.1: private",
	}
	traps := []string{"/in"}
	for host := range forbidden {
		traps = append(traps, "http://"+host+"/")
	}
	var mu sync.Mutex
	dialled := map[netip.Addr]int{}
	w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialled[netip.MustParseAddrPort(address).Addr()]++
		mu.Unlock()
		return w.Dial(ctx, network, address)
	}
	// The good site beside them: a chain of pages, each with the links of traps, and a redirect inside.
	const goodPages = 40
	good := w.Site("good.test", place()).Redirect("/in", "http://127.0.0.1/secret")
	for i, path := range numbered(goodPages) {
		good.Page(path, append(traps, fmt.Sprintf("/%d", (i+1)%goodPages))...)
	}

	end, logs := w.crawl(t.Context(), append(seeds, "http://good.test/0")...)
	if end.Reason != "idle" {
		t.Errorf("ended %q", end.Reason)
	}
	for _, p := range hostile {
		url, host := p.url, strings.TrimSuffix(p.url, "/")
		if p.robots {
			url += "robots.txt"
			if lines := logs.of(p.url); len(lines) != 0 {
				t.Errorf("%s: %d requests for the page without its robots.txt", host, len(lines))
			}
		}
		lines := logs.of(url)
		if len(lines) == 0 {
			t.Errorf("%s (%s): no line", host, p.says)
		}
		for _, line := range lines {
			says := fmt.Sprintf("%d %s %d", line.Status, line.Error, line.Links)
			if says != p.says || !strings.Contains(line.Reason, p.reason) || (line.Error != "") != (line.Reason != "" && p.reason == "") {
				t.Errorf("%s: %q, reason %q; want %+v", host, says, line.Reason, p)
			}
		}
		dropped := logs.about(runlog.EventHostDropped, host)
		if slices.Sort(dropped); strings.Join(slices.Compact(dropped), ", ") != p.hostDropped {
			t.Errorf("%s: host dropped because %q, want %q", host, dropped, p.hostDropped)
		}
	}
	for host, want := range forbidden {
		if got := logs.about(runlog.EventHostDropped, "http://"+host); len(got) == 0 || !strings.HasPrefix(got[0], "forbidden address: "+want) {
			t.Errorf("%s: host dropped because %q, want %q", host, got, want)
		}
	}
	for addr := range dialled {
		if !netip.MustParsePrefix(webPrefix).Contains(addr) {
			t.Errorf("%v was dialled", addr)
		}
	}
	if got := logs.about(runlog.EventDNS, "http://silent.test"); len(got) != 1+len(p.RetryName) {
		t.Errorf("silent name server: DNS events %q", got)
	}
	if got := logs.about(runlog.EventHostDropped, "http://silent.test"); len(got) != 1 || !strings.HasPrefix(got[0], "DNS: ") {
		t.Errorf("silent name server: host dropped because %q", got)
	}
	w.same("good site", good.Paths(), append(numbered(goodPages), "/robots.txt", "/in")...)
	for site, want := range map[*Site]int{charset: 2, calendar: mostURLs, many: mostURLs, loop: 3, hops: c.Scope.MaxHops + 1, hugeRobots: 1} {
		if got := len(pages(site.Visits())); got != want {
			t.Errorf("%q: %d requests, want %d", site.Paths()[:2], got, want)
		}
	}
	if line := logs.of("http://" + hugeRobots.Visits()[0].Site + "/robots.txt")[0]; line.Reason != "body cut: length" || line.Bytes > 1<<20 {
		t.Errorf("robots.txt of 50 MB: %+v", line)
	}
	drops := logs.queue.Drops
	if got, want := drops["too many links on a page"], int64(1_000_000-c.Page.MaxLinks); got != want {
		t.Errorf("too many links on a page: %d, want %d", got, want)
	}
	for _, reason := range []string{"host full", "too many hops", "robots.txt disallows", "forbidden address", "DNS", "tls", "refused"} {
		if drops[reason] == 0 {
			t.Errorf("no drop because of %q: %v", reason, drops)
		}
	}
	// All that is left are the pages whose robots.txt could not be read: their hosts wait.
	if end.Unfinished != int64(len(unread)) || logs.queue.Pending != end.Unfinished || logs.queue.Waits["backoff"] != end.Unfinished {
		t.Errorf("%d unfinished, waits %v; want %d hosts in backoff", end.Unfinished, logs.queue.Waits, len(unread))
	}
}
