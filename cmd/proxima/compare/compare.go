// Package compare reads the logs of nodes and says which assigner was better, by how much, and why.
//
// It owns the figures: what is counted, how downloads are paired, what is withheld because the logs cannot tell. It does not own the
// form of the logs (node/journal), nor that of a run's folder and the truth (rundir), nor the page (report).
//
// Memory is bounded whatever the size of the logs. What is to be joined URL by URL is written to temporary files as records of
// 46 bytes, spread by hash over 256 parts that are read back one at a time. Download times go into sketches of 100 KB at most,
// timelines have 600 cells. What grows: some 500 bytes for each server, 24 for each batch, 75 KB for each node of each run, and a
// 256th of the records.
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
	"proxima/node/journal"
)

// Options of Read.
type Options struct {
	// Temp is the folder for temporary files, about a tenth of the logs; "" is the system's.
	Temp string
	// Seed of the bootstrap; 0 is 1.
	Seed uint64
	// Progress hears now and then how many bytes of the logs have been read. May be nil.
	Progress func(read, all int64)
}

// comparer is Read under way.
type comparer struct {
	runs      []*run
	lines     *lineReader
	spill     *spill
	labels    []string
	bits      map[string]uint16 // by the label of a line
	reference int               // index of random, -1 if it was not there
	index     map[string]uint32 // of servers
	names     []string          // of servers
	separate  []separatePage    // of the URL that is joined
}

// Read reads all logs in the folders and compares. Folders without logs, broken descriptions of runs, a full temporary disk and the
// end of the context are errors; damaged, cut or missing lines are not: the Result tells of them.
func Read(ctx context.Context, dirs []string, o Options) (_ *Result, err error) {
	o.Seed = cmp.Or(o.Seed, 1)
	c := &comparer{spill: newSpill(o.Temp), bits: map[string]uint16{}, reference: -1, index: map[string]uint32{}}
	defer func() { err = errors.Join(err, c.spill.close()) }()
	sources, err := findAll(dirs)
	if err != nil {
		return nil, err
	}
	if c.lines, err = newLineReader(ctx, o.Progress, sources); err != nil {
		return nil, err
	}
	for i, s := range sources {
		r := newRun(i, s)
		c.runs = append(c.runs, r)
		if s.world != nil {
			for _, label := range s.world.Assigners {
				r.labels |= c.labelBits(label)
			}
		}
	}
	for _, r := range c.runs {
		if err := c.read(r); err != nil {
			return nil, err
		}
	}
	c.reference = slices.Index(c.labels, assign.Random)
	if err := c.spill.groups(c.join); err != nil {
		return nil, err
	}
	if o.Progress != nil {
		o.Progress(c.lines.all, c.lines.all)
	}
	return c.result(dirs, o), nil
}

// read reads all logs of a run.
func (c *comparer) read(r *run) error {
	c.lines.run = r.index
	for _, log := range logs {
		if log == journal.LogFetch {
			r.compared = bits.OnesCount16(r.labels) > 1
		}
		for _, n := range r.logs {
			if err := c.readLog(r, n, log); err != nil {
				return err
			}
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
	var (
		f journal.Fetch
		q journal.Queue
		l journal.Load
		e journal.Event
		k journal.Coord
		p journal.Proxy
		a journal.Assign
		m journal.Member
	)
	switch log {
	case journal.LogFetch:
		return each(&f, &f.Line, func(n int) error { return c.download(r, n, &f) })
	case journal.LogQueue:
		return each(&q, &q.Line, func(n int) error { r.queue(n, &q); return nil })
	case journal.LogLoad:
		return each(&l, &l.Line, func(n int) error { r.used(n, &l); return nil })
	case journal.LogNode:
		return each(&e, &e.Line, func(n int) error { r.event(n, &e); return nil })
	case journal.LogCoord:
		return each(&k, &k.Line, func(n int) error { r.placed(n, &k); return nil })
	case journal.LogProxy:
		return each(&p, &p.Line, func(n int) error { r.proxy(&p); return nil })
	case journal.LogAssign:
		return each(&a, &a.Line, func(n int) error { return c.decision(r, &a, &last) })
	case journal.LogMember:
		return each(&m, &m.Line, func(n int) error { return c.member(r, &m) })
	}
	return fmt.Errorf("read logs: no log %q", log)
}

// labelBits are the assigners that a line names, with commas between them.
func (c *comparer) labelBits(label string) uint16 {
	if label == "" {
		return 0
	}
	if b, ok := c.bits[label]; ok {
		return b
	}
	var b uint16
	for name := range strings.SplitSeq(label, ",") {
		i := slices.Index(c.labels, name)
		if i < 0 && len(c.labels) < maxLabels && name != "" {
			i = len(c.labels)
			c.labels = append(c.labels, strings.Clone(name))
		}
		if i >= 0 {
			b |= 1 << i
		}
	}
	if len(c.bits) < 1<<12 { // of sound logs there are few
		c.bits[strings.Clone(label)] = b
	}
	return b
}

func (c *comparer) labelIndex(label string) int { return max(0, slices.Index(c.labels, label)) }

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
