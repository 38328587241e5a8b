package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node"
	"proxima/scripts/lab"
)

func TestCrawlToTheEnd(t *testing.T) {
	s := newSite(t, 40, nil)
	seeds := file(t, "seeds.txt", "# one\n"+s.seed()+"\nhttp://[::1\n")
	got, out, errs := call(t, "node", "-config", config(t, ""), "-data", t.TempDir(), "-allow", "127.0.0.0/8", "-seeds", seeds)
	if got != exitOK {
		t.Fatalf("exit %d\n%s%s", got, out, errs)
	}
	s.wantAll(t, 0)
	_, row, _ := strings.Cut(out, "\n  200 ")
	if n := strings.Fields(row); len(n) == 0 || n[0] != "40" {
		t.Errorf("not 40 answers of 200:\n%s", out)
	}
	holds(t, out, "40 pages in ", "ended: idle", "  answer ")
	holds(t, errs, seeds+": line 3: ", "stop with Ctrl-C")
}

// TestQuietArchives: a quiet crawl says nothing, and leaves a complete archive with its index and its manifest.
func TestQuietArchives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warc")
	got, out, errs := call(t, newSite(t, 5, nil).crawl(t, t.TempDir(), "-quiet", "-warc", dir)...)
	if got != exitOK || out != "" || errs != "" {
		t.Errorf("exit %d, out %q, err %q", got, out, errs)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3 || !strings.HasSuffix(files[0], ".cdxj") || !strings.HasSuffix(files[1], ".warc.gz") ||
		!strings.HasSuffix(files[2], ".warc.json") {
		t.Errorf("%q, %v", files, err)
	}
}

// TestSecondRunGoesOn: with nothing left to do, a further run in the same directory asks for nothing and is no failure.
func TestSecondRunGoesOn(t *testing.T) {
	s, data := newSite(t, 10, nil), t.TempDir()
	for _, c := range []struct {
		more          []string
		done, says    string
		nothing, when bool // whether it says that nothing was left, and which pages are visited again
	}{
		{more: []string{"-max-pages", "4"}, done: "ended: max_pages", says: "unfinished"},
		{done: "ended: idle"},
		{nothing: true},
		{more: []string{"-recrawl", "1s"}, nothing: true, when: true},
	} {
		got, out, errs := call(t, s.crawl(t, data, c.more...)...)
		if got != exitOK || !strings.Contains(out, c.done) || !strings.Contains(out, c.says) {
			t.Fatalf("%+v: exit %d\n%s%s", c, got, out, errs)
		}
		if strings.Contains(errs, "nothing was left to do") != c.nothing || strings.Contains(errs, "only pages fetched with -recrawl") != c.when {
			t.Errorf("%+v:\n%s", c, errs)
		}
	}
	s.wantAll(t, fetchers) // the downloads in progress when the first run had enough were broken off
}

