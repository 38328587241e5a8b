package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/cmd/proxima/terminal"
	"proxima/frontier"
	"proxima/node"
	"proxima/node/crawl"
	"proxima/node/lease"
	"proxima/node/peer"
	"proxima/node/sink"
)

func TestCommandLines(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	valid := config(t, "") // it knows no name server: what is not refused, stays on this machine
	empty := file(t, "empty.txt", "# nothing\n\n")
	bad := file(t, "bad.txt", "http://[::1\nmailto:me@example.org\n")
	open := file(t, "open", "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	twice, option := file(t, "twice.hosts", "a\nb\nroot@a\n"), file(t, "option.hosts", "-oProxyCommand=date\n")
	broken := file(t, "broken.toml", "[crawl]\n\nfetchers = 0\n")
	crawl := "node -config " + valid + " -data " + none
	told(t, exitOK, [][]string{
		{"help", "Usage: proxima COMMAND"},
		{"-h", "Usage: proxima COMMAND"},
		{"help help", "Usage: proxima COMMAND"},
		{"help node", "Usage: proxima node", "-max-pages"},
		{"node -h", "Usage: proxima node", "-max-pages", "Exit codes"},
		{"help ctl pause", "Usage: proxima ctl"},
		{"-v", "proxima ", "go1"},
		{"--version", "proxima ", "go1"},
		{"config -check " + valid, "is valid"},
		{"config -short", "[crawl]", "max_pages = 0", "# contact"},
		{"config -diff ../../node/default.toml", "nothing differs"},
		{"config -diff " + empty, "nothing differs"},
		{"config -diff " + valid, "crawl.fetchers = 4 # default 64", `fetch.dns.hosts."site.test" = ["127.0.0.1"] # default none`},
	}...)
	told(t, exitUsage, [][]string{
		// Commands
		{"", "Usage: proxima COMMAND", "node", "status", "config"},
		{"crawl", `proxima: unknown command "crawl" (proxima help)`},
		{"nodes", `unknown command "nodes": did you mean proxima node?`},
		{"crawl http://a.test/", `unknown command "crawl": did you mean proxima node http://a.test/?`},
		{"fleet deploi", `unknown command "fleet deploi": did you mean proxima fleet deploy?`},
		{"fleet tent", `unknown command "fleet tent" (proxima fleet help)`},
		{"help nod", `unknown command "nod": did you mean proxima node?`},
		{"version x", `version takes no arguments, got "x"`},
		{"go-alone x", `got "x" (proxima go-alone -h lists the flags)`},
		{"rtt -data " + none + " a", "rtt takes two nodes"},
		{"top -data " + none + " pages", `not "pages"`},
		{"ctl", "ctl takes pause, resume, seed, drop, block,"},
		{"ctl stop", `ctl does not take "stop"`},
		{"ctl paus", `ctl does not take "paus": did you mean pause?`},
		{"ctl pause a.test", `write proxima ctl pause, not "pause a.test" (proxima ctl -h)`},
		{"ctl seed", `write proxima ctl seed URL..., not "seed" (proxima ctl -h)`},
		{"ctl move a.test", `write proxima ctl move HOST NODE, not "move a.test"`},
		{"ctl -data " + none + " seed a␣b", "a b"},
		{"ctl -data " + none + " seed " + empty, empty + `" is a file: proxima ctl seed - <FILE adds the URLs in it`},
		// Flags
		{"node -fast", "there is no flag -fast (proxima node -h lists the flags)"},
		{"node --max-page 5", "there is no flag -max-page: did you mean -max-pages?"},
		{"node -data", "needs an argument: -data"},
		{"node -data " + none + " http://a.test/ –max-pages 5", "–max-pages begins with a dash"},
		{crawl + " http://a.test/ -max-pages x", `-max-pages: "x" is not a number`},
		{crawl + " -max-pages 10k a.test", `-max-pages: "10k" is not a number`},
		{crawl + " -nodes 1.5 a.test", `-nodes: "1.5" is not a whole number`},
		{crawl + " -max-bytes 1e9 a.test", `-max-bytes: "1e9" is not a whole number in plain digits`},
		{crawl + " -quiet=yes a.test", `-quiet: "yes" is neither true nor false (proxima node -h lists the flags)`},
		{crawl + " -fetchers 0 a.test", "crawl.fetchers: 0 is not between"},
		{crawl + " -fetchers 99999999999999999999 a.test", `-fetchers: "99999999999999999999" is too large`},
		{crawl + " -fetchers x -max-pages y a.test", "-fetchers", "-max-pages"},
		{crawl + " -max-time 5 a.test", `-max-time: "5" is not a duration: write 90s, 5m or 12h`},
		{crawl + " -scope world a.test", "scope.seed_scope", `"world"`},
		{crawl + " -allow 127.0.0.1 a.test", "fetch.allow_prefixes"},
		{crawl + " -warc= a.test", "-warc: it names no directory"},
		{crawl + " -cpuprofile - a.test", "-cpuprofile: - names no file"},
		{"keygen -", "keygen: - names no file"},
		{crawl + " -data " + t.TempDir() + " -warc " + valid + " a.test", "not a directory"},
		{crawl + " -data " + t.TempDir() + " -warc " + valid + "/below a.test", "not a directory"},
		{crawl + " -warc d -sink file:///d a.test", "node takes -sink or -warc, not both"},
		{crawl + " -listen 127.0.0.1:0 a.test", "-listen is for a node with peers, and these need a common secret (-secret)"},
		{crawl + " -gossip 127.0.0.1:0 a.test", "-gossip is for a node with peers"},
		{crawl + " -secret " + none, "secret file " + none, "proxima keygen " + none + " makes one"},
		{crawl + " -secret " + t.TempDir(), "is no file\n"},
		{crawl + " -secret " + open, "chmod 600 " + open},
		{"status -watch -json -data " + none, "-watch shows the node as a whole"},
		{"status -config " + valid + " -data " + none, "status takes -data or -config, not both"},
		{"fleet status", "-hosts is missing (proxima fleet status -h)"},
		{"fleet stop -hosts " + twice, twice + ":3: a is listed twice, in line 1 too"},
		{"fleet start -wait 5 -hosts " + option, option + `:1: "-oProxyCommand=date" is not [USER@]HOST`},
		{"fleet deploy -seeds " + empty + " -dir / -hosts " + twice, `-dir cannot be "/"`},
		{"fleet deploy -seeds " + empty + " -dir there/.. -hosts " + twice, `-dir cannot be "there/.."`},
		// Seeds
		{crawl, "no seeds"},
		{crawl + " -seeds " + none, none},
		{crawl + " -seeds " + empty, "no seeds: there is no URL in " + empty},
		{crawl + " -seeds " + bad, bad + ": line 1: ", bad + ": line 2: ", "left out", "no seeds"},
		{crawl + " http://[::1", `"http://[::1" is no URL that can be crawled`},
		{crawl + " http://a.test/ 5", `"5" is no URL: write http://5 if it is meant`},
		{crawl + " " + empty, "is a file: -seeds FILE reads URLs from it"},
		{crawl + " " + none, none + "\" is no URL\n"},
		{crawl + " ␣", "\" \" is no URL\n"},
		{crawl + " mailto:me@a.test", `"mailto:me@a.test" cannot be crawled: only http and https can`},
		{crawl + " crawl:80", `"crawl:80" is no URL: write http://crawl:80 if it is meant`},
		{crawl + " ftp://a.test/", `"ftp://a.test/" cannot be crawled: only http and https can`},
		// Configurations
		{"node -config " + none, none},
		{"node -config " + broken + " a.test", broken + ":3: crawl.fetchers: 0"},
		{"go-alone -config " + broken, broken + ":3: crawl.fetchers: 0"},
		{"config -check " + broken, broken + ":3: crawl.fetchers: 0"},
		{"config -check=", "no such file"}, // an unset variable of a script
		{"config -diff=", "no such file"},
		{"config -for=", `"" is no URL`},
		{"config -check " + valid + " -config " + valid, "-config needs -for URL"},
		{"config -check " + valid + " -diff " + valid, "config takes one of -short, -check, -diff and -for"},
		{"config -check " + file(t, "nearly.toml", "[politeness]\nmin_gapp = \"1s\"\n"),
			"nearly.toml:2: politeness.min_gapp: unknown key (did you mean politeness.min_gap?)"},
		{"config -check " + file(t, "section.toml", "[polite]\ngap = \"1s\"\n"), "polite: unknown section (did you mean politeness?)"},
		{"config -check " + file(t, "site.toml", "[[site]]\nhost = \"a.test\"\nbudgt = 5\n"),
			"site[0].budgt: unknown key (did you mean site[0].budget?)"},
	}...)
	told(t, exitFailed,
		[]string{"node -config " + valid + " -data " + empty + " a.test", "data directory " + empty + ": a file is in its place"},
		[]string{"keygen " + empty, empty + " is there already, and is not overwritten: -rotate changes the secret of running nodes"})
	const nobody = "no node is running there: "
	told(t, exitNoAnswer, [][]string{
		{"status -data " + none, nobody + none + " (-data or -config says where else)"},
		{"status -data " + empty, nobody + empty + " (-data"},
		{"status -config " + valid, nobody + "proxima-data"},
		{"status -watch -data " + none, nobody},
		{"status -json -data " + none + " a.test", nobody},
		{"ctl -data " + none + " resume", nobody + none},
		{"go-alone -data " + none, nobody + none},
		{"members -data " + none, nobody},
		{"rtt -data " + none + " a b", nobody},
		{"top -data " + none, nobody},
	}...)
	if _, err := os.Stat(none); err == nil {
		t.Errorf("%s was made, though no command was good", none)
	}
}

// TestHelpFitsATerminal: no line of a help is wider than a table.
func TestHelpFitsATerminal(t *testing.T) {
	helps := [][]string{{"help"}}
	for _, c := range commands() {
		helps = append(helps, []string{c.name, "-h"})
		for _, verb := range c.verbs {
			helps = append(helps, []string{c.name, verb, "-h"})
		}
	}
	for _, args := range helps {
		_, out, _ := call(t, args...)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line) - 1; n > terminal.Width {
				t.Errorf("%v: %d columns: %s", args, n, line)
			}
		}
	}
}

