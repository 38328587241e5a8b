// Package node composes the packages of Proxima into one running node: it opens what is on disk, starts the parts, and stops them in
// an order that loses nothing. It owns the configuration, the identity and the status of the node, and the API for operators. Many nodes can
// run in one process.
package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/fetch/resolve"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/console"
	"proxima/node/crawl"
	"proxima/node/runlog"
	"proxima/node/sink"
	"proxima/node/site"
	"proxima/node/webmaster"
)

// Deps are what a node needs from outside. All its connections go through them.
type Deps struct {
	// Dial connects to web servers; nil is the machine's network. Forbidden addresses are refused before it is called.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialDNS connects to name servers; nil is the machine's network.
	DialDNS func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport fetches blocklists and delivers to sinks; nil is the machine's network.
	Transport http.RoundTripper
	// FreeBytes returns the free space where the node writes; nil asks the file systems.
	FreeBytes func() (uint64, error)
	// Listen accepts peers, and those who read a page of the node. DialPeer connects to peers. nil is the machine's network.
	Listen   func(network, address string) (net.Listener, error)
	DialPeer func(ctx context.Context, network, address string) (net.Conn, error)
	// Gossip carries the membership; nil is UDP and TCP of the machine.
	Gossip memberlist.Transport
	// Jump returns how far a test has set the wall clock; nil outside tests.
	Jump func() time.Duration
	// Config reads the node's configuration again; nil if there is no file.
	Config func() (Config, error)
	// Echo also gets the events, to show them to people; nil drops them.
	Echo slog.Handler
}

// Node is one node. New opens it. Run runs it, once.
type Node struct {
	cfg       Config
	id        ID
	frontier  *frontier.Frontier
	client    *fetch.Client
	resolver  *resolve.Resolver
	blocklist *blocklist.List
	runlog    *runlog.Writer
	sink      *sink.Sink // nil if pages are discarded
	sinkRoom  sinkRoom
	loop      *crawl.Loop
	rules     *identity.Rules
	policy    *crawl.Policy
	told      *told
	metrics   *prometheus.Registry
	operator  *Operator
	watcher   watcher
	book      *console.Book
	hub       *console.Hub
	pages     []served
	sites     *site.Table
	atlas     *atlas
	// webMasters does what they ask for on door, their page, which is nil if none is served.
	webMasters *webMasters
	door       *webmaster.Door
	files      map[string]*fetch.Files // by name
	overlay    *overlay                // nil if the node crawls alone
	seeds      []identity.URL
	notes      []string
	started    time.Time
	free       func() (uint64, error)

	warnings bell.Hush      // of unavailable peers
	early    []error        // warnings that New finds: Run logs them after the start of the node
	blocked  bell.Bell      // rings when the blocklist has changed
	room     bell.Bell      // rings when the disk is no longer full
	refused  map[string]int // seeds, by reason; set before the crawl has ended
}