// TestFilesThatAreGone: without its identity a finished crawl is finished; without its seeds it asks for them and goes on.
func TestFilesThatAreGone(t *testing.T) {
	s, data, valid := newSite(t, 10, nil), t.TempDir(), config(t, "[scope]\nseed_scope = \"host\"\n")
	again := []string{"node", "-config", valid, "-data", data, "-allow", "127.0.0.0/8"}
	run := func(want int, says string, args ...string) {
		t.Helper()
		if got, out, errs := call(t, args...); got != want || !strings.Contains(errs, says) {
			t.Errorf("exit %d, want %d and %q\n%s%s", got, want, says, out, errs)
		}
	}
	lose := func(name string) {
		if err := os.Remove(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	run(exitOK, "", append(again, s.seed())...)
	lose("node.json")
	run(exitOK, "nothing was left to do", again...)
	lose("crawl.json")
	run(exitUsage, `scope.seed_scope: "host" needs seeds, and there are none in `+filepath.Join(data, "crawl.json")+": give URLs, or -seeds FILE", again...)
	run(exitOK, "nothing was left to do", append(again, s.seed())...)
	s.wantAll(t, 0)
}

// TestVisitsAreWork: a run that visits pages again has done something.
func TestVisitsAreWork(t *testing.T) {
	s, data := newSite(t, 10, nil), t.TempDir()
	for range 2 {
		got, out, errs := call(t, s.crawl(t, data, "-recrawl", "1ns")...)
		if got != exitOK || !strings.Contains(out, "10 pages in") || strings.Contains(errs, "nothing was left to do") {
			t.Errorf("exit %d\n%s%s", got, out, errs)
		}
	}
}

// TestStatusAndLock: a running node answers, keeps a second from its directory, and says why a host waits.
func TestStatusAndLock(t *testing.T) {
	s, held, release := heldSite(t, 50, 3)
	data := t.TempDir()
	p := start(t, s.crawl(t, data)...)
	until(t, "all fetchers held", func() bool { return held.Load() == fetchers })

	host := strings.Trim(strings.TrimPrefix(s.seed(), "http:"), "/")
	told(t, exitOK, [][]string{
		{"status -json -data " + data, `"pages": 3,`, `"boot": 1,`},
		{"status -data " + data, "boot 1"},
		{"status -data " + data + " " + host, "requests to it are under way"},
	}...)
	if err := run(t.Context(), []string{"status", "-watch", "-data", data}, full{}, io.Discard); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("status -watch onto a full disk: %v", err)
	}
	watching, stop := context.WithCancel(t.Context())
	shown := listener{heard: stop}
	if err := run(watching, []string{"status", "-watch", "-data", data}, &shown, io.Discard); err != nil || strings.Contains(shown.String(), "\x1b") {
		t.Errorf("status -watch into a file: %v: %q", err, &shown.Builder)
	}
	holds(t, shown.String(), "boot 1")
	start(t, s.crawl(t, data)...).want(exitData, "proxima: ", data, "in use by another process")
	release()
	p.want(exitOK)
	s.wantAll(t, 0)
	told(t, exitNoAnswer, []string{"status -data " + data})
}

// listener takes what is printed, and says that something was.
type listener struct {
	strings.Builder
	heard func()
}

func (l *listener) Write(p []byte) (int, error) {
	defer l.heard()
	return l.Builder.Write(p)
}

// TestReplacedDirectory: a node whose directory is replaced ends, and leaves the store and the socket of the node in the new one alone.
func TestReplacedDirectory(t *testing.T) {
	s, held, release := heldSite(t, 50, 3)
	dir := t.TempDir()
	data, next, first, second := filepath.Join(dir, "data"), filepath.Join(dir, "next"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	err := errors.Join(os.Mkdir(first, 0o700), os.MkdirAll(filepath.Join(second, "frontier"), 0o700), os.Symlink(first, data), os.Symlink(second, next))
	for _, name := range []string{"status.sock", "frontier/LOCK"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(second, name), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	old := start(t, s.crawl(t, data)...)
	until(t, "the old node crawls", func() bool { return held.Load() > 0 })
	if err := os.Rename(next, data); err != nil {
		t.Fatal(err)
	}
	old.want(exitFailed, data+"/frontier was replaced while the node ran")
	_, err = os.Stat(filepath.Join(second, "status.sock"))
	if store, err2 := os.ReadDir(filepath.Join(second, "frontier")); errors.Join(err, err2) != nil || len(store) != 1 || store[0].Name() != "LOCK" {
		t.Errorf("in the new directory: %v, %v, %v", store, err, err2)
	}
	release()
	start(t, s.crawl(t, first)...).want(exitOK, "going on with")
	s.wantAll(t, fetchers)
}

// TestGoAlone: a node whose peers never answered says what it waits for, and goes on when it is told to.
func TestGoAlone(t *testing.T) {
	s, data, secret := newSite(t, 3, nil), t.TempDir(), filepath.Join(t.TempDir(), "secret")
	told(t, exitOK, []string{"keygen " + secret})
	p := start(t, s.crawl(t, data, "-secret", secret, "-listen", "127.0.0.1:0", "-gossip", "127.0.0.1:0", "-join", "127.0.0.1:9")...)
	status := func() (o node.OverlayStatus) {
		if st, ok := statusOf(t, data); ok && st.Overlay != nil {
			o = *st.Overlay
		}
		return o
	}
	until(t, "it says what it waits for", func() bool { return strings.Contains(status().Reason, "proxima go-alone") })
	told(t, exitOK, []string{"status -data " + data, "crawls nothing: none of the configured or known peers has answered yet: check the addresses, the version, the secret, node.run and member.faster; if"},
		[]string{"go-alone -data " + data, "all members whose votes count answer"})
	if o := status(); !o.Majority || o.Voters != 1 {
		t.Errorf("told to go on alone: %+v", o)
	}
	p.Signal(os.Interrupt)
	p.want(exitStopped)
}

// TestCtl: a running node is paused, given a seed, told to drop a host and resumed, and shows its metrics meanwhile.
func TestCtl(t *testing.T) {
	s, held, release := heldSite(t, 30, 3)
	other, data := newSite(t, 4, nil), t.TempDir()
	free, err := lab.Addresses("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	metrics := free[0]
	p := start(t, "node", "-config", config(t, "[metrics]\nlisten = \""+metrics+"\"\n"), "-data", data, "-allow", "127.0.0.0/8", s.seed())
	until(t, "it crawls", func() bool { return held.Load() > 0 })
	at := " -data " + data
	told(t, exitOK, []string{"ctl" + at + " pause", "paused"})
	release()
	until(t, "its requests have ended", func() bool {
		st, ok := statusOf(t, data)
		return ok && st.Frontier.InFlight == 0
	})
	told(t, exitOK, [][]string{
		{"status" + at, " · paused by its operator"},
		{"status" + at + " " + strings.TrimSuffix(s.seed(), "/"), ": no request begins: paused by its operator", "more on disk: no"},
		{"ctl" + at + " seed " + other.seed(), "added"},
		{"ctl" + at + " blocks", "nothing is blocked"},
		{"ctl" + at + " requests", "nobody has asked"},
		{"ctl" + at + " block -why asked␣us␣to BAD.test 192.0.2.0/24", "bad.test: blocked on all nodes", "192.0.2.0/24: blocked on all nodes"},
		{"ctl" + at + " unblock 192.0.2.0/24", "unblocked on all nodes"},
		{"ctl" + at + " blocks", "bad.test ", "by operator", "asked us to"},
		{"ctl" + at + " block bad.test", "bad.test: was already blocked"},
		{"status" + at + " www.bad.test:8080", "http://www.bad.test:8080: blocked: bad.test"},
		{"ctl" + at + " unblock Never.test", "never.test: was not blocked"},
		{"ctl" + at + " snapshot", `"hosts":2,"urls":`},
		{"ctl" + at + " set crawl.patience 1h", "crawl.patience: set"},
		{"ctl" + at + " retry " + strings.TrimSuffix(other.seed(), "/"), "asked again"},
		{"ctl" + at + " profile goroutine", "\x1f\x8b"},
		{"members" + at, "alive"},
		{"top" + at, "\n0 kinds of errors\n"},
		{"top" + at + " hosts", " hosts\n", " no request begins: paused by its operator"},
		{"top" + at + " servers", fmt.Sprintf("1 server; no request begins: paused by its operator (proxima ctl resume lets it go on)\n  %6d hosts  %-40s asked again in", 2, "127.0.0.1")},
	}...)
	told(t, exitFailed, [][]string{
		{"ctl" + at + " drop nobody.test", "nobody has heard of it"},
		{"status" + at + " nobody.test noone.test", "nobody.test: it has no URLs here", "(HOST:PORT)", "noone.test: it has no URLs here"},
		{"ctl" + at + " move a.test x", "crawls alone"},
		{"ctl" + at + " drain", "crawls alone"},
		{"ctl" + at + " rotate", "crawls alone"},
		{"ctl" + at + " profile x", "no profile"},
		{"ctl" + at + " block *", `"*"`},
		{"rtt" + at + "  zz", `0 members have an id that begins with "zz"`},
		{"rtt" + at + "  ", "to itself"},
		{"go-alone" + at, "waits for nobody"},
	}...)
	res, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	holds(t, string(text), "\nproxima_paused 1\n", "\nproxima_pending_urls ", "\ngo_goroutines ")
	set := []string{"ctl" + at + " set crawl.fetchers 5", "crawl.fetchers: set"}
	told(t, exitOK, set, []string{"ctl" + at + " reload", "crawl.fetchers: set"}, set)
	p.Signal(syscall.SIGHUP)
	until(t, "it has read its file again", func() bool {
		log, err := os.ReadFile(filepath.Join(data, "logs", "node.jsonl"))
		return err == nil && strings.Contains(string(log), `"reason":"reload","by":"SIGHUP"`)
	})
	told(t, exitOK, []string{"ctl" + at + " resume", "resumed"})
	p.want(exitOK)
	s.wantAll(t, 0)
	other.wantAll(t, 0)
}

func TestDamagedDirectory(t *testing.T) {
	s, data := newSite(t, 5, nil), t.TempDir()
	if got, out, errs := call(t, s.crawl(t, data)...); got != exitOK {
		t.Fatalf("exit %d\n%s%s", got, out, errs)
	}
	for _, damage := range []struct{ file, text string }{
		{"frontier/MANIFEST", "this is no manifest of anybody"},
		{"frontier/MANIFEST", ""},
		{"frontier/KEYREGISTRY", "nonsense"},
		{"node.json", "{"},
		{"node.json", `{"id":"0123`},
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, damage.file), []byte(damage.text), 0o600); err != nil {
			t.Fatal(err)
		}
		start(t, s.crawl(t, copied)...).want(exitData, "proxima: ", copied, "damaged")
	}
}

// TestInterruptWhileAFileIsRead: one Ctrl-C is enough, although nothing comes from the pipe.
func TestInterruptWhileAFileIsRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{
		{"node", "-data", t.TempDir(), "-seeds", pipe}, {"node", "-config", pipe}, {"ctl", "-config", pipe, "pause"},
		{"config", "-check", pipe}, {"config", "-diff", pipe}, {"config", "-for", "a.test", "-config", pipe},
	} {
		p := start(t, args...)
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program reads
		if err != nil {
			t.Fatal(err)
		}
		p.Signal(syscall.SIGINT)
		p.want(exitStopped)
		f.Close()
	}
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
	if got := code(run(ctx, []string{"ctl", "-data", data, "seed", "a.test", "-"}, io.Discard, io.Discard), io.Discard); got != exitStopped {
		t.Errorf("exit %d, want %d", got, exitStopped)
	}
}

// TestInterrupt: Ctrl-C ends the crawl soon and in order, though a server does not answer; the next run goes on.
func TestInterrupt(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			s, held, release := heldSite(t, 60, 21)
			data := t.TempDir()
			p := start(t, s.crawl(t, data)...)
			until(t, "all fetchers held", func() bool { return held.Load() == fetchers })
			begin := time.Now()
			for range 2 { // as timeout(1) does; a second one kills only later
				if err := p.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			p.want(exitStopped)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v to stop", took)
			}
			holds(t, p.out.String(), "ended: stopped", "run the same command again to go on")
			release()
			start(t, s.crawl(t, data)...).want(exitOK)
			s.wantAll(t, fetchers)
		})
	}
}