// TestReleasesSayWhatTheyLack: what the README shows first is not in a release.
func TestReleasesSayWhatTheyLack(t *testing.T) {
	for _, c := range labCommands() {
		holds(t, unknown("proxima", []string{c.name}, []string{"node", "config"}), "releases do not have it; build the program from its source")
	}
	holds(t, unknown("proxima fleet", []string{"run", "demo"}, []string{"select"}), `unknown command "fleet run": releases do not have it`)
}

// TestFullDiskIsAnError: what is printed into a file and does not fit there is no success.
func TestFullDiskIsAnError(t *testing.T) {
	for _, args := range [][]string{
		{"config"}, {"config", "-short"}, {"config", "-diff", file(t, "empty.toml", "")}, {"completion", "man"}, {"version"},
		{"help"}, {"help", "node"}, {"status", "-h"}, {"ctl", "-h"}, {"config", "-check", config(t, "")}, {"keygen", filepath.Join(t.TempDir(), "secret")},
	} {
		if err := run(t.Context(), args, full{}, io.Discard); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestNobodyReads: a command whose reader has gone ends like one that SIGPIPE ends, and says nothing.
func TestNobodyReads(t *testing.T) {
	for _, args := range [][]string{{"config"}, {"help"}, {"config", "-h"}, {"testbed", "list"}} {
		var errs strings.Builder
		if got := code(run(t.Context(), args, unread{}, &errs), &errs); got != exitUnread || errs.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, got, errs.String())
		}
	}
	ended := 0
	o := output{Writer: unread{}, unread: func() { ended++ }}
	if _, err := io.WriteString(&o, "x"); err == nil || ended != 1 {
		t.Errorf("%v; told %d times that nobody reads", err, ended)
	}
}

