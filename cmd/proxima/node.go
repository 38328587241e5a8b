package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"proxima/cmd/proxima/terminal"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/peer"
	"proxima/node/runlog"
	"proxima/node/sink"
	"proxima/node/strict"
)

// override is a flag that replaces a key of the configuration. at returns where its value belongs: a pointer, or a function that takes it.
type override struct {
	name, usage string
	at          func(c *node.Config) any
}

// take puts the value of an override where it belongs. A list grows by the parts between commas.
func take(to any, value string) (err error) {
	switch to := to.(type) {
	case *string:
		*to = value
	case *[]string:
		*to = append(*to, strings.Split(value, ",")...)
	case *int:
		*to, err = strconv.Atoi(value)
	case *int64:
		*to, err = strconv.ParseInt(value, 10, 64)
	case *time.Duration:
		if *to, err = time.ParseDuration(value); err != nil {
			return fmt.Errorf("%q is not a duration: write 90s, 5m or 12h", value)
		}
	case func(value string) error:
		return to(value)
	}
	if err != nil {
		return errors.New(strict.NotNumber(value))
	}
	return nil
}

// repeated are the values of a flag that is given several times: lists grow by each of them, of others the last one holds.
type repeated []string

// Set adds a value.
func (r *repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}

// String returns the last value.
func (r *repeated) String() string {
	if len(*r) == 0 {
		return ""
	}
	return (*r)[len(*r)-1]
}

// overrideFlags adds a flag for each override.
func overrideFlags(flags *flag.FlagSet) {
	for _, o := range overrides() {
		flags.Var(new(repeated), o.name, o.usage)
	}
}

// overrides returns the flags that override the configuration file. The configuration checks their values.
func overrides() []override {
	return []override{
		{"data", "data `directory` (node.data)", func(c *node.Config) any { return &c.Node.Data }},
		{"run", "`name` of the crawl in the logs (node.run)", func(c *node.Config) any { return &c.Node.Run }},
		{"seeds", "`file` with one URL per line, in addition to crawl.seeds; may be repeated", func(c *node.Config) any {
			return func(file string) error { c.Crawl.Seeds = append(c.Crawl.Seeds, file); return nil }
		}},
		{"scope", "`what` the seeds bring into scope: any, host, domain or prefix; host without -config, else scope.seed_scope",
			func(c *node.Config) any { return &c.Scope.SeedScope }},
		{"contact", "`URL` of a page that says who crawls and why (fetch.contact)", func(c *node.Config) any { return &c.Fetch.Contact }},
		{"from", "mail `address` of the operator (fetch.from)", func(c *node.Config) any { return &c.Fetch.From }},
		{"allow", "comma-separated address `prefixes` that may be crawled though they are not public (fetch.allow_prefixes)",
			func(c *node.Config) any { return &c.Fetch.AllowPrefixes }},
		{"secret", "`file` of the cluster secret: the node has peers (peer.secret)", func(c *node.Config) any { return &c.Peer.Secret }},
		{"listen", "`host:port` of the peer protocol (peer.listen)", func(c *node.Config) any { return &c.Peer.Listen }},
		{"gossip", "`host:port` of the gossip (member.bind)", func(c *node.Config) any { return &c.Member.Bind }},
		{"join", "comma-separated gossip `addresses` of peers (member.join)", func(c *node.Config) any { return &c.Member.Join }},
		{"console", "`host:port` of a page for a browser; without a host (:8300) only this machine reaches it (console.listen)",
			func(c *node.Config) any { return &c.Console.Listen }},
		{"nodes", "end only after this `number` of nodes were there (termination.expected_nodes)",
			func(c *node.Config) any { return &c.Termination.ExpectedNodes }},
		{"fetchers", "`number` of downloads at once (crawl.fetchers)", func(c *node.Config) any { return &c.Crawl.Fetchers }},
		{"recrawl", "visit once all pages seen longer ago than an `age`, such as 24h (1s: all), and end (recrawl.age)", func(c *node.Config) any {
			return func(age string) error {
				err := take(&c.Recrawl.Age, age)
				if err == nil && c.Recrawl.Age <= 0 {
					err = fmt.Errorf("%q is no age: 1s visits all pages again", age)
				}
				return err
			}
		}},
		{"max-pages", "end after exactly this `number` of pages (crawl.max_pages)", func(c *node.Config) any { return &c.Crawl.MaxPages }},
		{"max-bytes", "end after this `number` of bytes of bodies (crawl.max_bytes)", func(c *node.Config) any { return &c.Crawl.MaxBytes }},
		{"max-time", "end after a `duration` like 90s or 12h (crawl.max_time)", func(c *node.Config) any { return &c.Crawl.MaxTime }},
		{"sink", "`URL` for packages of downloads: file:///dir, https://host/prefix or s3://bucket?endpoint=https://host (sink.url)",
			func(c *node.Config) any { return &c.Sink.URL }},
		{"warc", "`directory` for WARC files: -sink file:///directory with sink.formats = [\"warc\"]", func(c *node.Config) any {
			return func(dir string) error {
				if dir == "" { // otherwise it would be the working directory
					return errors.New("it names no directory")
				}
				dir, err := filepath.Abs(dir)
				c.Sink.URL, c.Sink.Formats = (&url.URL{Scheme: "file", Path: dir}).String(), []string{sink.WARC}
				return err
			}
		}},
	}
}