// TestInterruptWithoutReader: Ctrl-C also ends the program that the output is piped to. The crawl stops in order all the same.
func TestInterruptWithoutReader(t *testing.T) {
	s, held, release := heldSite(t, 60, 21)
	defer release()
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], s.crawl(t, t.TempDir())...)
	cmd.Env, cmd.Stdout = append(os.Environ(), asProgram+"=1"), out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "all fetchers held", func() bool { return held.Load() == fetchers })
	if err := errors.Join(reader.Close(), cmd.Process.Signal(os.Interrupt)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state says all
	if got := cmd.ProcessState.ExitCode(); got != exitStopped {
		t.Errorf("%v, want exit %d", cmd.ProcessState, exitStopped)
	}
}

// TestKill: a kill at any moment loses no page, and repeats no more than what was under way.
func TestKill(t *testing.T) {
	const kills, step = 3, 80
	var asked, most atomic.Int64 // no page beyond the most is answered, so that no crawl ends before its kill
	s := newSite(t, 400, func(ctx context.Context, _ int) {
		if asked.Add(1) > most.Load() {
			<-ctx.Done()
		}
	})
	data := t.TempDir()
	for i := range kills {
		most.Store(asked.Load() + step + step/2)
		seen := s.Finished()
		p := start(t, s.crawl(t, data)...)
		until(t, fmt.Sprintf("kill %d", i+1), func() bool { return s.Finished() >= seen+step })
		p.Kill()
		p.want(-1)
	}
	most.Store(math.MaxInt64)
	if _, err := os.Stat(filepath.Join(data, "status.sock")); err != nil {
		t.Errorf("the killed node left no socket, so nothing was tested: %v", err)
	}
	start(t, s.crawl(t, data)...).want(exitOK, "going on with")
	s.wantAll(t, kills*fetchers)
}

// TestHostWithoutServer: a host that was not looked up yet has no server.
func TestHostWithoutServer(t *testing.T) {
	var out strings.Builder
	showHost(&out, frontier.HostStatus{Known: true})
	if !strings.Contains(out.String(), "server not known yet, ") {
		t.Error(out.String())
	}
}
