package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxima/node"
)

func TestCrawlToTheEnd(t *testing.T) {
	s := newSite(t, 40, nil)
	seeds := file(t, "seeds.txt", "# one\n"+s.seed(t)+"\nhttp://[::1\n")
	got, out, errs := call(t, "node", "-config", config(t, ""), "-data", t.TempDir(), "-allow", "127.0.0.0/8", "-seeds", seeds)
	if got != exitOK {
		t.Fatalf("exit %d\n%s%s", got, out, errs)
	}
	if pages, again := s.asked(); pages != s.pages || again != 0 {
		t.Errorf("%d pages asked for, %d of them again; want %d, 0", pages, again, s.pages)
	}
	for _, text := range []string{"40 pages in ", "ended: idle", "  answer ", "\n  200 "} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in the summary:\n%s", text, out)
		}
	}
	_, row, _ := strings.Cut(out, "\n  200 ")
	if n := strings.Fields(row); len(n) == 0 || n[0] != "40" {
		t.Errorf("not 40 answers of 200:\n%s", out)
	}
	for _, text := range []string{seeds + ": line 3: ", "stop with Ctrl-C"} {
		if !strings.Contains(errs, text) {
			t.Errorf("%q is not in the error output:\n%s", text, errs)
		}
	}
}

func TestQuietIsQuiet(t *testing.T) {
	s := newSite(t, 3, nil)
	got, out, errs := call(t, "node", "-quiet", "-config", config(t, ""), "-data", t.TempDir(), "-allow", "127.0.0.0/8", s.seed(t))
	if got != exitOK || out != "" || errs != "" {
		t.Errorf("exit %d, out %q, err %q", got, out, errs)
	}
}

// TestSecondRunGoesOn: with nothing left to do, a further run in the same directory asks for nothing and is no failure.
func TestSecondRunGoesOn(t *testing.T) {
	s := newSite(t, 10, nil)
	args := []string{"node", "-config", config(t, ""), "-data", t.TempDir(), "-allow", "127.0.0.0/8", s.seed(t)}
	for i, more := range [][]string{{"-max-pages", "4"}, nil, nil, {"-recrawl", "1s"}} {
		got, out, errs := call(t, append(append([]string{"node"}, more...), args[1:]...)...)
		if said := strings.Contains(errs, "nothing was left to do"); said != (i >= 2) {
			t.Errorf("run %d: says that nothing was left: %v\n%s", i+1, said, errs)
		}
		if said := strings.Contains(errs, "only pages fetched with -recrawl"); said != (i == 3) {
			t.Errorf("run %d: says why no page is visited again: %v\n%s", i+1, said, errs)
		}
		if got != exitOK {
			t.Fatalf("%v: exit %d\n%s%s", more, got, out, errs)
		}
		if i == 0 && (!strings.Contains(out, "ended: max_pages") || !strings.Contains(out, "unfinished")) {
			t.Errorf("%v: %s", more, out)
		}
	}
	// The downloads under way when the first run had enough were broken off.
	if pages, again := s.asked(); pages != s.pages || again > fetchers {
		t.Errorf("%d pages, %d again; want %d, at most %d", pages, again, s.pages, fetchers)
	}
}

// TestPublicAddressNeedsAnOperator: without contact a public address is refused before anything is sent. The name is in
// the table, so not even DNS is asked; node's tests hold that nothing is dialled.
func TestPublicAddressNeedsAnOperator(t *testing.T) {
	for name, more := range map[string][]string{
		"neither": nil, "no from": {"-contact", "https://example.org/bot"}, "no contact": {"-from", "bot@example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"node", "-config", config(t, ""), "-data", t.TempDir()}, more...)
			got, out, errs := call(t, append(args, "http://public.test/")...)
			if got != exitNothing {
				t.Fatalf("exit %d\n%s%s", got, out, errs)
			}
			for _, text := range []string{"say who you are", "-contact", "-from"} {
				if !strings.Contains(errs, text) {
					t.Errorf("%q is not in:\n%s", text, errs)
				}
			}
		})
	}
}

