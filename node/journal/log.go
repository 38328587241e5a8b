package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
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

// log is one of the files: numbered lines, rotated by size. A line is in the file when the call that logs it returns;
// lines that are logged at the same time share a write. Its methods are safe for concurrent use.
type log struct {
	dir, name string
	maxBytes  int64
	keep      int
	now       func() time.Time
	onError   func(error)
	meta      []byte // `{"v":1,…,"seq":`

	mu      sync.Mutex
	seq     uint64
	stamp   stamp
	lines   []byte // those that no write has taken yet, behind a newline that is for a torn file
	from    int    // where in lines the last one begins
	spare   []byte // memory for lines
	begun   uint64 // writes that have taken their lines
	ended   uint64 // the last of them that has ended
	written sync.Cond
	writing bool   // somebody is about to write, and owns what follows the errors
	failing bool   // the last write lost lines: do not report the next
	lost    uint64 // lines
	err     error  // the first that lost a line

	file  *os.File
	size  int64 // bytes
	limit int64 // size at which to rotate; more than maxBytes after a rotation that failed
	next  int   // number of the next rotated file
	torn  bool  // the file does not end in a newline
}

// openLog continues the file that is there.
func openLog(name string, cfg Config, meta Meta, deps Deps) (*log, error) {
	l := &log{dir: cfg.Logs, name: name, maxBytes: cfg.LogFileBytes, limit: cfg.LogFileBytes, keep: cfg.LogKeep, now: deps.Now,
		onError: deps.OnError}
	l.written.L = &l.mu
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
	f, err := os.OpenFile(l.path(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
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

// begin locks the log and returns its lines with the beginning of the next. The caller appends `,"key":value` pairs and
// must call commit or put.
func (l *log) begin() []byte {
	l.mu.Lock()
	l.seq++
	b := l.lines
	if len(b) == 0 {
		b = append(b, '\n')
	}
	l.from = len(b)
	b = strconv.AppendUint(append(b, l.meta...), l.seq, 10)
	return l.stamp.append(append(b, `,"`+KeyTime+`":`...), l.now())
}

// write writes one line, or gives it up if it cannot be encoded.
func (l *log) write(e Entry) {
	*e.line() = Line{}
	b, err := pairs(e)
	l.commit(append(l.begin(), b...), err)
}

// commit ends the line and returns when it is written, so that what has been logged survives a kill of the process. With
// an error the line is given up.
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
	if err != nil {
		if l.from == 1 {
			l.from = 0 // no line, no newline
		}
		l.lines = b[:l.from]
		return l.lose(1, err)
	}
	l.lines = append(b, "}\n"...)
	for before := l.begun; l.ended <= before; l.written.Wait() {
		if !l.writing {
			return l.flush()
		}
	}
	return nil
}

// flush writes all lines with one write(2). It needs mu held.
func (l *log) flush() (report error) {
	l.writing = true
	l.mu.Unlock()
	runtime.Gosched() // a write costs more than a line: who is about to log something comes along
	l.mu.Lock()
	b := l.lines
	l.lines, l.spare = l.spare[:0], nil
	l.begun++
	l.mu.Unlock()
	lost, report, err := l.append(b)
	l.mu.Lock()
	l.writing, l.ended = false, l.begun
	l.written.Broadcast()
	if cap(b) <= spareBuffer {
		l.spare = b
	}
	if err != nil {
		return errors.Join(report, l.lose(lost, err))
	}
	l.failing = false
	return report
}

// append writes lines to the file. With an error it says how many are lost; report is of a rotation that failed. It is
// called by whoever is writing, without mu.
func (l *log) append(b []byte) (lost int, report, err error) {
	lines := b[1:]
	if l.file == nil {
		return bytes.Count(lines, []byte("\n")), nil, ErrClosed
	}
	if !l.torn {
		b = lines
	}
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		report = l.rotate()
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	if n > 0 {
		l.torn = b[n-1] != '\n'
	}
	if err != nil {
		lost = bytes.Count(lines[max(0, n-len(b)+len(lines)):], []byte("\n"))
	}
	return lost, report, err
}

// lose counts lines that are lost, and returns the error if it is to be reported. It needs mu held.
func (l *log) lose(lines int, err error) error {
	err = fmt.Errorf("write log %s: %w", l.name, err)
	if l.lost == 0 {
		l.err = err
	}
	l.lost += uint64(lines)
	if l.failing {
		return nil
	}
	l.failing = true
	return err
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
	for l.writing || len(l.lines) > 0 { // whoever logged a line that waits will write it
		l.written.Wait()
	}
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