// unread is a pipe that nobody reads.
type unread struct{}

func (unread) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFlagsOverrideTheFile: lists grow, values are replaced, and what no flag names stays.
func TestFlagsOverrideTheFile(t *testing.T) {
	path := file(t, "c.toml", "[crawl]\nfetchers = 8\npatience = \"3s\"\nseeds = [\"a.txt\"]\n[fetch]\nallow_prefixes = [\"10.0.0.0/8\"]\n")
	cfg := configured(t, "-config", path, "-fetchers", "2", "-seeds", "b.txt", "-allow", "127.0.0.0/8,::1/128", "-scope", "host",
		"-contact", "https://example.org/bot", "-from", "bot@example.org", "-max-pages", "5", "-data", "d", "-run", "r", "-warc", "w")
	want := node.Default()
	want.Crawl.Fetchers, want.Crawl.Patience, want.Crawl.Seeds, want.Crawl.MaxPages = 2, 3*time.Second, []string{"a.txt", "b.txt"}, 5
	want.Fetch.AllowPrefixes = []string{"10.0.0.0/8", "127.0.0.0/8", "::1/128"}
	want.Fetch.Contact, want.Fetch.From = "https://example.org/bot", "bot@example.org"
	want.Scope.SeedScope, want.Node.Data, want.Node.Run = "host", "d", "r"
	dir, err := filepath.Abs("w")
	if err != nil {
		t.Fatal(err)
	}
	want.Sink.URL, want.Sink.Formats = "file://"+dir, []string{"warc"}
	if d := cmp.Diff(want, cfg, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestRepeatedFlags: each file of seeds, prefix and peer that is named counts. What is one value is the last.
func TestRepeatedFlags(t *testing.T) {
	cfg := configured(t, "-data", filepath.Join(t.TempDir(), "none"), "-seeds", "a.txt", "-seeds", "b.txt", "-allow", "10.0.0.0/8", "-allow", "127.0.0.0/8,::1/128",
		"-secret", "s", "-join", "192.0.2.1:7946", "-join", "192.0.2.2:7946", "-max-pages", "5", "-max-pages", "6")
	for _, of := range [][2][]string{
		{cfg.Crawl.Seeds, {"a.txt", "b.txt"}},
		{cfg.Fetch.AllowPrefixes, {"10.0.0.0/8", "127.0.0.0/8", "::1/128"}},
		{cfg.Member.Join, {"192.0.2.1:7946", "192.0.2.2:7946"}},
	} {
		if !slices.Equal(of[0], of[1]) {
			t.Errorf("%q, want %q", of[0], of[1])
		}
	}
	if cfg.Crawl.MaxPages != 6 {
		t.Errorf("%d pages, want the last", cfg.Crawl.MaxPages)
	}
}

// TestEmptyFileChangesNothing: a node that runs takes an empty file for one that is being written, and a file with a comment for defaults.
func TestEmptyFileChangesNothing(t *testing.T) {
	flags := newFlags("node", io.Discard, "", "")
	path := file(t, "c.toml", "")
	if _, err := configure(t.Context(), path, flags.FlagSet); err != nil {
		t.Errorf("at the start: %v", err)
	}
	if _, err := reread(t.Context(), path, flags.FlagSet); err == nil || !strings.Contains(err.Error(), path+" is empty") {
		t.Errorf("while it runs: %v", err)
	}
	if cfg, err := reread(t.Context(), file(t, "d.toml", "# nothing\n"), flags.FlagSet); err != nil || cmp.Diff(node.Default(), cfg, cmpopts.EquateEmpty()) != "" {
		t.Errorf("a comment: %v", err)
	}
}

// TestStartsWithoutConfiguration: who names a site means that site, until he says otherwise. A start that says nothing goes on as the last one
// did, in its scope, with its sender and with what it allowed.
func TestStartsWithoutConfiguration(t *testing.T) {
	dir := t.TempDir()
	want := func(scope, from string, allowed []string, args ...string) node.Config {
		t.Helper()
		cfg := configured(t, append(args, "-data", dir)...)
		if cfg.Scope.SeedScope != scope || cfg.Fetch.From != from || !slices.Equal(cfg.Fetch.AllowPrefixes, allowed) {
			t.Errorf("%q: scope %q from %q, allowed %q; want %q, %q, %q", args, cfg.Scope.SeedScope, cfg.Fetch.From, cfg.Fetch.AllowPrefixes, scope, from, allowed)
		}
		return cfg
	}
	want("host", "", nil)
	both := []string{"10.0.0.0/8", "127.0.0.0/8"}
	cfg := want("domain", "a@b.test", both, "-scope", "domain", "-contact", "https://b.test/bot", "-from", "a@b.test", "-allow", "10.0.0.0/8,127.0.0.0/8")
	seeds, err := readSeeds(cfg, []string{"http://a.test/"}, strings.NewReader(""), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(cfg, seeds, node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Run(over); err != nil {
		t.Fatal(err)
	}
	if now := want("domain", "a@b.test", both); now.Fetch.Contact != "https://b.test/bot" {
		t.Errorf("the contact is %q", now.Fetch.Contact)
	}
	want("any", "c@d.test", []string{"::1/128"}, "-scope", "any", "-from", "c@d.test", "-allow", "::1/128")
}

// TestPeersBringSeeds: a node that has peers may begin without a seed of its own, as the second of the README does.
func TestPeersBringSeeds(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := peer.Keygen(secret); err != nil {
		t.Fatal(err)
	}
	cfg := configured(t, "-data", filepath.Join(t.TempDir(), "none"), "-secret", secret, "-join", "127.0.0.1:7945")
	if seeds, err := readSeeds(cfg, nil, strings.NewReader(""), io.Discard); err != nil || len(seeds) != 0 {
		t.Errorf("%v, %v", seeds, err)
	}
}

// TestSeedsOnInput: "-" stands for the standard input, among the arguments and for a file; what is no URL there is left out aloud.
func TestSeedsOnInput(t *testing.T) {
	cfg := configured(t, "-data", t.TempDir())
	var said strings.Builder
	seeds, err := readSeeds(cfg, []string{"http://a.test/", "-", "localhost:80"}, strings.NewReader("# comment\nb.test\nmailto:x\n"), &said)
	if err != nil || len(seeds) != 3 || !strings.Contains(said.String(), "standard input: line 3") {
		t.Errorf("%v, %v, %q", seeds, err, said.String())
	}
	// Of very many such lines the first are shown, and the others counted.
	said.Reset()
	if _, err := readSeeds(cfg, []string{"b.test", "-"}, strings.NewReader(strings.Repeat("mailto:x\n", 1000)), &said); err != nil ||
		!strings.HasSuffix(said.String(), "left out\nstandard input: and 980 more: left out\n") {
		t.Errorf("%v, %q", err, said.String())
	}
}

// TestNothingCrawledSaysWhy: with the flag that allows what was refused. Without contact a public address is refused before anything is
// sent. The name is in the table, so not even DNS is asked; node's tests hold that nothing is dialled.
func TestNothingCrawledSaysWhy(t *testing.T) {
	crawl := func(more string) string {
		return "node -quiet -config " + config(t, "") + " -data " + t.TempDir() + " " + more
	}
	const who = "before public web sites may be asked, say who you are: -contact (the URL of a page about your crawl) and -from"
	told(t, exitNothing, [][]string{
		{crawl("http://127.0.0.1:8080/"), "nothing was crawled: forbidden address", "loopback", "-allow 127.0.0.0/8"},
		{crawl("-allow 127.0.0.0/8 http://127.0.0.1:1/"), "forbidden port; no port that browsers block is asked"},
		{crawl("http://public.test/"), who},
		{crawl("-contact https://example.org/bot http://public.test/"), who},
		{crawl("-from bot@example.org http://public.test/"), who},
	}...)
}

// TestHowACrawlGoesOn: the limits of an overlay count all starts, so that the same command would end at once.
func TestHowACrawlGoesOn(t *testing.T) {
	for _, c := range []struct {
		end  node.End
		want string
	}{
		{node.End{Reason: "max_pages"}, "run the same command again to go on"},
		{node.End{Reason: "stopped", Shared: true}, "run the same command again to go on"},
		{node.End{Reason: "max_pages", Shared: true}, "with a higher crawl.max_pages at all nodes the crawl goes on"},
	} {
		var out strings.Builder
		c.end.Unfinished = 187
		if summarise(&out, c.end); !strings.HasSuffix(out.String(), "unfinished URLs: 187; "+c.want+"\n") {
			t.Errorf("%+v: %s", c.end, &out)
		}
	}
}

// TestNothingCrawledInTime: a limit that ends the crawl before the first page is the reason, and no server is blamed.
func TestNothingCrawledInTime(t *testing.T) {
	end := node.End{Reason: "max_time", Unfinished: 1}
	if got, want := whyNothing(end), "max_time ended the crawl before the first page; run the same command to go on"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var out strings.Builder
	if summarise(&out, end); strings.Contains(out.String(), "answer") {
		t.Errorf("a table without rows:\n%s", &out)
	}
	end.Frontier.Paused = "no name server answers"
	if got := whyNothing(end); !strings.Contains(got, "first page (no name server answers); run") {
		t.Error(got)
	}
}

// TestNothingCrawledNamesTheLog: the kind of a failure is no reason that somebody could mend.
func TestNothingCrawledNamesTheLog(t *testing.T) {
	end := node.End{Reason: "idle", Frontier: frontier.Status{Failing: map[string]frontier.Failing{"tls": {Hosts: 1, First: "https://a.test"}}}}
	end.Rows = map[string]int64{crawl.RowFailure: 2}
	if got, want := whyNothing(end), "tls (https://a.test); fetch.jsonl among the logs says more of each failure"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestStatusTellsOfLinksSetAside: somebody may want to look for what nobody can read.
func TestStatusTellsOfLinksSetAside(t *testing.T) {
	for aside, want := range map[uint64]bool{0: false, 7: true} {
		var out strings.Builder
		showOverlay(&out, &node.OverlayStatus{Outbox: 3, SetAside: aside})
		if strings.Contains(out.String(), "3 links wait for other nodes; 7 are set aside, since they cannot be read\n") != want {
			t.Errorf("%d: %s", aside, out.String())
		}
	}
}

// TestProgressSaysWhy: what most hosts wait for, in words.
func TestProgressSaysWhy(t *testing.T) {
	alone, together := (*node.OverlayStatus)(nil), &node.OverlayStatus{Majority: true}
	restarted := &node.OverlayStatus{Majority: true, Leases: lease.Status{GrantorStatus: lease.GrantorStatus{Blind: 64_400}}}
	hosts := func(kinds map[string]int) frontier.Status { return frontier.Status{Hosts: kinds} }
	for _, c := range []struct {
		want     string
		frontier frontier.Status
		overlay  *node.OverlayStatus
	}{
		{"nothing is waiting", hosts(map[string]int{"idle": 3}), alone},
		{"waiting for politeness", hosts(map[string]int{"idle": 3, "gap": 2, "lease": 1}), alone},
		{"waiting for other nodes, before hosts may be crawled here (proxima top)", hosts(map[string]int{"suspended": 2}), alone},
		{"waiting for the hours of sites", hosts(map[string]int{"hours": 2}), alone},
		{"waiting for leases of servers", hosts(map[string]int{"lease": 2, "batch": 1}), alone},
		{"waiting for leases of servers: what others hold is known in 1m4s", hosts(map[string]int{"lease": 1}), restarted},
		{"waiting for a batch to be decided", hosts(map[string]int{"batch": 2}), alone},
		{"waiting for a fetcher", hosts(map[string]int{"ready": 1}), alone},
		{"waiting for DNS", hosts(map[string]int{"resolving": 1}), alone},
		{"waiting for the disk", frontier.Status{Waiting: true}, alone},
		{"waiting to hear who owns the hosts", frontier.Status{Waiting: true}, together},
		{"nothing is waiting", frontier.Status{}, together},
	} {
		if got := why(node.Status{Frontier: c.frontier, Overlay: c.overlay}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.frontier, got, c.want)
		}
	}
}

// TestSummary: a long reason keeps the numbers of its table in one column, and one package is not several.
func TestSummary(t *testing.T) {
	long := "forbidden address: dial 127.0.0.1: loopback (RFC 1122)"
	var out strings.Builder
	end := node.End{Sink: &sink.Status{To: "file:///x", Packages: 1, Pages: 1}}
	end.Drops = map[string]int64{long: 2, "nofollow": 1}
	summarise(&out, end)
	holds(t, out.String(), fmt.Sprintf("\n  %s %8d\n  %-*s %8d\n", long, 2, len(long), "nofollow", 1), "\n1 package with 1 page (0 B) delivered to file:///x\n")
	out.Reset()
	summarise(&out, node.End{Sink: &sink.Status{To: "file:///x"}})
	if strings.Contains(out.String(), "package") {
		t.Errorf("of no package:\n%s", &out)
	}
}

// TestProgressLine: errors are failures without an answer and statuses from 400 on.
func TestProgressLine(t *testing.T) {
	s := node.Status{Frontier: frontier.Status{Hosts: map[string]int{"idle": 3, "gap": 2}}}
	s.Crawl.Pages, s.Crawl.Rows = 1200, map[string]int64{"200": 1190, "399": 1, "400": 2, "503": 3, crawl.RowDNS: 4}
	s.Frontier.Pending, s.Frontier.Pages, s.Frontier.Due = 7, 9, 8
	const want = "2.5 pages/s · 1,200 pages · 7 queued · 8 due · waiting for politeness · 5 hosts · 9 errors"
	if got := progressLine(s, 2.5); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// configured is what runNode makes of flags.
func configured(t *testing.T, args ...string) node.Config {
	t.Helper()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	path := flags.String("config", "", "")
	overrideFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := configure(t.Context(), *path, flags)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