// TestStatusAndLock: a running node answers, keeps a second from its directory, and says why a host waits.
func TestStatusAndLock(t *testing.T) {
	s, held, release := heldSite(t, 50, 3)
	data := t.TempDir()
	args := []string{"node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", s.seed(t)}
	p := start(t, args...)
	until(t, "all fetchers held", func() bool { return held.Load() == fetchers })

	got, out, errs := call(t, "status", "-json", "-data", data)
	var status node.Status
	if err := json.Unmarshal([]byte(out), &status); got != exitOK || err != nil || status.Crawl.Pages < 1 || status.Boot != 1 {
		t.Errorf("exit %d, %v: %s%s", got, err, out, errs)
	}
	if got, out, errs = call(t, "status", "-data", data); got != exitOK || !strings.Contains(out, "boot 1") {
		t.Errorf("exit %d: %s%s", got, out, errs)
	}
	host := strings.Trim(strings.TrimPrefix(s.seed(t), "http:"), "/")
	if got, out, errs = call(t, "status", "-data", data, host); got != exitOK || !strings.Contains(out, "requests to it are under way") {
		t.Errorf("exit %d: %s%s", got, out, errs)
	}

	start(t, args...).want(exitData, "proxima: ", data, "in use by another process")
	release()
	p.want(exitOK)
	if pages, again := s.asked(); pages != s.pages || again != 0 {
		t.Errorf("%d pages, %d again; want %d, 0", pages, again, s.pages)
	}
	if got, _, _ := call(t, "status", "-data", data); got != exitNoAnswer {
		t.Errorf("status of a node that has ended: exit %d", got)
	}
}

// TestGoAlone: a node whose peers never answered says what it waits for, and goes on when it is told to.
func TestGoAlone(t *testing.T) {
	s := newSite(t, 3, nil)
	data, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if got, out, errs := call(t, "keygen", secret); got != exitOK {
		t.Fatalf("exit %d: %s%s", got, out, errs)
	}
	p := start(t, "node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", "-secret", secret, "-listen", "127.0.0.1:0",
		"-gossip", "127.0.0.1:0", "-join", "127.0.0.1:9", s.seed(t))
	status := func() (o node.OverlayStatus) {
		var st node.Status
		if got, out, _ := call(t, "status", "-json", "-data", data); got == exitOK && json.Unmarshal([]byte(out), &st) == nil && st.Overlay != nil {
			o = *st.Overlay
		}
		return o
	}
	until(t, "it says what it waits for", func() bool { return strings.Contains(status().Reason, "proxima go-alone") })
	if _, out, _ := call(t, "status", "-data", data); !strings.Contains(out, "crawls nothing: none of the configured or known peers has answered yet") {
		t.Errorf("status says:\n%s", out)
	}
	if got, out, errs := call(t, "go-alone", "-data", data); got != exitOK || !strings.Contains(out, "sees all members") {
		t.Errorf("exit %d: %s%s", got, out, errs)
	}
	if o := status(); !o.Majority || o.Voters != 1 {
		t.Errorf("told to go on alone: %+v", o)
	}
	p.cmd.Process.Signal(os.Interrupt)
	p.want(exitStopped)

	alone := t.TempDir()
	s, _, release := heldSite(t, 3, 0)
	p = start(t, "node", "-config", config(t, ""), "-data", alone, "-allow", "127.0.0.0/8", s.seed(t))
	until(t, "it answers", func() bool { got, _, _ := call(t, "status", "-data", alone); return got == exitOK })
	if got, _, errs := call(t, "go-alone", "-data", alone); got == exitOK || !strings.Contains(errs, "waits for nobody") {
		t.Errorf("a node without an overlay: exit %d: %s", got, errs)
	}
	release()
	p.want(exitOK)
}

