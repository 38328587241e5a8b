// Package runlog writes a node's run log: one JSON object per line, in nine files that are rotated by size.
//
//	fetch.jsonl  one line per download
//	queue.jsonl  the frontier, every few seconds: what waits, and what was dropped, by reason
//	load.jsonl   processor, memory, disk and messages, every few seconds
//	node.jsonl   events
//	coord.jsonl  round trips to peers, and this node's coordinate
//	proxy.jsonl  servers whose leases this node holds: their coordinates, and the download time predicted at each peer
//	assign.jsonl decisions about hosts, and hand-offs
//	member.jsonl changes of the members, and of the owners of hosts
//	change.jsonl pages that had changed when they were visited again
//
// The package owns the lines that tools parse (lines.go), the names of events and keys (keys.go), the files, and a Reader for
// tools. It decides neither what is logged nor when, and never stops the crawl: it counts the lines that the disk refuses.
//
// Only one Writer may write to a directory at a time. The caller holds the lock on its data directory.
package runlog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Meta is what every line says of its writer.
type Meta struct {
	Run  string // name of the crawl
	Node string // id of the node
	Boot uint64 // number of the node's life; (Node, Boot) must be new, since seq begins at 1
}

// Config is the configuration of the run log.
type Config struct {
	// Logs is the directory of the log files. Empty: "logs" below node.data. Downloads wait for their lines, so a network disk that hangs
	// holds up the crawl.
	Logs string `toml:"logs"`
	// LogFileBytes is the size at which a log file is rotated, in bytes. Small files are easy to ship, large ones few.
	LogFileBytes int64 `toml:"log_file_bytes"`
	// LogKeep is how many rotated files of each log are kept. Older ones are deleted; 0 keeps all.
	LogKeep int `toml:"log_keep"`
}

// Default returns the default configuration, which lacks the directory.
func Default() Config { return Config{LogFileBytes: 256 << 20, LogKeep: 20} }

// Validate reports the first invalid value.
func (c Config) Validate() error {
	switch {
	case c.LogFileBytes < 1<<16:
		return fmt.Errorf("log_file_bytes: %d is less than 65536", c.LogFileBytes)
	case c.LogKeep < 0:
		return fmt.Errorf("log_keep: %d is negative", c.LogKeep)
	}
	return nil
}

// Deps are what a Writer needs from its node.
type Deps struct {
	// Now is the clock of the lines; safe for concurrent use.
	Now func() time.Time
	// OnError is told of the first line that a log loses, of the first one after each recovery, of each failed rotation, and of a log that was
	// moved or deleted and cannot begin again. It is called without locks on the goroutine that logs, and may itself log. May be nil.
	OnError func(error)
	// Watch also gets each Fetch (as a pointer, which it must not keep), Assign and Member, and the slog.Record of each event, on the
	// goroutine that logs. May be nil.
	Watch func(line any)
	// Echo also gets the events, to show them to people: slog.NewTextHandler(os.Stderr, …). May be nil.
	Echo slog.Handler
}

// Writer writes the run log. Its methods are safe for concurrent use. They never fail; Err tells what was lost.
type Writer struct {
	logs   map[string]*log // by name
	watch  func(line any)
	events *slog.Logger
}

// Open opens the logs in the directory, creating them if needed. The first line after one that a crash has torn is a line of its own. The
// caller must Close the Writer.
func Open(cfg Config, meta Meta, deps Deps) (*Writer, error) {
	if cfg.Logs == "" || deps.Now == nil {
		return nil, fmt.Errorf("open run log: directory or clock missing")
	}
	if err := os.MkdirAll(cfg.Logs, 0o700); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	w := &Writer{logs: map[string]*log{}, watch: deps.Watch}
	if w.watch == nil {
		w.watch = func(any) {}
	}
	for _, name := range names {
		l, err := openLog(name, cfg, meta, deps)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.logs[name] = l
	}
	w.events = newEvents(events{w.logs[LogNode], w.watch}, deps.Echo)
	return w, nil
}

// Fetch logs one download. It neither changes nor keeps f.
func (w *Writer) Fetch(f *Fetch) {
	l := w.logs[LogFetch]
	var room [1 << 10]byte // enough for most lines
	l.report(l.put(f.pairs(room[:0]), nil))
	w.watch(f)
}

// Queue logs the state of the frontier. Readers expect lists and objects in all lines, so none may be nil.
func (w *Writer) Queue(q Queue) { w.logs[LogQueue].write(&q) }

// Load logs the node's use of resources. It comes every few seconds, so it also looks after files that somebody has moved or deleted.
func (w *Writer) Load(l Load) {
	for _, name := range names {
		w.logs[name].report(w.logs[name].follow())
	}
	w.logs[LogLoad].write(&l)
}

// Coord logs a round trip to a peer.
func (w *Writer) Coord(c Coord) { w.logs[LogCoord].write(&c) }

// Proxy logs what is known of a server.
func (w *Writer) Proxy(p Proxy) { w.logs[LogProxy].write(&p) }

// Assign logs a decision about a host, or a hand-off.
func (w *Writer) Assign(a Assign) {
	w.logs[LogAssign].write(&a)
	w.watch(a)
}

// Change logs that a visit found a page changed.
func (w *Writer) Change(c Change) { w.logs[LogChange].write(&c) }

// Member logs a change of the members, or of a host's owner.
func (w *Writer) Member(m Member) {
	w.logs[LogMember].write(&m)
	w.watch(m)
}

// Events returns the logger of the node log. The message is the event, the attributes are its keys. It drops levels below Info
// and cuts strings at 64 KiB, the configuration at 480 KiB with a comment that says so. An attribute with a key of Line gets an underscore
// appended. It knows no groups, and no attributes of a logger.
func (w *Writer) Events() *slog.Logger { return w.events }

// Err reports which lines were lost since Open, or nil.
func (w *Writer) Err() error {
	var errs []error
	for _, name := range names {
		errs = append(errs, w.logs[name].failure())
	}
	return errors.Join(errs...)
}

// Close closes the files. Later lines are lost, and counted.
func (w *Writer) Close() error {
	var errs []error
	for _, l := range w.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
