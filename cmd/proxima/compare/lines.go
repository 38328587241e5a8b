package compare

import (
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"proxima/node/runlog"
)

// life is one boot of a node, in one of its logs.
type life struct {
	run       int
	log, node string
	boot      uint64
}

// lineReader reads logs line by line, and notes what is missing.
type lineReader struct {
	Reading
	ctx  context.Context
	run  int             // being read
	seqs map[life]uint64 // number of the last line
	gaps map[life]uint64 // lines missing
}

// each fills e, whose Line is line, with every line of a log and calls do.
func (r *lineReader) each(dir, log string, e runlog.Entry, line *runlog.Line, do func() error) error {
	list, err := runlog.Files(dir, log)
	if err != nil {
		return err
	}
	for _, path := range list {
		if err := r.file(path, log, e, line, do); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	return nil
}

func (r *lineReader) file(path, log string, e runlog.Entry, line *runlog.Line, do func() error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // opening a pipe waits for somebody who writes to it
		r.Unread = append(r.Unread, path+" is no regular file")
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r.Bytes += info.Size()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			r.Cut++
			return nil
		}
	}
	return r.stream(in, path, log, e, line, do)
}

// stream is file for the content of a file.
func (r *lineReader) stream(in io.Reader, path, log string, e runlog.Entry, line *runlog.Line, do func() error) error {
	lines := runlog.NewReader(in)
	defer func() { r.Damaged += int64(lines.Skipped()) }()
	for {
		err := lines.Next(e)
		_, corrupt := errors.AsType[flate.CorruptInputError](err)
		switch {
		case corrupt, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
			r.Cut++
			return nil
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, runlog.ErrVersion):
			r.Unread = append(r.Unread, path+" has a newer version")
			return nil
		case err != nil:
			return err
		}
		if r.Lines++; r.Lines%1024 == 0 {
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

// next notes the number of a line. It returns false for a line that was there before.
func (r *lineReader) next(log string, l *runlog.Line) bool {
	k := life{r.run, log, l.Node, l.Boot}
	last := r.seqs[k]
	if l.Seq <= last {
		r.Repeated++
		return false
	}
	if missing := l.Seq - last - 1; missing > 0 {
		r.gaps[k] += missing
	}
	r.seqs[k] = l.Seq
	return true
}

func (c *comparer) reading() Reading {
	g := c.lines.Reading
	for k, n := range c.lines.gaps {
		g.Missing += int64(n)
		g.Gaps = append(g.Gaps, Gap{c.runs[k.run].nameOf(k.node), k.log, k.boot, n})
	}
	slices.SortFunc(g.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Log, b.Log), cmp.Compare(a.Boot, b.Boot))
	})
	return g
}