// TestCtl: a running node is paused, given a seed, told to drop a host and resumed, and shows its metrics meanwhile.
func TestCtl(t *testing.T) {
	s, other, data := newSite(t, 30, func(context.Context, int) { time.Sleep(20 * time.Millisecond) }), newSite(t, 4, nil), t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := l.Addr().String()
	l.Close()
	p := start(t, "node", "-config", config(t, "[metrics]\nlisten = \""+metrics+"\"\n"), "-data", data, "-allow", "127.0.0.0/8", s.seed(t))
	ctl := func(words ...string) {
		t.Helper()
		if got, out, errs := call(t, append([]string{"ctl", "-data", data}, words...)...); got != exitOK {
			t.Fatalf("%v: exit %d: %s%s", words, got, out, errs)
		}
	}
	until(t, "it crawls", func() bool { n, _ := s.asked(); return n > 2 })
	ctl("pause")
	if _, out, _ := call(t, "status", "-data", data); !strings.Contains(out, "paused by its operator") {
		t.Errorf("status of a paused node:\n%s", out)
	}
	ctl("seed", other.seed(t))
	res, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	for _, want := range []string{"\nproxima_paused 1\n", "\nproxima_pending_urls ", "\ngo_goroutines "} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("metrics without %q: %v\n%s", want, err, text)
		}
	}
	if got, _, errs := call(t, "ctl", "-data", data, "drop", "nobody.test"); got == exitOK || !strings.Contains(errs, "nobody has heard of it") {
		t.Errorf("an unknown host: exit %d: %s", got, errs)
	}
	for words, want := range map[string]string{"blocks": "nothing is blocked", "requests": "nobody has asked"} {
		if _, out, errs := call(t, "ctl", "-data", data, words); !strings.Contains(out, want) {
			t.Errorf("no %s: %s%s", words, out, errs)
		}
	}
	ctl("block", "-why", "asked us to", "BAD.test", "192.0.2.0/24")
	ctl("unblock", "192.0.2.0/24")
	for words, want := range map[string]string{
		"blocks": "by operator", "block bad.test": "bad.test: was already blocked", "snapshot": `"hosts":2,"urls":`,
		"unblock Never.test":                              "never.test: was not blocked",
		"set crawl.patience 1h":                           "crawl.patience: set",
		"retry " + strings.TrimSuffix(other.seed(t), "/"): "asked again", "profile goroutine": "\x1f\x8b",
	} {
		if got, out, errs := call(t, append([]string{"ctl", "-data", data}, strings.Fields(words)...)...); got != exitOK || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d: %s%s", words, got, out, errs)
		}
	}
	for words, want := range map[string]string{"members": "alive", "top": " kinds of errors", "top hosts": " hosts\n", "top servers": fmt.Sprintf("1 server\n  %6d hosts  %-40s asked again in", 2, "127.0.0.1")} {
		if got, out, errs := call(t, append(strings.Fields(words), "-data", data)...); got != exitOK || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d: %s%s", words, got, out, errs)
		}
	}
	if got, _, errs := call(t, "rtt", "-data", data, "", "zz"); got == exitOK || !strings.Contains(errs, `0 members have an id that begins with "zz"`) {
		t.Errorf("rtt of an unknown node: exit %d: %s", got, errs)
	}
	for words, want := range map[string]string{"move a.test x": "crawls alone", "drain": "crawls alone", "rotate": "crawls alone", "profile x": "no profile", "block *": `"*"`} {
		if got, out, errs := call(t, append([]string{"ctl", "-data", data}, strings.Fields(words)...)...); got == exitOK || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s%s", words, got, out, errs)
		}
	}
	ctl("set", "crawl.fetchers", "5")
	if _, out, _ := call(t, "ctl", "-data", data, "reload"); !strings.Contains(out, "crawl.fetchers: set") {
		t.Errorf("reload says %q", out)
	}
	ctl("set", "crawl.fetchers", "5")
	p.cmd.Process.Signal(syscall.SIGHUP)
	until(t, "it has read its file again", func() bool {
		log, err := os.ReadFile(filepath.Join(data, "logs", "node.jsonl"))
		return err == nil && strings.Contains(string(log), `"reason":"reload","by":"SIGHUP"`)
	})
	ctl("resume")
	p.want(exitOK)
	for _, site := range []*site{s, other} {
		if pages, again := site.asked(); pages != site.pages || again != 0 {
			t.Errorf("%d pages of %d, %d again", pages, site.pages, again)
		}
	}
}

func TestDamagedDirectory(t *testing.T) {
	s := newSite(t, 5, nil)
	for name, c := range map[string]struct {
		file   string
		damage func(text []byte) []byte
	}{
		"garbled manifest":  {"frontier/MANIFEST", func([]byte) []byte { return []byte("this is no manifest of anybody") }},
		"empty manifest":    {"frontier/MANIFEST", func([]byte) []byte { return nil }},
		"garbled key files": {"frontier/KEYREGISTRY", func([]byte) []byte { return []byte("nonsense") }},
		"garbled node id":   {"node.json", func([]byte) []byte { return []byte("{") }},
		"cut node id":       {"node.json", func(text []byte) []byte { return text[:len(text)/2] }},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			args := []string{"node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", s.seed(t)}
			if got, out, errs := call(t, args...); got != exitOK {
				t.Fatalf("exit %d\n%s%s", got, out, errs)
			}
			path := filepath.Join(data, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			start(t, args...).want(exitData, "proxima: ", data, "damaged")
		})
	}
}