// New opens a node: its data directory, its logs, its seeds. The configuration must be valid. The frontier has the errors for a directory that
// is in use or damaged.
func New(cfg Config, seeds []identity.URL, deps Deps) (_ *Node, err error) {
	n := &Node{cfg: cfg, started: time.Now(), seeds: seeds, free: deps.FreeBytes, blocked: bell.New(), room: bell.New()}
	n.operator, n.watcher = newOperator(n, deps.Config), watcher{n}
	var opened []func() error
	defer func() {
		if err != nil {
			for _, undo := range slices.Backward(opened) {
				err = errors.Join(err, undo())
			}
		}
	}()
	if deps.Transport == nil { // one of its own: nodes of one process share none
		deps.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: time.Minute, ExpectContinueTimeout: 2 * time.Second}
	}
	if n.blocklist, err = blocklist.New(cfg.Blocklist, blocklist.Deps{
		HTTP:    &http.Client{Transport: deps.Transport},
		Changed: n.blocklistChanged,
	}); err != nil {
		return nil, err
	}
	cfg.Page.Agent, _, _ = strings.Cut(cfg.Fetch.UserAgent, "/")
	if n.sites, err = cfg.sites(); err != nil {
		return nil, err
	}
	byDepth := func(e site.Entry) bool { return e.Depth != nil || e.PriorityPerLink != nil }
	cfg.Frontier.TrackDepth = cfg.Scope.MaxDepth > 0 || slices.ContainsFunc(cfg.Site, byDepth)
	if n.atlas, err = openAtlas(cfg.Geo.Database); err != nil {
		return nil, err
	}
	opened = append(opened, n.atlas.close)
	if err := writable(cfg.Node.Data); err != nil {
		return nil, err
	}
	cfg.Frontier.Leases = cfg.Peer.Secret != ""
	cfg.Frontier.Shared = cfg.Frontier.Leases
	cfg.Frontier.Recrawl, cfg.Frontier.MemoryMiB = cfg.Recrawl, cfg.Node.MemoryMiB
	// Some of these use parts of the node that are made later. The frontier uses them only once it runs.
	if n.frontier, err = frontier.Open(filepath.Join(cfg.Node.Data, "frontier"), cfg.Frontier, cfg.Politeness, frontier.Deps{
		Blocked: n.blockedHost, Site: n.siteOf(), Self: func() string { return n.id.Node }, Event: n.frontierEvent, FreeBytes: n.freeBytes,
	}); err != nil {
		return nil, err
	}
	opened = append(opened, func() error {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		return n.frontier.Run(done)
	})
	// From here on this process has the lock of the frontier, and no other one changes these files.
	if err = n.recall(); err != nil {
		return nil, err
	}
	if n.metrics, err = newMetrics(n.Status); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if n.id, err = nextLife(cfg.Node.Data, n.started); err != nil {
		return nil, err
	}
	n.book, n.hub = &console.Book{}, console.NewHub(n.watcher.ticks())
	logs := cfg.Output
	logs.Logs = n.LogDir()
	if n.runlog, err = runlog.Open(logs,
		runlog.Meta{Run: cfg.Node.Run, Node: n.id.Node, Boot: n.id.Boot},
		runlog.Deps{Now: time.Now, Watch: n.logged, Echo: deps.Echo, OnError: n.warn},
	); err != nil {
		return nil, err
	}
	opened = append(opened, n.runlog.Close)
	n.openFiles()
	opened = append(opened, n.closeFiles)
	// The operator's own servers get this many requests at once. With fewer idle connections, most would be made anew.
	cfg.Fetch.IdleConns = max(cfg.Fetch.IdleConns, cfg.Politeness.OwnParallel)
	if n.client, err = fetch.New(cfg.Fetch.Config, fetch.Deps{Dial: deps.Dial, IPv6: cfg.Fetch.DNS.IPv6}); err != nil {
		return nil, err
	}
	opened = append(opened, func() error { n.client.Close(); return nil })
	if n.resolver, err = resolve.New(cfg.Fetch.DNS, resolve.Deps{Dial: deps.DialDNS}); err != nil {
		return nil, err
	}
	opened = append(opened, func() error { n.resolver.Close(); return nil })
	n.webMasters = &webMasters{Node: n, shelf: n.frontier.Shelf(tableOwners).Impatient()}
	if deps.Listen == nil {
		deps.Listen = net.Listen
	}
	opened = append(opened, n.closePages)
	if err = n.openPages(deps.Listen); err != nil {
		return nil, err
	}
	if err = n.openSink(deps.Transport); err != nil {
		return nil, err
	}
	n.policy = &crawl.Policy{Rules: n.rules, Sites: n.sites, Blocklist: n.blocklist, Files: n.files, Agent: cfg.Page.Agent}
	loop := crawl.Deps{
		Frontier: n.frontier, Client: n.client, Resolver: n.resolver, Policy: n.policy, RunLog: n.runlog, Sink: n.sink, Receipts: n.frontier.Shelf(tableReceipts),
		Page: cfg.Page, Sitemap: cfg.Sitemap, TrackDepth: cfg.Frontier.TrackDepth, Recrawl: cfg.Recrawl.On(), ScopeSince: n.told.file.ScopeSince,
		Overlay: crawl.Alone{Home: n.id.Node},
		Widen: func(seed identity.URL) error {
			n.operator.log("a seed that redirects", "add seeds: "+listed([]string{seed.String()}))
			return n.told.seed([]identity.URL{seed})
		},
	}
	if cfg.Peer.Secret != "" {
		if n.overlay, err = newOverlay(n, deps); err != nil {
			return nil, err
		}
		n.overlay.tellLoop(&loop)
		cfg.Crawl.End = crawl.EndNever // the nodes decide together when the crawl ends
	}
	n.loop = crawl.New(cfg.Crawl, loop)
	if n.overlay != nil {
		n.overlay.place(n.loop)
	}
	if err = n.told.keep(); err != nil {
		return nil, err
	}
	return n, nil
}

// writable returns an error if the data directory is a file, or exists and cannot be written to. The store would report it as damaged.
func writable(data string) error {
	for _, dir := range []string{data, filepath.Join(data, "frontier")} {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("data directory %s: a file is in its place", dir)
		}
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write to data directory %s: %w", dir, err)
		}
	}
	return nil
}

