package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/node"
	"proxima/scripts/lab"
)

// asProgram makes the test binary the program, so that tests can start, signal and kill it.
const asProgram = "PROXIMA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if handled, code := emulate.Child(os.Args[1:]); handled { // the testbed tries out namespaces
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what should come at once or not at all.
const patience = 60 * time.Second

// process is one run of the program.
type process struct {
	*lab.Process
	t        *testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startFor(t, patience, args...)
}

// startFor is start for what takes longer.
func startFor(t *testing.T, atMost time.Duration, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	p := &process{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	var err error
	if p.Process, err = lab.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-p.Ended() })
	return p
}

// want waits for the end and reports another code than the one expected, which is -1 where a signal ends it, or texts missing on the error
// output.
func (p *process) want(code int, texts ...string) {
	p.t.Helper()
	<-p.Ended()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%v: exit %d, want %d\nout: %s\nerr: %s", p.cmd.Args[1:], got, code, &p.out, &p.err)
	}
	holds(p.t, p.err.String(), texts...)
}

// holds reports what a text lacks.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// site is a web site of one host on loopback.
type site struct{ *lab.Site }

func newSite(t *testing.T, pages int, hold func(ctx context.Context, page int)) site {
	t.Helper()
	s, err := lab.Serve(lab.Layout{Hosts: []lab.Host{{Name: "site.test", Addr: "127.0.0.1", Pages: pages}}, Hold: hold}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return site{s}
}

// heldSite is a site that holds the answers of the pages from a number on until release is called.
func heldSite(t *testing.T, pages, from int) (s site, held *atomic.Int64, release func()) {
	released := make(chan struct{})
	held = new(atomic.Int64)
	return newSite(t, pages, func(ctx context.Context, page int) {
		if page >= from {
			held.Add(1)
			select {
			case <-released:
			case <-ctx.Done():
			}
		}
	}), held, func() { close(released) }
}

// wantAll reports pages that were not asked for, and more than so many requests for pages beyond the first for each.
func (s site) wantAll(t *testing.T, again int) {
	t.Helper()
	pages, more := map[string]bool{}, 0
	for _, r := range s.Requests() {
		if pages[r.Path] {
			more++
		}
		if r.Path != "/robots.txt" {
			pages[r.Path] = true
		}
	}
	if len(pages) != s.Hosts[0].Pages || more > again {
		t.Errorf("%d pages, %d again; want %d, at most %d", len(pages), more, s.Hosts[0].Pages, again)
	}
}

// crawl is the command that crawls the site, with further arguments.
func (s site) crawl(t *testing.T, data string, more ...string) []string {
	return append([]string{"node", "-config", config(t, ""), "-data", data, "-allow", "127.0.0.0/8", s.seed()}, more...)
}

// seed is the site's first page under a name.
func (s site) seed() string { return s.URL(0, 0) }

const fetchers = 4

// config writes a configuration for crawls of sites on loopback, with further lines at its end.
func config(t *testing.T, more string) string {
	return file(t, "proxima.toml", fmt.Sprintf(`[crawl]
fetchers = %d
patience = "1s"
[politeness]
own = ["127.0.0.0/8"]
own_parallel = %d
[frontier]
min_free_mib = 0
[fetch.dns]
servers = ["127.0.0.1:9"] # nobody: names come from the table
[fetch.dns.hosts]
"site.test" = ["127.0.0.1"]
"public.test" = ["93.184.215.14"]
%s`, fetchers, fetchers, more))
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// until waits for something that other processes do.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !lab.Within(t.Context(), patience, ok) {
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// call is run in this process: what does not need signals does not need another.
func call(t *testing.T, args ...string) (got int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var o, e bytes.Buffer
	got = code(run(ctx, args, &o, &e), &e)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%v: did not end within %v", args, patience)
	}
	return got, o.String(), e.String()
}

// statusOf returns the status of the node with a data directory. ok is false if it does not answer.
func statusOf(t *testing.T, data string) (st node.Status, ok bool) {
	t.Helper()
	got, out, _ := call(t, "status", "-json", "-data", data)
	return st, got == exitOK && json.Unmarshal([]byte(out), &st) == nil
}

// told runs command lines one after another in this process, and reports another exit code than the one expected. A line has the words of
// the command, with ␣ for a space in one of them, and what it must print: as an error, unless the code is exitOK.
func told(t *testing.T, code int, lines ...[]string) {
	t.Helper()
	for _, line := range lines {
		args := strings.Split(line[0], " ")
		for i, word := range args {
			args[i] = strings.ReplaceAll(word, "␣", " ")
		}
		if line[0] == "" {
			args = nil
		}
		got, out, errs := call(t, args...)
		if got != code || code == exitUsage && out != "" {
			t.Errorf("%q: exit %d, want %d\nout: %s\nerr: %s", args, got, code, out, errs)
		}
		said, wants := errs, line[1:]
		if code == exitOK {
			said = out
		}
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("%q: %q is not in:\n%s", args, want, said)
			}
		}
		if strings.Contains(errs, "Usage:") && !strings.Contains(strings.Join(wants, ""), "Usage:") {
			t.Errorf("%q: a mistake is told in many lines:\n%s", args, errs)
		}
	}
}