// TestInterruptWhileSeedsAreRead: one Ctrl-C is enough, although nothing comes from the pipe.
func TestInterruptWhileSeedsAreRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	p := start(t, "node", "-data", t.TempDir(), "-seeds", pipe)
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program reads
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.cmd.Process.Signal(syscall.SIGINT)
	p.want(exitStopped)
}

// TestInterruptWhileCtlReadsSeeds: the same for a list that is to be given to a running node.
func TestInterruptWhileCtlReadsSeeds(t *testing.T) {
	data, stdin := t.TempDir(), os.Stdin
	node, err := net.Listen("unix", filepath.Join(data, "status.sock")) // which waits for the list
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	list, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdin = list
	defer func() { os.Stdin = stdin; hold.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel) // whether it reads by then or not
	if got := code(run(ctx, []string{"ctl", "-data", data, "seed", "-"}, io.Discard, io.Discard), io.Discard); got != exitStopped {
		t.Errorf("exit %d, want %d", got, exitStopped)
	}
}

// TestInterrupt: Ctrl-C ends the crawl soon and in order, though a server does not answer; the next run goes on.
func TestInterrupt(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			s, held, release := heldSite(t, 60, 21)
			data := t.TempDir()
			args := []string{"node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", s.seed(t)}
			p := start(t, args...)
			until(t, "all fetchers held", func() bool { return held.Load() == fetchers })
			begin := time.Now()
			for range 2 { // as timeout(1) does; a second one kills only later
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			p.want(exitStopped)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v to stop", took)
			}
			for _, text := range []string{"ended: stopped", "run the same command again to go on"} {
				if !strings.Contains(p.out.String(), text) {
					t.Errorf("%q is not in the summary:\n%s", text, &p.out)
				}
			}
			release()
			start(t, args...).want(exitOK)
			if pages, again := s.asked(); pages != s.pages || again > fetchers {
				t.Errorf("%d pages, %d again; want %d, at most %d", pages, again, s.pages, fetchers)
			}
		})
	}
}

// TestKill: a kill at any moment loses no page, and repeats no more than what was under way.
func TestKill(t *testing.T) {
	const kills = 3
	s := newSite(t, 400, func(context.Context, int) { time.Sleep(2 * time.Millisecond) })
	data := t.TempDir()
	args := []string{"node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", s.seed(t)}
	for i := range kills {
		p := start(t, args...)
		until(t, fmt.Sprintf("kill %d", i+1), func() bool { n, _ := s.asked(); return n >= (i+1)*80 })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.want(-1)
	}
	if _, err := os.Stat(filepath.Join(data, "status.sock")); err != nil {
		t.Errorf("the killed node left no socket, so nothing was tested: %v", err)
	}
	p := start(t, args...)
	p.want(exitOK)
	if pages, again := s.asked(); pages != s.pages || again > kills*fetchers {
		t.Errorf("%d pages, %d again; want %d, at most %d", pages, again, s.pages, kills*fetchers)
	}
	if !strings.Contains(p.err.String(), "going on with") {
		t.Errorf("the last life says nothing of those before:\n%s", &p.err)
	}
}

// TestWARC: the flag leaves complete archives behind.
func TestWARC(t *testing.T) {
	s := newSite(t, 5, nil)
	dir := filepath.Join(t.TempDir(), "warc")
	got, out, errs := call(t, "node", "-config", config(t, ""), "-data", t.TempDir(), "-allow", "127.0.0.0/8", "-warc", dir, s.seed(t))
	if got != exitOK {
		t.Fatalf("exit %d\n%s%s", got, out, errs)
	}
	files, err := fs.Glob(os.DirFS(dir), "*")
	slices.Sort(files)
	if err != nil || len(files) != 3 || !strings.HasSuffix(files[0], ".cdxj") || !strings.HasSuffix(files[1], ".warc.gz") || !strings.HasSuffix(files[2], ".warc.json") {
		t.Errorf("%v, %v: want an archive with its index and its manifest", files, err)
	}
}