// ID returns the node's identity.
func (n *Node) ID() ID { return n.id }

// Notes tell the operator what a node continues from earlier starts, and what is new.
func (n *Node) Notes() []string { return n.notes }

// Operator returns what an operator may do with the node.
func (n *Node) Operator() *Operator { return n.operator }

// LogDir returns the directory of the logs.
func (n *Node) LogDir() string {
	if n.cfg.Output.Logs != "" {
		return n.cfg.Output.Logs
	}
	return filepath.Join(n.cfg.Node.Data, "logs")
}

// End says how a run ended.
type End struct {
	crawl.Stats
	Frontier frontier.Status
	// Reason is "idle", the key of a limit like "max_pages", "unreachable" if no seed was reached, "drained", "stopped", or "failed".
	Reason string
	// Shared means that the limits are those of an overlay, which count all starts.
	Shared bool
	// Unfinished is how many URLs are still pending.
	Unfinished int64
	// Sink says what was delivered and what waits. It is nil if pages are discarded.
	Sink *sink.Status
	// SeedsRefused counts seeds that were refused, by reason.
	SeedsRefused map[string]int
	Elapsed      time.Duration
}

// Run crawls until the context ends or the crawl ends by itself. When it returns, everything is closed and on disk.
func (n *Node) Run(ctx context.Context) (End, error) {
	n.runlog.Events().Info(runlog.EventStart, runlog.KeyVersion, Version(), runlog.KeyConfig, n.cfg.Public())
	for _, err := range n.early {
		n.warn(err)
	}
	if err := exposed(n.cfg.Node.Data, n.LogDir()); err != nil {
		n.warn(err)
	}
	if sources := n.cfg.Blocklist.Sources; len(sources) > 0 {
		if err := n.blocklist.Follow(ctx, sources); err != nil {
			n.warn(err)
		}
	}
	// The frontier runs longer than the crawl, to write what the last downloads give.
	disk, closeDisk := context.WithCancel(context.WithoutCancel(ctx))
	defer closeDisk()
	var below errgroup.Group
	work, stop := context.WithCancel(ctx)
	defer stop()
	below.Go(func() error {
		defer closeDisk() // nor can the sink
		defer stop()      // the crawl cannot go on without the frontier
		return n.frontier.Run(disk)
	})
	if n.sink != nil {
		below.Go(func() error { return n.sink.Run(disk) })
	}
	defer context.AfterFunc(work, n.frontier.Stopping)()
	err := n.crawl(work, stop)
	n.flush(ctx)
	n.watcher.sample()
	end := n.end(ctx, err)
	closeDisk()
	err = errors.Join(err, below.Wait())
	n.client.Close()
	n.resolver.Close()
	if err != nil {
		end.Reason = "failed"
		n.runlog.Events().Error(runlog.EventError, runlog.KeyReason, err.Error())
	}
	if lost := n.runlog.Err(); lost != nil {
		n.warn(lost)
	}
	n.runlog.Events().Info(runlog.EventStop, runlog.KeyReason, end.Reason)
	return end, errors.Join(err, n.closeFiles(), n.atlas.close(), n.runlog.Close())
}

// crawl runs everything but the frontier and the sink, until the loop ends.
func (n *Node) crawl(ctx context.Context, stop func()) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.blocklist.Run(ctx) })
	g.Go(func() error { return n.dropBlocked(ctx) })
	g.Go(func() error { return n.watcher.run(ctx) })
	if s, ok := n.openSocket(); ok { // before the first request: whoever sees one finds the node
		g.Go(func() error { return n.serve(ctx, s) })
	}
	g.Go(func() error { return n.hub.Run(ctx) })
	for _, p := range n.pages {
		g.Go(func() error { return n.serve(ctx, p) })
		if p.follow != nil {
			g.Go(func() error { return n.followFile(ctx, console.ReadEvery, p.follow) })
		}
	}
	ended := make(chan struct{}) // closed when the loop has ended: the overlay leaves after it
	g.Go(func() error {
		defer stop()
		defer close(ended)
		if err := n.seed(ctx); err != nil {
			return err
		}
		return n.loop.Run(ctx)
	})
	if o := n.overlay; o != nil {
		g.Go(func() error {
			defer stop()
			return o.run(ctx, ended)
		})
		g.Go(func() error { return o.memo.run(ctx) })
		g.Go(func() error {
			if o.rounds.Run(ctx) { // the crawl has ended everywhere
				stop()
			}
			return nil
		})
		g.Go(func() error { return n.operator.awaitDrain(ctx, stop) })
	}
	return g.Wait()
}

