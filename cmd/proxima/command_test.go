package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/lease"
	"proxima/node/peer"
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
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // on the error output, or on the other where the code is 0
	}{
		{"nothing", nil, exitUsage, []string{"Usage: proxima COMMAND", "node", "status", "config"}},
		{"help", []string{"help"}, exitOK, []string{"Usage: proxima COMMAND"}},
		{"-h", []string{"-h"}, exitOK, []string{"Usage: proxima COMMAND"}},
		{"unknown command", []string{"crawl"}, exitUsage, []string{`proxima: unknown command "crawl" (proxima help)`}},
		{"nearly a command", []string{"nodes"}, exitUsage, []string{`unknown command "nodes": did you mean proxima node?`}},
		{"another command with a URL", []string{"crawl", "http://a.test/"}, exitUsage, []string{`unknown command "crawl": did you mean proxima node http://a.test/?`}},
		{"help of a command, as a command", []string{"help", "node"}, exitOK, []string{"Usage: proxima node", "-max-pages"}},
		{"help of an act", []string{"help", "ctl", "pause"}, exitOK, []string{"Usage: proxima ctl"}},
		{"help of nearly a command", []string{"help", "nod"}, exitUsage, []string{`unknown command "nod": did you mean proxima node?`}},
		{"help of help", []string{"help", "help"}, exitOK, []string{"Usage: proxima COMMAND"}},
		{"-v", []string{"-v"}, exitOK, []string{"proxima ", "go1"}},
		{"a URL for a command", []string{"http://a.test/"}, exitUsage, []string{"did you mean proxima node http://a.test/?"}},
		{"version of something", []string{"version", "x"}, exitUsage, []string{`version takes no arguments, got "x"`}},
		{"version", []string{"--version"}, exitOK, []string{"proxima ", "go1"}},
		{"help of a command", []string{"node", "-h"}, exitOK, []string{"Usage: proxima node", "-max-pages", "Exit codes"}},
		{"unknown flag", []string{"node", "-fast"}, exitUsage, []string{"there is no flag -fast (proxima node -h lists the flags)"}},
		{"nearly a flag", []string{"node", "--max-page", "5"}, exitUsage, []string{"there is no flag -max-page: did you mean -max-pages?"}},
		{"flag behind a URL", []string{"node", "-config", valid, "-data", none, "http://a.test/", "-max-pages", "x"}, exitUsage, []string{`-max-pages: "x" is not a number`}},
		{"dash that is no hyphen", []string{"node", "-data", none, "http://a.test/", "–max-pages", "5"}, exitUsage, []string{"–max-pages begins with a dash"}},
		{"number for a URL", []string{"node", "-config", valid, "-data", none, "http://a.test/", "5"}, exitUsage, []string{`"5" is no URL: write http://5 if it is meant`}},
		{"word for a URL", []string{"node", "-config", valid, "-data", none, "crawl"}, exitUsage, []string{`"crawl" is no URL`}},
		{"file for a URL", []string{"node", "-config", valid, "-data", none, empty}, exitUsage, []string{"is a file: -seeds FILE reads URLs from it"}},
		{"path for a URL", []string{"node", "-config", valid, "-data", none, none}, exitUsage, []string{none + `" is no URL` + "\n"}},
		{"blank for a URL", []string{"node", "-config", valid, "-data", none, " "}, exitUsage, []string{`" " is no URL` + "\n"}},
		{"mail for a URL", []string{"node", "-config", valid, "-data", none, "mailto:me@a.test"}, exitUsage, []string{`"mailto:me@a.test" cannot be crawled: only http and https can`}},
		{"port of a word", []string{"node", "-config", valid, "-data", none, "crawl:80"}, exitUsage, []string{`"crawl:80" is no URL: write http://crawl:80 if it is meant`}},
		{"another scheme", []string{"node", "-config", valid, "-data", none, "ftp://a.test/"}, exitUsage, []string{`"ftp://a.test/" cannot be crawled: only http and https can`}},
		{"file for a data directory", []string{"node", "-config", valid, "-data", empty, "a.test"}, exitFailed, []string{"data directory " + empty + ": a file is in its place"}},
		{"fleet without hosts", []string{"fleet", "status"}, exitUsage, []string{"-hosts is missing (proxima fleet status -h)"}},
		{"host that is listed twice", []string{"fleet", "stop", "-hosts", twice}, exitUsage, []string{twice + ":3: a is listed twice, in line 1 too"}},
		{"host that is an option", []string{"fleet", "start", "-wait", "5", "-hosts", option}, exitUsage, []string{option + ":1: -oProxyCommand=date is not [USER@]HOST"}},
		{"directory that holds too much", []string{"fleet", "deploy", "-seeds", empty, "-dir", "/", "-hosts", twice}, exitUsage, []string{`-dir cannot be "/"`}},
		{"time without unit", []string{"node", "-config", valid, "-data", none, "-max-time", "5", "a.test"}, exitUsage, []string{`-max-time: "5" is not a duration: write 90s, 5m or 12h`}},
		{"nearly a key", []string{"config", "-check", file(t, "nearly.toml", "[politeness]\nmin_gapp = \"1s\"\n")}, exitUsage,
			[]string{"nearly.toml:2: politeness.min_gapp: unknown key (did you mean politeness.min_gap?)"}},
		{"nearly a section", []string{"config", "-check", file(t, "section.toml", "[polite]\ngap = \"1s\"\n")}, exitUsage,
			[]string{"polite: unknown section (did you mean politeness?)"}},
		{"nearly a key of a site", []string{"config", "-check", file(t, "site.toml", "[[site]]\nhost = \"a.test\"\nbudgt = 5\n")}, exitUsage,
			[]string{"site[0].budgt: unknown key (did you mean site[0].budget?)"}},
		{"flag without value", []string{"node", "-data"}, exitUsage, []string{"needs an argument: -data"}},
		{"unknown flag of status", []string{"status", "-fast"}, exitUsage, []string{"there is no flag -fast (proxima status -h"}},
		{"unknown flag of config", []string{"config", "-fast"}, exitUsage, []string{"there is no flag -fast"}},
		{"arguments of config", []string{"config", "x"}, exitUsage, []string{`got "x"`}},
		{"no number", []string{"node", "-config", valid, "-data", none, "-fetchers", "many", "a.test"}, exitUsage, []string{`-fetchers: "many" is not a number`}},
		{"number with a rest", []string{"node", "-config", valid, "-data", none, "-max-pages", "10k", "a.test"}, exitUsage, []string{`-max-pages: "10k" is not a number`}},
		{"number and line", []string{"node", "-config", valid, "-data", none, "-max-pages", "10\n20", "a.test"}, exitUsage, []string{"is not a number"}},
		{"impossible number", []string{"node", "-config", valid, "-data", none, "-fetchers", "0", "a.test"}, exitUsage, []string{"crawl.fetchers: 0 is not between"}},
		{"huge number", []string{"node", "-config", valid, "-data", none, "-fetchers", "99999999999999999999", "a.test"}, exitUsage, []string{"-fetchers"}},
		{"two wrong flags", []string{"node", "-config", valid, "-data", none, "-fetchers", "x", "-max-pages", "y", "a.test"}, exitUsage, []string{"-fetchers", "-max-pages"}},
		{"no secret", []string{"node", "-config", valid, "-data", none, "-secret", none}, exitUsage, []string{"secret file " + none, "proxima keygen " + none + " makes one"}},
		{"folder for a secret", []string{"node", "-config", valid, "-data", none, "-secret", t.TempDir()}, exitUsage, []string{"is no file\n"}},
		{"secret for all", []string{"node", "-config", valid, "-data", none, "-secret", open}, exitUsage, []string{"chmod 600 " + open}},
		{"secret that is there", []string{"keygen", empty}, exitFailed, []string{empty + " is there already, and is not overwritten: -rotate changes the secret of running nodes"}},
		{"wrong scope", []string{"node", "-config", valid, "-data", none, "-scope", "world", "a.test"}, exitUsage, []string{"scope.seed_scope", `"world"`}},
		{"wrong prefix", []string{"node", "-config", valid, "-data", none, "-allow", "127.0.0.1", "a.test"}, exitUsage, []string{"fetch.allow_prefixes"}},
		{"no config", []string{"node", "-config", none}, exitUsage, []string{none}},
		{"broken config", []string{"node", "-config", broken, "a.test"}, exitUsage, []string{broken + ":3: crawl.fetchers: 0"}},
		{"broken config, checked", []string{"config", "-check", broken}, exitUsage, []string{broken + ":3: crawl.fetchers: 0"}},
		{"no seeds", []string{"node", "-config", valid, "-data", none}, exitUsage, []string{"no seeds"}},
		{"no seeds file", []string{"node", "-config", valid, "-data", none, "-seeds", none}, exitUsage, []string{none}},
		{"seeds file of nothing", []string{"node", "-config", valid, "-data", none, "-seeds", empty}, exitUsage, []string{"no seeds"}},
		{"seeds file of nonsense", []string{"node", "-config", valid, "-data", none, "-seeds", bad}, exitUsage,
			[]string{bad + ": line 1: ", bad + ": line 2: ", "left out", "no seeds"}},
		{"seed of nonsense", []string{"node", "-config", valid, "-data", none, "http://[::1"}, exitUsage, []string{`"http://[::1" is no URL that can be crawled`}},
		{"status of nobody", []string{"status", "-data", none}, exitNoAnswer, []string{"no node is running there: " + none + " (-data or -config says where else)"}},
		{"ctl without an act", []string{"ctl"}, exitUsage, []string{"ctl takes pause, resume, seed, drop, block,"}},
		{"ctl, another act", []string{"ctl", "stop"}, exitUsage, []string{`ctl does not take "stop"`}},
		{"ctl, nearly an act", []string{"ctl", "paus"}, exitUsage, []string{`ctl does not take "paus": did you mean pause?`}},
		{"ctl pause of a host", []string{"ctl", "pause", "a.test"}, exitUsage, []string{`write proxima ctl pause, not "pause a.test" (proxima ctl -h)`}},
		{"ctl seed of nothing", []string{"ctl", "seed"}, exitUsage, []string{`write proxima ctl seed URL..., not "seed" (proxima ctl -h)`}},
		{"ctl move to nowhere", []string{"ctl", "move", "a.test"}, exitUsage, []string{`write proxima ctl move HOST NODE, not "move a.test"`}},
		{"ctl seed of no URL", []string{"ctl", "-data", none, "seed", "a b"}, exitUsage, []string{"a b"}},
		{"ctl of nobody", []string{"ctl", "-data", none, "resume"}, exitNoAnswer, []string{"no node is running there", none}},
		{"go-alone of nobody", []string{"go-alone", "-data", none}, exitNoAnswer, []string{"no node is running there", none}},
		{"go-alone with both", []string{"go-alone", "-data", none, "-config", valid}, exitUsage, []string{"-data or -config"}},
		{"go-alone with arguments", []string{"go-alone", "x"}, exitUsage, []string{`got "x" (proxima go-alone -h lists the flags)`}},
		{"go-alone, broken config", []string{"go-alone", "-config", broken}, exitUsage, []string{broken + ":3: crawl.fetchers: 0"}},
		{"good config, checked", []string{"config", "-check", valid}, exitOK, []string{"is valid"}},
		{"two configs", []string{"config", "-check", valid, "-diff", valid}, exitUsage, []string{"config takes one of -short, -check, -diff and -for"}},
		{"short config", []string{"config", "-short"}, exitOK, []string{"[crawl]", "max_pages = 0", "# contact"}},
		{"config of the default file", []string{"config", "-diff", "../../node/default.toml"}, exitOK, []string{"nothing differs"}},
		{"config without difference", []string{"config", "-diff", empty}, exitOK, []string{"nothing differs"}},
		{"config with differences", []string{"config", "-diff", valid}, exitOK, []string{`crawl.fetchers = 4 # default 64`,
			`fetch.dns.hosts."site.test" = ["127.0.0.1"] # default none`}},
		{"status by config", []string{"status", "-config", valid}, exitNoAnswer, []string{"no node is running there: proxima-data"}},
		{"status of a file", []string{"status", "-data", empty}, exitNoAnswer, []string{"no node is running there: " + empty + " (-data"}},
		{"status, watched as JSON", []string{"status", "-watch", "-json", "-data", none}, exitUsage, []string{"-watch shows the node as a whole"}},
		{"status of nobody, watched", []string{"status", "-watch", "-data", none}, exitNoAnswer, []string{"no node is running there"}},
		{"members of nobody", []string{"members", "-data", none}, exitNoAnswer, []string{"no node is running there"}},
		{"members with arguments", []string{"members", "x"}, exitUsage, []string{`got "x"`}},
		{"rtt of one", []string{"rtt", "-data", none, "a"}, exitUsage, []string{"rtt takes two nodes"}},
		{"rtt of nobody", []string{"rtt", "-data", none, "a", "b"}, exitNoAnswer, []string{"no node is running there"}},
		{"top of something else", []string{"top", "-data", none, "pages"}, exitUsage, []string{`not "pages"`}},
		{"top of nobody", []string{"top", "-data", none}, exitNoAnswer, []string{"no node is running there"}},
		{"status with both", []string{"status", "-config", valid, "-data", none}, exitUsage, []string{"status takes -data or -config, not both"}},
		{"testbed list with arguments", []string{"testbed", "list", "x"}, exitUsage, []string{`got "x"`}},
		{"status of nobody about a host", []string{"status", "-json", "-data", none, "a.test"}, exitNoAnswer, []string{"no node is running there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, out, errs := call(t, c.args...)
			if got != c.code {
				t.Fatalf("exit %d, want %d\n%s%s", got, c.code, out, errs)
			}
			where := errs
			if c.code == exitOK {
				where = out
			}
			if c.code != exitOK && len(c.args) > 0 && strings.Contains(errs, "Usage:") {
				t.Errorf("a mistake is told in many lines:\n%s", errs)
			}
			for _, text := range c.want {
				if !strings.Contains(where, text) {
					t.Errorf("%q is not in:\n%s", text, where)
				}
			}
		})
	}
	if _, err := os.Stat(none); err == nil {
		t.Errorf("%s was made, though no command was good", none)
	}
}

