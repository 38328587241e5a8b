// Package journal names the events of a node and writes its log files.
//
// It owns the lines that tools parse (lines.go) and the events (keys.go), the form of the lines on disk, the rotation of the files, and a Reader
// for tools. It decides neither what is logged nor when, and it never stops the crawl: what the disk refuses is counted.
// A directory holds nine logs, each a line of JSON a record:
//
//	fetch.jsonl  one line a download
//	queue.jsonl  the frontier, every few seconds: what waits, and what was dropped, by reason
//	load.jsonl   processor, memory, disk and messages, every few seconds
//	node.jsonl   events
//	coord.jsonl  round trips to peers, and this node's coordinate
//	proxy.jsonl  servers whose leases this node holds: where they are, and what is expected of each peer
//	assign.jsonl decisions about hosts, and hand-offs
//	member.jsonl who is there, and who owns what
//	change.jsonl pages that were visited again and found changed
//
// A directory belongs to one Journal at a time: the caller holds a lock on its data directory.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Meta is on every line.
type Meta struct {
	Run  string // name of the crawl
	Node string // id of the node
	Boot uint64 // which of its lives: (node, boot) must be new, since seq begins at 1
}

// Config says what is written beside the frontier.
type Config struct {
	// Logs is the directory of the log files. Empty: "logs" below node.data.
	Logs string `toml:"logs"`
	// LogFileBytes is the size at which a log file is rotated, in bytes. Small files are easy to ship, large ones few.
	LogFileBytes int64 `toml:"log_file_bytes"`
	// LogKeep is how many rotated files of each log are kept; older ones are deleted. 0 keeps all.
	LogKeep int `toml:"log_keep"`
}

// Default gives every value but the directory.
func Default() Config { return Config{LogFileBytes: 256 << 20, LogKeep: 20} }

// Validate reports the first value that cannot be.
func (c Config) Validate() error {
	switch {
	case c.LogFileBytes < 1<<16:
		return fmt.Errorf("log_file_bytes: %d is less than 65536", c.LogFileBytes)
	case c.LogKeep < 0:
		return fmt.Errorf("log_keep: %d is negative", c.LogKeep)
	}
	return nil
}

// Deps are what a Journal takes from the world.
type Deps struct {
	// Now is the clock of the lines; safe for concurrent use.
	Now func() time.Time
	// OnError hears of the first line that a log loses, again after it has recovered, and of each rotation that fails. It
	// is called without locks on the goroutine that logs, and may log itself. May be nil.
	OnError func(error)
	// Watch gets each Fetch (as a pointer, which it must not keep), Assign and Member as well, on the goroutine that logs. May be nil.
	Watch func(line any)
	// Echo gets the events as well, for people: slog.NewTextHandler(os.Stderr, …). May be nil.
	Echo slog.Handler
}

// Journal writes the logs. Its methods are safe for concurrent use and never fail: see Err.
type Journal struct {
	logs   map[string]*log // by name
	watch  func(line any)
	events *slog.Logger
}

// Open continues the logs in the directory, or begins them. A last line that a crash left torn gets its newline, so that
// the lines behind it can be read. Close it.
func Open(cfg Config, meta Meta, deps Deps) (*Journal, error) {
	if cfg.Logs == "" || deps.Now == nil {
		return nil, fmt.Errorf("open journal: directory or clock missing")
	}
	if err := os.MkdirAll(cfg.Logs, 0o700); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	j := &Journal{logs: map[string]*log{}, watch: deps.Watch}
	if j.watch == nil {
		j.watch = func(any) {}
	}
	for _, name := range names {
		l, err := openLog(name, cfg, meta, deps)
		if err != nil {
			return nil, errors.Join(err, j.Close())
		}
		j.logs[name] = l
	}
	j.events = newEvents(j.logs[LogNode], deps.Echo)
	return j, nil
}

// Fetch logs one download. It neither changes nor keeps f.
func (j *Journal) Fetch(f *Fetch) {
	l := j.logs[LogFetch]
	l.commit(f.append(l.begin()), nil)
	j.watch(f)
}

// Queue logs the state of the frontier.
func (j *Journal) Queue(q Queue) {
	// Readers find objects, never null.
	if q.Drops == nil {
		q.Drops = map[string]int64{}
	}
	if q.Waits == nil {
		q.Waits = map[string]int64{}
	}
	j.logs[LogQueue].write(&q)
}

// Load logs what the node uses.
func (j *Journal) Load(l Load) { j.logs[LogLoad].write(&l) }

// Coord logs a round trip to a peer.
func (j *Journal) Coord(c Coord) {
	if c.Vector == nil {
		c.Vector = []float64{}
	}
	j.logs[LogCoord].write(&c)
}

// Proxy logs what is known of a server.
func (j *Journal) Proxy(p Proxy) {
	if p.Vector == nil {
		p.Vector = []float64{}
	}
	if p.PredictedMs == nil {
		p.PredictedMs = map[string]float64{}
	}
	j.logs[LogProxy].write(&p)
}

// Assign logs a decision about a host, or a hand-off.
func (j *Journal) Assign(a Assign) {
	j.logs[LogAssign].write(&a)
	j.watch(a)
}

// Change logs what a visit found of a page.
func (j *Journal) Change(c Change) { j.logs[LogChange].write(&c) }

// Member logs a change of who is there, or of who owns a host.
func (j *Journal) Member(m Member) {
	j.logs[LogMember].write(&m)
	j.watch(m)
}

// pairs encodes what a struct has behind its Line, which must be zero: `,"key":value` and so on.
func pairs(v any) ([]byte, error) {
	all, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(Line{})
	if err != nil {
		return nil, err
	}
	return all[len(line)-1 : len(all)-1], nil
}

// Events is the logger of the node log: the message is the event, the attributes are the keys. Levels below Info are
// dropped. Attributes with the keys of Line get an underscore behind them (groups must not have such names); strings are cut
// at 64 KiB.
func (j *Journal) Events() *slog.Logger { return j.events }

// Err says which lines were lost since Open, or nil.
func (j *Journal) Err() error {
	var errs []error
	for _, name := range names {
		errs = append(errs, j.logs[name].failure())
	}
	return errors.Join(errs...)
}

// Close closes the files; lines that come later are lost, and counted.
func (j *Journal) Close() error {
	var errs []error
	for _, l := range j.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
