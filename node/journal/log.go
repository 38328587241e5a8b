package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	suffix       = ".jsonl"
	spareBuffer  = 64 << 10 // bytes kept between lines
	firstRotated = 1
)

// ErrClosed is the error of a line that came after Close.
var ErrClosed = errors.New("journal is closed")

// log is one of the files: numbered lines, written at once, rotated by size. Its methods are safe for concurrent use.
type log struct {
	dir, name string
	maxBytes  int64
	keep      int
	now       func() time.Time
	onError   func(error)
	meta      []byte // `{"v":1,…,"seq":`

	mu      sync.Mutex
	file    *os.File
	size    int64 // bytes
	limit   int64 // size at which to rotate; more than maxBytes after a rotation that failed
	next    int   // number of the next rotated file
	seq     uint64
	torn    bool   // the file does not end in a newline
	failing bool   // the last line was lost: do not report the next
	lost    uint64 // lines
	err     error  // the first that lost a line
	buf     []byte
}

// openLog continues the file that is there.
func openLog(name string, cfg Config, meta Meta, deps Deps) (*log, error) {
	l := &log{dir: cfg.Dir, name: name, maxBytes: cfg.MaxFileBytes, limit: cfg.MaxFileBytes, keep: cfg.Keep, now: deps.Now,
		onError: deps.OnError}
	l.meta = append(l.meta, `{"`+KeyV+`":`...)
	l.meta = strconv.AppendInt(l.meta, Version, 10)
	l.meta = appendString(append(l.meta, `,"`+KeyRun+`":`...), clip(meta.Run, maxText))
	l.meta = appendString(append(l.meta, `,"`+KeyNode+`":`...), clip(meta.Node, maxText))
	l.meta = strconv.AppendUint(append(l.meta, `,"`+KeyBoot+`":`...), meta.Boot, 10)
	l.meta = append(l.meta, `,"`+KeySeq+`":`...)

	rotated, err := listRotated(l.dir, name)
	if err != nil {
		return nil, err
	}
	l.next = firstRotated
	if n := len(rotated); n > 0 {
		l.next = rotated[n-1].number + 1
	}
	if err := l.prune(); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if l.torn {
		n, err := l.file.WriteString("\n")
		l.size += int64(n)
		l.torn = err != nil // the next line will begin with the newline
	}
	return l, nil
}

func (l *log) path() string { return filepath.Join(l.dir, l.name+suffix) }

// open opens the current file and finds out how it ends.
func (l *log) open() error {
	f, err := os.OpenFile(l.path(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log %s: %w", l.name, err)
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log %s: %w", l.name, err), f.Close())
	}
	torn := false
	if st.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], st.Size()-1); err != nil {
			return errors.Join(fmt.Errorf("read end of log %s: %w", l.name, err), f.Close())
		}
		torn = last[0] != '\n'
	}
	l.file, l.size, l.torn = f, st.Size(), torn
	return nil
}

// begin locks the log and returns the buffer with the beginning of the next line. The caller appends `,"key":value` pairs
// and must call commit.
func (l *log) begin() []byte {
	l.mu.Lock()
	l.seq++
	b := l.buf[:0]
	if l.torn {
		b = append(b, '\n')
	}
	b = strconv.AppendUint(append(b, l.meta...), l.seq, 10)
	return appendTime(append(b, `,"`+KeyTime+`":`...), l.now())
}

// write writes one line of pairs that are encoded already, or gives it up if they could not be.
func (l *log) write(pairs []byte, err error) {
	l.commit(append(l.begin(), pairs...), err)
}

// commit ends the line and writes it with one write(2), so that what has been logged survives a kill of the process.
// With an error the line is given up.
func (l *log) commit(b []byte, err error) { l.report(l.put(b, err)) }

// report passes an error of put on. No lock may be held: who hears of it may log.
func (l *log) report(err error) {
	if err != nil && l.onError != nil {
		l.onError(err)
	}
}

// put is commit without the report, which it returns.
func (l *log) put(b []byte, err error) (report error) {
	defer l.mu.Unlock()
	b = append(b, "}\n"...)
	if cap(b) <= spareBuffer {
		l.buf = b
	}
	if err == nil && l.file == nil {
		err = ErrClosed
	}
	if err == nil && l.size > 0 && l.size+int64(len(b)) > l.limit {
		report = l.rotate()
	}
	if err == nil {
		var n int
		n, err = l.file.Write(b)
		l.size += int64(n)
		if n > 0 {
			l.torn = b[n-1] != '\n'
		}
	}
	if err == nil {
		l.failing = false
		return report
	}
	err = fmt.Errorf("write log %s: %w", l.name, err)
	if l.lost++; l.lost == 1 {
		l.err = err
	}
	if l.failing {
		return report
	}
	l.failing = true
	return errors.Join(report, err)
}

// rotate gives the file its number and begins the next. If that fails, lines go on into the old one, and the next
// attempt comes after as many bytes again.
func (l *log) rotate() error {
	old := l.file
	err := os.Rename(l.path(), filepath.Join(l.dir, rotatedName(l.name, l.next)))
	if err == nil {
		l.next++
	}
	// A file that is gone was renamed by an attempt that failed later, or by someone else: go on.
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = l.open()
	}
	if err != nil {
		l.limit = l.size + l.maxBytes
		return fmt.Errorf("rotate log %s: %w", l.name, err)
	}
	l.limit = l.maxBytes
	return errors.Join(old.Close(), l.prune())
}

// prune deletes the oldest rotated files.
func (l *log) prune() error {
	if l.keep == 0 {
		return nil
	}
	files, err := listRotated(l.dir, l.name)
	if err != nil {
		return err
	}
	for len(files) > l.keep {
		if err := os.Remove(filepath.Join(l.dir, files[0].name)); err != nil {
			return fmt.Errorf("delete old log: %w", err)
		}
		files = files[1:]
	}
	return nil
}

// failure is what the log lost so far.
func (l *log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == 0 {
		return nil
	}
	return fmt.Errorf("log %s lost %d lines: %w", l.name, l.lost, l.err)
}

func (l *log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

type rotatedFile struct {
	name   string
	number int
}

func rotatedName(name string, number int) string {
	return fmt.Sprintf("%s-%06d%s", name, number, suffix)
}

var rotatedForm = regexp.MustCompile(`^([a-z]+)-(\d{6,9})\.jsonl$`)

// listRotated lists the rotated files of a log, oldest first.
func listRotated(dir, name string) ([]rotatedFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var files []rotatedFile
	for _, e := range entries {
		m := rotatedForm.FindStringSubmatch(e.Name())
		if m == nil || m[1] != name {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("list logs: number of %s: %w", e.Name(), err)
		}
		files = append(files, rotatedFile{e.Name(), n})
	}
	slices.SortFunc(files, func(a, b rotatedFile) int { return a.number - b.number })
	return files, nil
}
