package compare

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"proxima/node/journal"
)

// life is one boot of a node, and how far one of its logs has been read.
type life struct {
	run       int
	log, node string
	boot      uint64
}

// lineReader reads logs line by line, and notes what is missing.
type lineReader struct {
	ctx      context.Context
	progress func(read, all int64)
	run      int   // that is read
	read     int64 // bytes
	all      int64
	told     int64
	lines    int64
	damaged  int64
	cut      int64 // packed files that break off
	repeated int64
	newer    string // a file in a newer schema
	seqs     map[life]uint64
	gaps     map[life]uint64 // lines missing
}

func newLineReader(ctx context.Context, progress func(read, all int64), sources []source) (*lineReader, error) {
	r := &lineReader{ctx: ctx, progress: progress, seqs: make(map[life]uint64), gaps: make(map[life]uint64)}
	for _, s := range sources {
		for _, n := range s.logs {
			for _, log := range logs {
				list, err := files(n.dir, log)
				if err != nil {
					return nil, err
				}
				for _, f := range list {
					r.all += f.size
				}
			}
		}
	}
	return r, nil
}

// logs in the order in which they are read: each pass needs what those before it found.
var logs = []string{journal.LogNode, journal.LogCoord, journal.LogAssign, journal.LogMember, journal.LogProxy, journal.LogQueue,
	journal.LogLoad, journal.LogFetch}

// each fills e, whose Line is line, with every line of a log and calls do.
func (r *lineReader) each(dir, log string, e journal.Entry, line *journal.Line, do func() error) error {
	list, err := files(dir, log)
	if err != nil {
		return err
	}
	for _, f := range list {
		if err := r.file(f, log, e, line, do); err != nil {
			return fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return nil
}

func (r *lineReader) file(f logFile, log string, e journal.Entry, line *journal.Line, do func() error) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := io.Reader(counted{file, r})
	if f.packed {
		if in, err = gzip.NewReader(in); err != nil {
			r.cut++
			return nil
		}
	}
	return r.stream(in, f, log, e, line, do)
}

// stream is file for what is in the file.
func (r *lineReader) stream(in io.Reader, f logFile, log string, e journal.Entry, line *journal.Line, do func() error) error {
	lines := journal.NewReader(in)
	defer func() { r.damaged += int64(lines.Skipped()) }()
	var corrupt flate.CorruptInputError
	for {
		err := lines.Next(e)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
			r.cut++
			return nil
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, journal.ErrVersion):
			r.newer = f.path
			return nil
		case err != nil:
			return err
		}
		if r.lines++; r.lines%1024 == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		if !r.next(log, line) {
			continue
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// next notes a line's number; false if the line was there before.
func (r *lineReader) next(log string, l *journal.Line) bool {
	k := life{r.run, log, l.Node, l.Boot}
	last := r.seqs[k]
	if l.Seq <= last {
		r.repeated++
		return false
	}
	if missing := l.Seq - last - 1; missing > 0 {
		r.gaps[k] += missing
	}
	r.seqs[k] = l.Seq
	return true
}

// counted tells how far the reading has come.
type counted struct {
	io.Reader
	r *lineReader
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.r.read += int64(n)
	if c.r.progress != nil && c.r.read-c.r.told >= 4<<20 {
		c.r.told = c.r.read
		c.r.progress(c.r.read, c.r.all)
	}
	return n, err
}
