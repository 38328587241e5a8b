package node_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/node"
	"proxima/node/runlog"
)

// The addresses of the hostile web: hostilePrefix may be crawled, everything else on loopback may not.
const hostilePrefix = "127.0.8.0/24"

// Bounds of the hostile crawl. Times are short, yet long enough for a good server on a busy machine.
const (
	hostileBody    = 6 << 20
	hostileDecoded = 24 << 20
	hostileURLs    = 60
)

// hostileConfig crawls hostilePrefix with short limits, without asking any name server but one.
func hostileConfig(t *testing.T) node.Config {
	c := node.Default()
	c.Node.Data = t.TempDir()
	c.Crawl.Fetchers, c.Crawl.Resolvers, c.Crawl.Patience = 64, 8, time.Second
	p := &c.Politeness
	p.MinGap, p.Factor = time.Millisecond, 0
	p.BackoffMin, p.BackoffMax = time.Hour, time.Hour
	p.RetryConnect, p.RetryName, p.RetryPage = []time.Duration{time.Millisecond}, []time.Duration{time.Millisecond}, []time.Duration{time.Millisecond}
	c.Node.MemoryMiB, c.Frontier.MinFreeMiB = 64, 0
	c.Frontier.MaxHostURLs = hostileURLs
	c.Fetch.AllowPrefixes = []string{hostilePrefix}
	c.Fetch.ConnectTimeout, c.Fetch.TLSTimeout = 3*time.Second, 3*time.Second
	c.Fetch.HeaderTimeout, c.Fetch.GraceTime, c.Fetch.TotalTimeout = 3*time.Second, 2*time.Second, 20*time.Second
	c.Fetch.MaxBodyBytes, c.Fetch.MaxDecodedBytes = hostileBody, hostileDecoded
	return c
}

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