// seed offers the seeds as soon as there is room on the disk.
func (n *Node) seed(ctx context.Context) error {
	for {
		refused, err := n.loop.Seed(ctx, n.seeds)
		switch {
		case err == nil:
			n.refused = refused
			if n.overlay != nil {
				n.overlay.seeded.Store(true)
			}
			return nil
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, frontier.ErrDiskFull):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.room:
		}
	}
}

// freeBytes returns the free space of the file system that has the least, of those that the node writes to.
func (n *Node) freeBytes() (uint64, error) {
	switch {
	case n.loop == nil: // New has failed, and closes what it has opened
		return math.MaxUint64, nil
	case n.free != nil:
		return n.free()
	}
	_, free, err := n.fullest()
	return free, err
}

// fullest returns the directory that has the least free space, of those that the node writes to.
func (n *Node) fullest() (fullest string, free uint64, err error) {
	fullest = n.cfg.Node.Data
	free, err = frontier.FreeBytes(fullest)
	// Without an answer the directory is gone. The sink says so, and tries again; the logs go on in their old files.
	if there, err := frontier.FreeBytes(n.LogDir()); err == nil && there < free {
		fullest, free = n.LogDir(), there
	}
	if dir := n.cfg.Sink.Dir(); dir != "" {
		if there := n.sinkRoom.ask(func() (uint64, error) { return frontier.FreeBytes(dir) }); there < free {
			fullest, free = dir, there
		}
	}
	return fullest, free, err
}

func (n *Node) end(ctx context.Context, err error) End {
	e := End{Stats: n.loop.Stats(), Frontier: n.frontier.Status(), Elapsed: time.Since(n.started), SeedsRefused: n.refused,
		Shared: n.overlay != nil}
	e.Unfinished = e.Frontier.Pending
	e.Sink = n.sinkStatus()
	switch {
	case err != nil:
		e.Reason = "failed"
	case ctx.Err() != nil:
		e.Reason = "stopped"
	case n.operator.drained.Load():
		e.Reason = "drained"
	case n.loop.Limit() != "":
		e.Reason = n.loop.Limit()
	case n.overlay == nil && n.frontier.Hopeless():
		e.Reason = "unreachable"
	default:
		e.Reason = "idle"
	}
	return e
}

// blockedHost returns why a host is not to be crawled, or "". The frontier calls it for hosts that it reads from disk.
func (n *Node) blockedHost(host string) string {
	if rule, blocked := n.blocklist.Host(host); blocked {
		return "blocked: " + rule
	}
	return ""
}

// blocklistChanged is called after the blocklist has changed, or could not be read.
func (n *Node) blocklistChanged(r blocklist.Report) {
	n.runlog.Events().Info(runlog.EventBlocklist, runlog.KeyCount, r.Entries, runlog.KeyReason, public(r.Summary))
	if r.Wrong != "" { // what should be left alone may be crawled
		n.warn(fmt.Errorf("blocklist %s", r.Wrong))
	}
	n.blocked.Ring()
}

// dropBlocked drops hosts whenever the blocklist has changed.
func (n *Node) dropBlocked(ctx context.Context) error {
	return bell.Loop(ctx, n.blocked, 0, func(bool) error {
		if err := n.frontier.DropBlocked(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
}

func (n *Node) frontierEvent(e frontier.Event) {
	log := n.runlog.Events()
	switch e.Kind {
	case frontier.HostDropped:
		n.loop.Forget(e.Host)
		log.Warn(runlog.EventHostDropped, runlog.KeyHost, e.Host, runlog.KeyReason, e.Reason, runlog.KeyCount, e.URLs)
	case frontier.DiskFull:
		dir, _, _ := n.fullest()
		log.Warn(runlog.EventDiskFull, runlog.KeyDiskFreeBytes, e.Free, runlog.KeyReason, fmt.Sprintf("no new downloads until %d MiB are free for ten seconds "+
			"on the disk of %s (frontier.min_free_mib; 0: an eighth of node.memory_mib); nothing that was accepted is lost", e.Need>>20, dir))
	case frontier.OwnTrouble:
		log.Warn(runlog.EventOwnTrouble, runlog.KeyReason, e.Reason)
	case frontier.OwnTroubleOver:
		log.Info(runlog.EventOwnTroubleOver, runlog.KeyReason, e.Reason)
	case frontier.DiskOK:
		log.Info(runlog.EventDiskOK, runlog.KeyDiskFreeBytes, e.Free)
		n.room.Ring()
	}
}