func runNode(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("node", out, "Usage: proxima node [FLAGS] [URL ...]\n"+
		"Crawls from the URLs and seed files, and goes on where the last run in the same data directory stopped: without -config "+
		"with its -scope, -contact, -from and -allow, too. - stands for a list of URLs on standard input.\n",
		"Exit codes: 0 the crawl ended, 1 it failed, 2 wrong flags or configuration, 3 data directory in use or damaged, "+
			"4 nothing could be crawled, 130 stopped by Ctrl-C or SIGTERM.\n")
	file := flags.String("config", "", "configuration `file` (see proxima config); flags override it")
	quiet := flags.Bool("quiet", false, "print no progress line and no summary")
	profile := flags.String("cpuprofile", "", "write a CPU profile to a `file` (for go tool pprof)")
	overrideFlags(flags.FlagSet)
	urls, err := parse(flags, args)
	if err != nil {
		return err
	}
	if err := checkFile("-cpuprofile", *profile); err != nil {
		return err
	}
	cfg, err := configure(ctx, *file, flags.FlagSet)
	if err != nil {
		return exit{exitUsage, err}
	}
	if cfg.Peer.Secret != "" { // before anything is made
		if _, err := peer.Load(cfg.Peer.Secret); err != nil {
			return exit{exitUsage, err}
		}
	}
	seeds, err := untilStopped(ctx, func() ([]identity.URL, error) { return readSeeds(cfg, urls, os.Stdin, errs) })
	switch {
	case ctx.Err() != nil:
		return exit{code: exitStopped}
	case err != nil:
		return exit{exitUsage, err}
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return exit{exitUsage, fmt.Errorf("-cpuprofile: %w", err)}
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("start profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer close(hangup)
	defer signal.Stop(hangup)
	debug.SetMemoryLimit(int64(cfg.Node.MemoryMiB) << 20)
	said := terminal.New(errs)
	deps := node.Deps{Echo: echo(said, *quiet)}
	if *file != "" {
		deps.Config = func() (node.Config, error) { return reread(ctx, *file, flags.FlagSet) }
	}
	n, err := node.New(cfg, seeds, deps)
	switch {
	case errors.Is(err, frontier.ErrLocked) || errors.Is(err, frontier.ErrDamaged) || errors.Is(err, frontier.ErrOldLayout):
		return exit{exitData, err}
	case errors.Is(err, node.ErrConfig) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		// or about a file or directory that the configuration names
		return exit{exitUsage, err}
	case err != nil:
		return err
	}
	go onHangup(ctx, n, hangup, said)
	return watch(ctx, n, cfg, out, said, *quiet)
}

// onHangup makes a node read its configuration again at each SIGHUP, until the channel is closed. It also keeps the node running when its
// terminal is closed.
func onHangup(ctx context.Context, n *node.Node, hangup <-chan os.Signal, said terminal.Printer) {
	for range hangup {
		changed, refused, err := n.Operator().Reload(ctx, "SIGHUP")
		if err != nil {
			said.Say("SIGHUP: %v; the crawl goes on: stop it by Ctrl-C or SIGTERM", err)
			continue
		}
		said.Say("SIGHUP: configuration read, %d keys set, %d wait for the next start", len(changed), len(refused))
	}
}

// watch runs a node, shows a progress line, and prints the summary. With peers a node may crawl nothing: they may have got everything.
func watch(ctx context.Context, n *node.Node, cfg node.Config, out io.Writer, said terminal.Printer, quiet bool) error {
	var g sync.WaitGroup
	manager := managed(os.Getenv, os.Getpid())
	alive, ended := context.WithCancel(context.WithoutCancel(ctx)) // stopping in order takes time, too
	g.Go(func() { manager.run(alive, func() string { return progressState(n.Status()) }) })
	defer context.AfterFunc(ctx, func() { manager.tell("STOPPING=1") })()
	shown, done := context.WithCancel(ctx)
	if !quiet {
		said.Say("node %.8s; logs in %s; stop with Ctrl-C", n.ID().Node, n.LogDir())
		for _, note := range n.Notes() {
			said.Say("%s", note)
		}
		g.Go(func() { showProgress(shown, n, said) })
	}
	end, err := n.Run(ctx)
	done()
	ended()
	g.Wait()
	if !quiet {
		summarise(out, end)
	}
	again := n.ID().Boot > 1 || end.Frontier.Duplicate > 0 // a new identity, as after a loss of node.json, begins at 1
	switch {
	case err != nil:
		return err
	case end.Pages == 0 && end.NoIdentity:
		return exit{exitNothing, errors.New("nothing was crawled: before public web sites may be asked, say who you are: " +
			"-contact (the URL of a page about your crawl) and -from (your mail address), or fetch.contact and fetch.from")}
	case end.Reason == "stopped":
		return exit{code: exitStopped}
	case again && end.Pages == 0 && end.Frontier.AtStart == 0 && end.Frontier.Accepted == 0 && len(end.SeedsRefused) == 0:
		if !quiet {
			said.Say("nothing was left to do: earlier runs in this data directory crawled, gave up or left out everything")
			if cfg.Recrawl.On() {
				said.Say("and no page is due again: only pages fetched with -recrawl or recrawl.enabled are remembered for that")
			}
		}
	case cfg.Peer.Secret == "" && !answered(end):
		return exit{exitNothing, errors.New("nothing was crawled: " + whyNothing(end))}
	}
	return nil
}

// configure reads the file or takes the defaults, applies the flags, and checks the result.
func configure(ctx context.Context, file string, flags *flag.FlagSet) (node.Config, error) {
	cfg := node.Default()
	var err error
	if file != "" {
		if cfg, err = load(ctx, file); err != nil {
			return cfg, err
		}
	} else {
		cfg.Scope.SeedScope = identity.ScopeHost // a site on the command line means that site alone
		cfg.Node.Data = cmp.Or(flags.Lookup("data").Value.String(), cfg.Node.Data)
		node.GoOn(&cfg)
		if given(flags, "allow") {
			cfg.Fetch.AllowPrefixes = nil
		}
	}
	for _, o := range overrides() {
		if !given(flags, o.name) {
			continue
		}
		for _, value := range *flags.Lookup(o.name).Value.(*repeated) {
			if e := take(o.at(&cfg), value); e != nil {
				err = errors.Join(err, fmt.Errorf("-%s: %w", o.name, e))
			}
		}
	}
	if err != nil {
		return cfg, err
	}
	if given(flags, "sink") && given(flags, "warc") {
		return cfg, errors.New("node takes -sink or -warc, not both")
	}
	for _, name := range []string{"listen", "gossip"} {
		if given(flags, name) && cfg.Peer.Secret == "" {
			return cfg, fmt.Errorf("-%s is for a node with peers, and these need a common secret (-secret): proxima keygen FILE makes one", name)
		}
	}
	return cfg, errors.Join(cfg.Validate()...)
}

// reread is configure for a node that runs. An editor empties a file before it writes it anew: that nothing is there must not bring all
// defaults back.
func reread(ctx context.Context, file string, flags *flag.FlagSet) (node.Config, error) {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return node.Config{}, fmt.Errorf("%s is empty, so nothing was changed (a file with nothing but a comment sets all defaults)", file)
	}
	return configure(ctx, file, flags)
}

// load reads a configuration, which may come from a pipe.
func load(ctx context.Context, file string) (node.Config, error) {
	return untilStopped(ctx, func() (node.Config, error) { return node.Load(file) })
}

// untilStopped returns what read returns, or the error of the context once that ends: what waits for a terminal or a pipe cannot be broken
// off.
func untilStopped[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// readSeeds reads the seeds of the arguments and of the files. "-" stands for in. An invalid line of a file is reported and left out; an
// invalid argument is an error.
func readSeeds(cfg node.Config, args []string, in io.Reader, errs io.Writer) (seeds []identity.URL, err error) {
	files := slices.Clone(cfg.Crawl.Seeds)
	for _, arg := range args {
		if arg == "-" {
			files = append(files, arg)
			continue
		}
		u, err := argument(arg)
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, u)
	}
	for _, name := range files {
		from := in
		if name == "-" {
			name = "standard input"
		} else {
			f, err := os.Open(name)
			if err != nil {
				return nil, fmt.Errorf("read seeds: %w", err)
			}
			defer f.Close()
			from = f
		}
		s, err := identity.ReadSeeds(from)
		for _, e := range s.Errors {
			fmt.Fprintf(errs, "%s: %v: left out\n", name, e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		seeds = append(seeds, s.URLs...)
	}
	if len(seeds) == 0 && cfg.Peer.Secret == "" { // peers may have some
		if _, err := os.Stat(cfg.Node.Data); err != nil && len(files) > 0 {
			return nil, fmt.Errorf("no seeds: there is no URL in %s", strings.Join(files, ", "))
		} else if err != nil {
			return nil, errors.New("no seeds: give URLs, or -seeds FILE (proxima node -h)")
		}
	}
	return seeds, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// argument reads a seed of the command line. A word without a scheme must look like a host name: "5", "crawl" and the name of a file
// are probably mistakes.
func argument(text string) (identity.URL, error) {
	scheme, _, hasScheme := strings.Cut(text, "://")
	if hasScheme {
		if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
			return identity.URL{}, fmt.Errorf("%q cannot be crawled: only http and https can", text)
		}
	} else {
		if isFile(text) {
			return identity.URL{}, fmt.Errorf("%q is a file: -seeds FILE reads URLs from it, -config FILE a configuration", text)
		}
		host, _, _ := strings.Cut(text, "/")
		if _, rest, ok := strings.Cut(host, ":"); ok && strings.Trim(rest, "0123456789") != "" && !strings.HasPrefix(host, "[") {
			return identity.URL{}, fmt.Errorf("%q cannot be crawled: only http and https can", text)
		}
		if strings.TrimSpace(host) == "" {
			return identity.URL{}, fmt.Errorf("%q is no URL", text)
		} else if !strings.ContainsAny(host, ".[") && !strings.HasPrefix(host, "localhost") {
			return identity.URL{}, fmt.Errorf("%q is no URL: write http://%s if it is meant", text, text)
		}
	}
	s, err := identity.ReadSeeds(strings.NewReader(text))
	if err == nil && len(s.Errors) > 0 {
		err = errors.Unwrap(s.Errors[0]) // without the line number
	}
	if err != nil {
		return identity.URL{}, fmt.Errorf("%q is no URL that can be crawled: %w", text, err)
	}
	if len(s.URLs) != 1 {
		return identity.URL{}, fmt.Errorf("%q is not one URL", text)
	}
	return s.URLs[0], nil
}

// echo shows warnings and errors to a person.
func echo(said terminal.Printer, quiet bool) slog.Handler {
	level := slog.LevelWarn
	if quiet {
		level = slog.LevelError
	}
	return toldAtEnd{slog.NewTextHandler(said, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.String(a.Key, a.Value.Time().Format(time.TimeOnly))
			}
			return a
		}})}
}

// toldAtEnd drops the error that ended the node, since the program prints it at the end.
type toldAtEnd struct{ slog.Handler }

func (h toldAtEnd) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == runlog.EventError {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