// TestReleasesSayWhatTheyLack: what the README shows first is not in a release.
func TestReleasesSayWhatTheyLack(t *testing.T) {
	for _, c := range labCommands() {
		if got := unknown([]string{c.name}, []string{"node", "config"}); !strings.Contains(got, "releases do not have it; build the program from its source") {
			t.Error(got)
		}
	}
}

// TestExitIsTheProgramsCode: the code of run becomes that of the process.
func TestExitIsTheProgramsCode(t *testing.T) {
	start(t).want(exitUsage, "Usage: proxima COMMAND")
	start(t, "crawl").want(exitUsage, `proxima: unknown command "crawl"`)
	start(t, "status", "-data", t.TempDir()).want(exitNoAnswer, "proxima: no node is running there")
	start(t, "config").want(exitOK)
}

// TestFullDiskIsAnError: what is printed into a file and does not fit there is no success.
func TestFullDiskIsAnError(t *testing.T) {
	for _, args := range [][]string{{"config"}, {"config", "-short"}, {"config", "-diff", file(t, "empty.toml", "")}, {"completion", "man"}} {
		if err := run(t.Context(), args, full{}, io.Discard); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

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

// TestScopeWithoutConfiguration: who names a site means that site, until he says otherwise; a start that says nothing keeps to it.
func TestScopeWithoutConfiguration(t *testing.T) {
	dir := t.TempDir()
	if c := configured(t, "-data", dir); c.Scope.SeedScope != "host" {
		t.Errorf("scope %q, want host", c.Scope.SeedScope)
	}
	if c := configured(t, "-data", dir, "-scope", "any"); c.Scope.SeedScope != "any" {
		t.Errorf("scope %q, want any", c.Scope.SeedScope)
	}
	if err := os.WriteFile(filepath.Join(dir, "crawl.json"), []byte(`{"v":1,"scope":{},"seed_scope":"domain","seeds":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := configured(t, "-data", dir); c.Scope.SeedScope != "domain" {
		t.Errorf("scope %q, want the remembered domain", c.Scope.SeedScope)
	}
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
}

// TestNothingCrawledSaysWhy: with the flag that allows what was refused.
func TestNothingCrawledSaysWhy(t *testing.T) {
	got, _, errs := call(t, "node", "-quiet", "-data", filepath.Join(t.TempDir(), "d"), "http://127.0.0.1:8080/")
	if got != exitNothing || !strings.Contains(errs, "loopback") || !strings.Contains(errs, "-allow 127.0.0.0/8") || strings.Contains(errs, "say who you are") {
		t.Errorf("exit %d: %s", got, errs)
	}
	// A port that nothing may ask: not a page, and no success.
	got, _, errs = call(t, "node", "-quiet", "-allow", "127.0.0.0/8", "http://127.0.0.1:1/", "-data", filepath.Join(t.TempDir(), "d"))
	if got != exitNothing || !strings.Contains(errs, "forbidden port; no port that browsers block is asked") {
		t.Errorf("exit %d: %s", got, errs)
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

// TestProgressSaysWhy: what most hosts wait for, in words.
func TestProgressSaysWhy(t *testing.T) {
	for want, hosts := range map[string]map[string]int{
		"nothing is waiting":     {"idle": 3},
		"waiting for politeness": {"idle": 3, "gap": 2, "lease": 1},
		"waiting for other nodes, before hosts may be crawled here (proxima top)": {"suspended": 2},
		"waiting for the hours of sites":                                          {"hours": 2},
		"waiting for leases of servers":                                           {"lease": 2, "batch": 1},
		"waiting for a batch to be decided":                                       {"batch": 2},
		"waiting for DNS":                                                         {"resolving": 1},
	} {
		if got := why(node.Status{Frontier: frontier.Status{Hosts: hosts}}); got != want {
			t.Errorf("%v: %q, want %q", hosts, got, want)
		}
	}
	onDisk := node.Status{Frontier: frontier.Status{Waiting: true}}
	if got, want := why(onDisk), "waiting for the disk"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	onDisk.Overlay = &node.OverlayStatus{Majority: true}
	if got, want := why(onDisk), "waiting to hear who owns the hosts"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s := node.Status{Frontier: frontier.Status{Hosts: map[string]int{"lease": 1}}, Overlay: &node.OverlayStatus{Majority: true, Leases: lease.Status{GrantorStatus: lease.GrantorStatus{Blind: 64_400}}}}
	if got, want := why(s), "waiting for leases of servers: what others hold is known in 1m4s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgressTakesOneRow: a line that is longer than the terminal is wide leaves no rest behind when the next one replaces it.
func TestProgressTakesOneRow(t *testing.T) {
	const width = 20
	rows, wraps := []string{""}, true
	for _, line := range []string{"1.0 pages/s · 12 pages", "2.0 pages/s · 13 pages", "3.0 pages/s"} {
		rest := inPlace(line)
		for rest != "" {
			last := &rows[len(rows)-1]
			switch {
			case cut(&rest, "\r\x1b[K"):
				*last = ""
			case cut(&rest, "\x1b[?7l"), cut(&rest, "\x1b[?7h"):
				wraps = !wraps
			case utf8.RuneCountInString(*last) < width:
				r, n := utf8.DecodeRuneInString(rest)
				*last, rest = *last+string(r), rest[n:]
			case wraps:
				rows = append(rows, "")
			default:
				_, n := utf8.DecodeRuneInString(rest)
				rest = rest[n:]
			}
		}
	}
	if len(rows) != 1 || rows[0] != "3.0 pages/s" || !wraps {
		t.Errorf("the terminal shows %q, and wraps: %v", rows, wraps)
	}
}

func cut(text *string, prefix string) (found bool) {
	*text, found = strings.CutPrefix(*text, prefix)
	return found
}

// configured is what runNode makes of flags.
func configured(t *testing.T, args ...string) node.Config {
	t.Helper()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	path := flags.String("config", "", "")
	for _, o := range overrides() {
		flags.String(o.name, "", o.usage)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := configure(*path, flags)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
