// Package compare reads the logs of nodes and says which assigner was better, by how much, and why.
//
// It owns the figures: what is counted, how downloads are paired, what is withheld because the logs cannot tell. It does not own the
// form of the logs (node/journal), nor that of a run's folder and the truth (rundir), nor the page (report).
//
// Read goes over the logs once. What must be joined URL by URL is kept as records of 48 bytes, at most Options.Most of them; everything
// else is counted at once: a run holds nodes, timelines of 600 cells, and a tally for each row.
//
//	find.go    runs and logs in folders     records.go  what waits to be joined
//	lines.go   lines in, gaps noted         joins.go    downloads of one URL, decisions about one server
//	rows.go    what a row of the comparison is, and its figures
//	run.go     one run; crawl.go its URLs, space.go its coordinates, timeline.go what happened when
//	result.go  the Result; words.go and text.go say it
package compare

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"proxima/assign"
	"proxima/node/journal"
)

// Options of Read.
type Options struct {
	// Seed of the bootstrap; 0 is 1.
	Seed uint64
	// By says what a row is: ByAssigner (also where empty), ByRun or ByConfig.
	By string
	// Against names the row or the assigner that the others are compared to; "" is random.
	Against string
	// Most bounds the records that are joined in memory; 0 is 20 million, a gigabyte.
	Most int
	// Progress hears now and then how many bytes of the logs have been read. May be nil.
	Progress func(read, all int64)
}

// comparer is Read under way.
type comparer struct {
	Options
	runs     []*run
	lines    *lineReader
	records  records
	rows     []row
	bits     map[labelOf]uint16
	index    map[string]uint32 // of servers
	names    []string          // of servers
	separate bool              // no run compares: each is of one assigner
	samples  []sample          // of the URL that is joined
	clusters map[clusterKey]*cluster
}

// Read reads all logs in the folders and compares. Folders without logs, broken descriptions of runs, more downloads than
// Options.Most and the end of the context are errors; damaged, cut or missing lines are not: the Result tells of them.
func Read(ctx context.Context, dirs []string, o Options) (*Result, error) {
	o.Seed, o.By, o.Against = cmp.Or(o.Seed, 1), cmp.Or(o.By, ByAssigner), cmp.Or(o.Against, assign.Random)
	if !slices.Contains(Bys(), o.By) {
		return nil, fmt.Errorf("compare: rows by %q: not one of %s", o.By, strings.Join(Bys(), ", "))
	}
	sources, err := findAll(dirs)
	if err != nil {
		return nil, err
	}
	c := newComparer(o)
	if c.lines, err = newLineReader(ctx, o.Progress, sources); err != nil {
		return nil, err
	}
	for i, s := range sources {
		c.runs = append(c.runs, newRun(i, s))
	}
	// Rows are named after what the node logs say of the runs' configurations.
	for _, r := range c.runs {
		if err := c.readLogs(r, journal.LogNode); err != nil {
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
		for _, log := range logs[1:] {
			r.compared = bits.OnesCount16(r.rows) > 1
			if err := c.readLogs(r, log); err != nil {
				return nil, err
			}
		}
	}
	if !c.hasReference() && o.Against != assign.Random {
		return nil, fmt.Errorf("compare: nothing is called %q: there are %s", o.Against, strings.Join(c.rowNames(), ", "))
	}
	c.separate = !slices.ContainsFunc(c.runs, func(r *run) bool { return r.compared })
	c.records.groups(c.join)
	if o.Progress != nil {
		o.Progress(c.lines.all, c.lines.all)
	}
	return c.result(dirs), nil
}

func newComparer(o Options) *comparer {
	return &comparer{Options: o, records: records{most: cmp.Or(o.Most, mostRecords)}, bits: map[labelOf]uint16{},
		index: map[string]uint32{}, clusters: map[clusterKey]*cluster{}}
}

// readLogs reads one log of all nodes of a run.
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
	var last lastDecision
	each := func(e journal.Entry, line *journal.Line, do func(n int) error) error {
		id, n := "", 0
		return c.lines.each(logs.dir, log, e, line, func() error {
			if line.Node != id || id == "" {
				id, n = line.Node, r.own(line.Node, logs.name)
			}
			return do(n)
		})
	}
	switch log {
	case journal.LogFetch:
		var f journal.Fetch
		return each(&f, &f.Line, func(n int) error { return c.download(r, n, &f) })
	case journal.LogQueue:
		var q journal.Queue
		return each(&q, &q.Line, func(n int) error { r.queue(n, &q); return nil })
	case journal.LogLoad:
		var l journal.Load
		return each(&l, &l.Line, func(n int) error { r.used(n, &l); return nil })
	case journal.LogNode:
		var e journal.Event
		return each(&e, &e.Line, func(n int) error { r.event(n, &e); return nil })
	case journal.LogCoord:
		var k journal.Coord
		return each(&k, &k.Line, func(n int) error { r.placed(n, &k); return nil })
	case journal.LogProxy:
		var p journal.Proxy
		return each(&p, &p.Line, func(int) error { r.proxy(&p); return nil })
	case journal.LogAssign:
		var a journal.Assign
		return each(&a, &a.Line, func(n int) error { return c.decision(r, n, &a, &last) })
	case journal.LogMember:
		var m journal.Member
		return each(&m, &m.Line, func(int) error { return c.member(r, &m) })
	}
	return fmt.Errorf("read logs: no log %q", log)
}

// main are the runs whose downloads are compared: those of several assigners, or all where each has its own.
func (c *comparer) main() []*run {
	list := slices.DeleteFunc(slices.Clone(c.runs), func(r *run) bool { return !r.compared })
	if len(list) == 0 {
		return c.runs
	}
	return list
}

// server is the index of a server's name.
func (c *comparer) server(name string) uint32 {
	i, ok := c.index[name]
	if !ok {
		i = uint32(len(c.names))
		name = strings.Clone(name)
		c.index[name] = i
		c.names = append(c.names, name)
	}
	return i
}

func (c *comparer) hash(s string) uint64 { return xxhash.Sum64String(s) }

// batch is the hash of a batch's name, 0 for none.
func (c *comparer) batch(name string) uint64 {
	if name == "" {
		return 0
	}
	return max(1, c.hash(name))
}

func (c *comparer) decisionKey(r *run, batch, server string) uint64 {
	return c.batch(batch)*31 ^ c.hash(server) ^ uint64(r.index)<<1
}

// nodeIndex is the index of a node in the run for a record.
func (c *comparer) nodeIndex(r *run, id string) uint16 {
	if id == "" {
		return noNode
	}
	return uint16(min(r.node(id), noNode))
}
