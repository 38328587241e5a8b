// Package compare reads the logs of nodes and says which assigner was better, by how much, and why.
//
// It owns the figures: what is counted, how downloads are paired, and what is withheld because the logs cannot tell. It does not own
// the format of the logs (node/runlog), the format of a run's folder and the truth (rundir), or the page (report).
//
// Read goes over the logs once. What must be joined URL by URL is kept as records of 48 bytes, at most mostRecords of them. Everything
// else is counted at once: a run holds its nodes, timelines of 600 cells, and a tally for each row.
//
//	find.go     runs and logs in folders        records.go  records that wait to be joined
//	lines.go    lines of logs, gaps noted       joins.go    downloads of one URL, decisions about one server
//	rows.go     the rows of the comparison      tally.go    their figures
//	run.go      one run; crawl.go its URLs, space.go its coordinates, timeline.go and affected.go what happened when
//	result.go   the Result; sum.go fills it, words.go and text.go print it
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/node/runlog"
)

// ErrNoRow says that nothing has the name that Options.Against gives.
var ErrNoRow = errors.New("no row or assigner")

// Options of Read.
type Options struct {
	// Seed is that of the bootstrap; 0 means 1.
	Seed uint64
	// By says what a row is, one of Bys; "" means ByAssigner.
	By string
	// Against names the row or the assigner that the others are compared to; "" means random.
	Against string

	most   int // records; tests allow fewer
	fewest int // servers for an interval; tests allow fewer
}

// comparer is the state of one Read.
type comparer struct {
	Options
	runs     []*run
	lines    lineReader
	records  records
	rows     []row
	leftOut  map[string]bool   // names of rows beyond maxRows
	index    map[string]uint32 // servers by name
	names    []string          // of servers
	separate bool              // every run has one assigner
	samples  []sample          // of the URL that is being joined
	clusters map[clusterKey]*cluster
}

// Read reads all logs in the folders and compares. Folders without logs, invalid descriptions of runs, more than 20 million downloads,
// and the end of the context are errors. Damaged, cut and missing lines are not: the Result tells of them.
func Read(ctx context.Context, dirs []string, o Options) (*Result, error) {
	o.Seed, o.By, o.Against = cmp.Or(o.Seed, 1), cmp.Or(o.By, ByAssigner), cmp.Or(o.Against, assign.Random)
	if !slices.Contains(Bys(), o.By) {
		return nil, fmt.Errorf("compare: a row cannot be a %q, only one of %s", o.By, strings.Join(Bys(), ", "))
	}
	sources, killed, err := findAll(dirs)
	if err != nil {
		return nil, err
	}
	c := newComparer(ctx, o)
	for i, s := range sources {
		r := newRun(i, s)
		c.runs = append(c.runs, r)
		r.alike = slices.IndexFunc(c.runs, func(o *run) bool { return sameWorld(o, r) })
	}
	// Rows may be named after the runs' configurations, which are in the node logs.
	for _, r := range c.runs {
		if err := c.readLogs(r, runlog.LogNode); err != nil {
			return nil, err
		}
	}
	nameRuns(c.runs)
	for _, r := range c.runs {
		if r.world != nil {
			for _, label := range r.world.Assigners {
				r.rows |= c.rowBits(r, label)
			}
		}
		// Each log needs what those before it said.
		for _, log := range []string{runlog.LogCoord, runlog.LogAssign, runlog.LogMember, runlog.LogProxy, runlog.LogQueue,
			runlog.LogLoad, runlog.LogFetch} {
			r.compared = bits.OnesCount16(r.rows) > 1 || r.rows != 0 && r.leftOut
			if err := c.readLogs(r, log); err != nil {
				return nil, err
			}
		}
	}
	known := slices.ContainsFunc(c.rows, func(w row) bool { return w.name == c.Against || w.assigner == c.Against })
	if !known && o.Against != assign.Random {
		return nil, fmt.Errorf("compare: %w is called %q: there are %s", ErrNoRow, o.Against, cmp.Or(strings.Join(c.rowNames(), ", "), "none"))
	}
	c.separate = !slices.ContainsFunc(c.runs, func(r *run) bool { return r.compared })
	c.records.groups(c.join)
	result := c.result()
	result.Killed = killed
	return result, nil
}

func newComparer(ctx context.Context, o Options) *comparer {
	o.fewest = cmp.Or(o.fewest, fewestServers)
	return &comparer{Options: o, records: records{most: cmp.Or(o.most, mostRecords)},
		lines: lineReader{ctx: ctx, seqs: map[life]uint64{}, gaps: map[life]uint64{}}, index: map[string]uint32{},
		clusters: map[clusterKey]*cluster{}, leftOut: map[string]bool{}}
}

func (c *comparer) readLogs(r *run, log string) error {
	c.lines.run = r.index
	for _, n := range r.logs {
		if err := c.readLog(r, n, log); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) readLog(r *run, logs nodeLogs, log string) error {
	each := func(e runlog.Entry, line *runlog.Line, do func(n int) error) error {
		return c.lines.each(logs.dir, log, e, line, func() error { return do(r.own(line.Node, logs.name)) })
	}
	switch log {
	case runlog.LogFetch:
		var f runlog.Fetch
		return each(&f, &f.Line, func(n int) error { return c.download(r, n, &f) })
	case runlog.LogQueue:
		var q runlog.Queue
		return each(&q, &q.Line, func(n int) error { r.queue(n, &q); return nil })
	case runlog.LogLoad:
		var l runlog.Load
		return each(&l, &l.Line, func(n int) error { r.used(n, &l); return nil })
	case runlog.LogNode:
		var e runlog.Event
		return each(&e, &e.Line, func(n int) error { r.event(n, &e); return nil })
	case runlog.LogCoord:
		var k runlog.Coord
		return each(&k, &k.Line, func(n int) error { r.placed(n, &k); return nil })
	case runlog.LogProxy:
		var p runlog.Proxy
		return each(&p, &p.Line, func(int) error { r.proxy(&p); return nil })
	case runlog.LogAssign:
		var a runlog.Assign
		var last lastDecision
		return each(&a, &a.Line, func(n int) error { return c.decision(r, n, &a, &last) })
	case runlog.LogMember:
		var m runlog.Member
		return each(&m, &m.Line, func(int) error { r.member(&m); return nil })
	}
	return fmt.Errorf("read logs: no log %q", log)
}

// main returns the runs whose downloads are compared: those of several assigners, or all if there are none.
func (c *comparer) main() []*run {
	list := slices.DeleteFunc(slices.Clone(c.runs), func(r *run) bool { return !r.compared })
	if len(list) == 0 {
		return c.runs
	}
	return list
}

func (c *comparer) server(name string) uint32 {
	i, ok := c.index[name]
	if !ok {
		i = uint32(len(c.names))
		c.index[name] = i
		c.names = append(c.names, name)
	}
	return i
}

// batchHash is the hash of a batch's name, 0 for no batch.
func batchHash(name string) uint64 {
	if name == "" {
		return 0
	}
	return max(1, xxhash.Sum64String(name))
}

func decisionKey(r *run, batch, server string) uint64 {
	return batchHash(batch)*31 ^ xxhash.Sum64String(server) ^ uint64(r.index)<<1
}