// TestHostileWeb has one node crawl a web in which each site misbehaves in its way, and a good one. The crawl ends by
// itself, the good site is crawled whole, and the logs say of each bad one what was wrong with it.
func TestHostileWeb(t *testing.T) {
	before := goleak.IgnoreCurrent()
	const htmlHead = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	w := newRawWeb(t)
	c := hostileConfig(t)
	var seedList []string

	// Sites of one page each, and what the log must say of it: a class of error, or without one a part of the reason.
	type page struct {
		name, url   string
		status      int
		classes     []string
		reason      string
		links       int
		robots      bool   // the line is that of the robots.txt, and the page is never asked for
		hostDropped string // why the host was given up, "" if it was not
	}
	var pages []*page
	add := func(name string, robots, answer rawAnswer, p page) string {
		authority := w.serve(robots, answer)
		p.name, p.url = name, "http://"+authority+"/"
		pages = append(pages, &p)
		seedList = append(seedList, p.url)
		return authority
	}
	bomb := gzipped(t, func(z io.Writer) { io.Copy(z, io.LimitReader(zeros{}, 4*hostileDecoded)) })
	million := gzipped(t, func(z io.Writer) {
		for i := range 1_000_000 {
			fmt.Fprintf(z, "<a href=/%d>", i)
		}
	})
	binary := make([]byte, 100<<10)
	rnd := rand.NewChaCha8([32]byte{})
	rnd.Read(binary)

	add("endless body", nil, rawFlood(htmlHead+"\r\n", "x"), page{status: 200, reason: "body cut: length"})
	add("slow drip", nil, rawDrip(htmlHead+"\r\n"), page{status: 200, classes: []string{"too_slow"}})
	add("slow drip of header", nil, rawDrip("HTTP/1.1 200 OK\r\nX: "), page{classes: []string{"too_slow"}})
	add("never answers", nil, func(c net.Conn, _ string) bool { io.Copy(io.Discard, c); return false }, page{classes: []string{"timeout_header"}})
	add("gzip bomb", nil, func(c net.Conn, _ string) bool { return rawPage(c, "Content-Encoding: gzip\r\n", bomb) },
		page{status: 200, classes: []string{"bomb"}})
	add("broken gzip", nil, func(c net.Conn, _ string) bool { return rawPage(c, "Content-Encoding: gzip\r\n", "this is no gzip") },
		page{status: 200, classes: []string{"decode"}})
	add("huge header", nil, rawText(htmlHead+"X: "+strings.Repeat("a", 1<<20)+"\r\n\r\n"), page{classes: []string{"header_too_large"}})
	add("endless header lines", nil, rawFlood(htmlHead, "X: y\r\n"), page{classes: []string{"header_too_large"}})
	add("short body", nil, rawText(htmlHead+"Content-Length: 500\r\n\r\n<p>hello"), page{status: 200, classes: []string{"eof", "reset"}})
	add("long body", nil, rawText(htmlHead+"Content-Length: 5\r\n\r\nhello, this is more"), page{status: 200})
	add("two lengths", nil, rawText(htmlHead+"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), page{classes: []string{"protocol"}})
	add("broken chunks", nil, rawText(htmlHead+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"), page{status: 200, classes: []string{"protocol"}})
	add("no HTTP", nil, rawText("220 mail.example ESMTP\r\n"), page{classes: []string{"protocol"}})
	add("closed at once", nil, rawText(""), page{classes: []string{"eof", "reset"}})
	charset := add("unknown charset", nil, func(c net.Conn, _ string) bool {
		const body = "\xe9\xff\x80<a href=/next>\xc3\x28</a>\xf0"
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\"klingon\xff\"\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return err == nil
	}, page{status: 200, links: 1})
	add("binary", nil, func(c net.Conn, _ string) bool { return rawPage(c, "", string(binary)) },
		page{status: 200, reason: "binary labelled as HTML"})
	many := add("a million links", nil, func(c net.Conn, path string) bool {
		if path != "/" {
			_, err := io.WriteString(c, rawNotFound)
			return err == nil
		}
		return rawPage(c, "Content-Encoding: gzip\r\n", million)
	}, page{status: 200, links: 1_000_000})
	calendar := add("calendar", nil, func(c net.Conn, path string) bool {
		var day int
		fmt.Sscanf(path, "/day/%d", &day)
		return rawPage(c, "", fmt.Sprintf("<a href=/day/%d>next</a><a href=/day/%d>later</a>", day+1, day+7))
	}, page{status: 200, links: 2})
	loop := add("redirect loop", nil, func(c net.Conn, path string) bool {
		to := map[string]string{"/": "/a", "/a": "/b", "/b": "/a"}[path]
		_, err := fmt.Fprintf(c, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", to)
		return err == nil
	}, page{status: 302, links: 1})
	hops := add("redirects without end", nil, func(c net.Conn, path string) bool {
		_, err := fmt.Fprintf(c, "HTTP/1.1 301 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", path+"x")
		return err == nil
	}, page{status: 301, links: 1})
	hugeRobots := add("robots.txt of 50 MB", func(c net.Conn, _ string) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\nUser-agent: *\nDisallow: /private\n")
		rule := "Disallow: /" + strings.Repeat("x", 1000) + "\n"
		for n, err := 0, error(nil); n < 52428800 && err == nil; n += len(rule) {
			_, err = io.WriteString(c, rule)
		}
		return false
	}, func(c net.Conn, _ string) bool { return rawPage(c, "", "<a href=/private/a>") }, page{status: 200, links: 1})
	unread := []string{
		add("robots.txt drips", rawDrip("HTTP/1.1 200 OK\r\n\r\n"), rawText(""), page{status: 200, classes: []string{"too_slow"}, robots: true}),
		add("robots.txt never comes", func(c net.Conn, _ string) bool { io.Copy(io.Discard, c); return false }, rawText(""),
			page{classes: []string{"timeout_header"}, robots: true}),
		add("robots.txt is cut", rawText("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nUser-agent: *\n"), rawText(""),
			page{status: 200, classes: []string{"eof", "reset"}, robots: true}),
	}
	// Nothing there is HTTP over TLS, so robots.txt is asked for again and again, until the host is given up.
	garbage := w.listen("127.0.8.200:0", func(c net.Conn, _ string) {
		c.Read(make([]byte, 1))
		c.Write(binary[:1000])
	})
	pages = append(pages, &page{name: "TLS garbage", url: "https://" + garbage + "/", classes: []string{"tls"}, robots: true, hostDropped: "tls"})
	seedList = append(seedList, "https://"+garbage+"/")
	gone, err := net.Listen("tcp", "127.0.8.201:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	gone.Close()
	pages = append(pages, &page{name: "refused", url: "http://" + nobody + "/", classes: []string{"refused"}, robots: true, hostDropped: "refused"})
	seedList = append(seedList, "http://"+nobody+"/")

	// A name server that never answers about names, and names and redirects that lead inside.
	silent, err := net.ListenPacket("udp", "127.0.8.202:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	rooted := make(chan struct{})
	go func() {
		defer close(rooted)
		answerForRoot(silent)
	}()
	c.Fetch.DNS.Servers, c.Fetch.DNS.Timeout, c.Fetch.DNS.Attempts = []string{silent.LocalAddr().String()}, 50*time.Millisecond, 1
	seedList = append(seedList, "http://silent.test/")
	inside := w.listen("127.0.0.1:0", func(c net.Conn, authority string) { t.Errorf("%s was dialled", authority) })
	_, port, _ := net.SplitHostPort(inside)
	c.Fetch.DNS.Hosts = map[string][]string{"inside.test": {"127.0.0.1"}}
	forbidden := map[string]string{ // host -> how the log names its address
		"inside.test:" + port: "dial 127.0.0.1: loopback",
		inside:                "dial 127.0.0.1: loopback",
		"169.254.169.254":     "dial 169.254.169.254: link local",
		"[::1]:" + port:       "dial ::1: ",
		"10.0.0.1":            "dial 10.0.0.1: private",
	}
	trap := ""
	for host := range forbidden {
		trap += "<a href=http://" + host + "/></a>"
	}

	// The good site beside them: a chain of pages, each with the links of traps, and a redirect inside.
	const goodPages = 40
	good := w.serve(nil, func(c net.Conn, path string) bool {
		if path == "/in" {
			_, err := fmt.Fprintf(c, "HTTP/1.1 302 Found\r\nLocation: http://%s/secret\r\nContent-Length: 0\r\n\r\n", inside)
			return err == nil
		}
		var i int
		fmt.Sscanf(path, "/p%d", &i)
		if i++; i == goodPages {
			i = 0
		}
		return rawPage(c, "", fmt.Sprintf("<a href=/p%d>next</a><a href=/in>in</a>%s", i, trap))
	})
	seedList = append(seedList, "http://"+good+"/p0")

	var mu sync.Mutex
	dialled := map[netip.Addr]int{}
	deps := node.Deps{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialled[netip.MustParseAddrPort(address).Addr()]++
		mu.Unlock()
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	n, err := node.New(c, seeds(t, strings.Join(seedList, "\n")), deps)
	if err != nil {
		t.Fatal(err)
	}
	peak := heapPeak()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	end, err := n.Run(ctx)
	heap := peak()
	silent.Close()
	<-rooted
	w.close()
	if err != nil || end.Reason != "idle" {
		t.Errorf("ended %q: %v", end.Reason, err)
	}
	if heap > 200<<20 {
		t.Errorf("the heap grew to %d MiB", heap>>20)
	}
	t.Logf("%d pages, heap at most %d MiB", end.Pages, heap>>20)
	logs := readLogs(t, n.LogDir())

	for _, p := range pages {
		url, host := p.url, strings.TrimSuffix(p.url, "/")
		if p.robots {
			url += "robots.txt"
			if lines := logs.of(p.url); len(lines) != 0 {
				t.Errorf("%s: %d requests for the page without its robots.txt", p.name, len(lines))
			}
		}
		lines := logs.of(url)
		if len(lines) == 0 {
			t.Errorf("%s: no line", p.name)
			continue
		}
		for _, line := range lines {
			fits := line.Error == "" && p.classes == nil || slices.Contains(p.classes, line.Error)
			if !fits || line.Status != p.status || line.Links != p.links || !strings.Contains(line.Reason, p.reason) ||
				(line.Error != "") != (line.Reason != "" && p.reason == "") {
				t.Errorf("%s: status %d, class %q, links %d, reason %q; want %+v", p.name, line.Status, line.Error, line.Links, line.Reason, *p)
			}
		}
		dropped := logs.about(runlog.EventHostDropped, host)
		if slices.Sort(dropped); strings.Join(slices.Compact(dropped), ", ") != p.hostDropped {
			t.Errorf("%s: host dropped because %q, want %q", p.name, dropped, p.hostDropped)
		}
	}
	for host, want := range forbidden {
		if got := logs.about(runlog.EventHostDropped, "http://"+host); len(got) == 0 || !strings.HasPrefix(got[0], "forbidden address: "+want) {
			t.Errorf("%s: host dropped because %q, want %q", host, got, want)
		}
	}
	for addr := range dialled {
		if !netip.MustParsePrefix(hostilePrefix).Contains(addr) {
			t.Errorf("%v was dialled", addr)
		}
	}
	if got := logs.about(runlog.EventDNS, "http://silent.test"); len(got) != 1+len(c.Politeness.RetryName) {
		t.Errorf("silent name server: DNS events %q", got)
	}
	if got := logs.about(runlog.EventHostDropped, "http://silent.test"); len(got) != 1 || !strings.HasPrefix(got[0], "DNS: ") {
		t.Errorf("silent name server: host dropped because %q", got)
	}

	asked := w.asked(good)
	slices.Sort(asked)
	if want := goodPages + 1; len(asked) != want || len(slices.Compact(asked)) != want {
		t.Errorf("good site: %d requests, want each of %d pages once", len(asked), want)
	}
	for authority, want := range map[string]int{charset: 2, calendar: hostileURLs, many: hostileURLs, loop: 3, hops: c.Scope.MaxHops + 1, hugeRobots: 1} {
		if got := len(w.asked(authority)); got != want {
			t.Errorf("%s: %d requests, want %d", authority, got, want)
		}
	}
	if lines := logs.of("http://" + hugeRobots + "/robots.txt"); len(lines) != 1 || lines[0].Reason != "body cut: length" || lines[0].Bytes > 1<<20 {
		t.Errorf("robots.txt of 50 MB: %+v", lines)
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
	goleak.VerifyNone(t, before)
}
