package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	suffix   = ".jsonl"
	timeForm = "2006-01-02T15:04:05.000Z"
	maxSpare = 256 << 10 // bytes of a buffer that is kept
)

var newline = []byte{'\n'}

// ErrClosed is the error of a line that came after Close.
var ErrClosed = errors.New("run log is closed")

// log is one file of numbered lines, which is rotated by size. When a call that logs a line returns, the line is in the file.
// The methods are safe for concurrent use.
type log struct {
	name string
	cfg  Config
	deps Deps
	meta []byte // the beginning of every line: `{"v":1,…,"seq":`

	// mu guards the lines that wait to be written.
	mu    sync.Mutex
	seq   uint64
	lines []byte

	// fileMu guards the fields below. It is taken before mu.
	fileMu  sync.Mutex
	spare   []byte // for the lines that come during a write
	failing bool   // the last line was lost: do not report the next loss
	lost    uint64 // lines
	err     error  // the first that lost a line

	file  *os.File
	size  int64 // bytes
	limit int64 // size at which to rotate; above LogFileBytes after a rotation that failed
	torn  bool  // the file does not end in a newline
	last  int   // number of the last rotated file of this life
	// nameless means that the file was moved or deleted, and that no other could be opened: do not report that again.
	nameless bool
}

// openLog opens a log, which continues the file that is there.
func openLog(name string, cfg Config, meta Meta, deps Deps) (*log, error) {
	l := &log{name: name, cfg: cfg, deps: deps, limit: cfg.LogFileBytes}
	head, err := json.Marshal(Line{V: Version, Run: clip(meta.Run, maxText), Node: clip(meta.Node, maxText), Boot: meta.Boot})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", name, err)
	}
	toSeq := `"` + KeySeq + `":`
	l.meta = head[:bytes.LastIndex(head, []byte(toSeq))+len(toSeq)]

	if err := l.prune(); err != nil {
		return nil, err
	}
	return l, l.open()
}

func (l *log) path() string { return filepath.Join(l.cfg.Logs, l.name+suffix) }

// open opens the current file and finds out whether it is torn.
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

func (l *log) write(e Entry) { l.report(l.put(pairs(e))) }

// report hands an error to OnError. The caller must hold no lock, since OnError may log.
func (l *log) report(err error) {
	if err != nil && l.deps.OnError != nil {
		l.deps.OnError(err)
	}
}

// put writes one line: the keys of Line, then pairs. If encoding the pairs has failed with err, the line is lost. put returns
// an error to be reported, if any.
func (l *log) put(pairs []byte, err error) (report error) {
	if l.addLine(pairs, err == nil); err == nil {
		runtime.Gosched() // a write costs more than a line: let callers join that are about to log something
	}
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if err != nil {
		return l.loseLocked(1, err)
	}
	return l.writeLocked()
}

// addLine numbers a line and, if it is whole, adds it to those that wait.
func (l *log) addLine(pairs []byte, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	if !whole {
		return
	}
	b := strconv.AppendUint(append(l.lines, l.meta...), l.seq, 10)
	b = append(b, `,"`+KeyTime+`":"`...)
	b = append(l.deps.Now().UTC().AppendFormat(b, timeForm), `",`...)
	l.lines = append(append(b, pairs...), "}\n"...)
}

// writeLocked writes the lines that wait, if another caller has not done so.
func (l *log) writeLocked() (report error) {
	l.mu.Lock()
	b := l.lines
	l.lines, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	if len(b) == 0 {
		l.spare = b
		return nil
	}
	if l.file == nil {
		return l.loseLocked(bytes.Count(b, newline), ErrClosed)
	}
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		report = l.rotateLocked()
	}
	first := 0 // where the first line begins
	if l.torn {
		b, first = slices.Insert(b, 0, '\n'), 1
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	if n > 0 {
		l.torn = b[n-1] != '\n'
	}
	if cap(b) <= maxSpare {
		l.spare = b[:0]
	}
	if err != nil {
		return errors.Join(report, l.loseLocked(bytes.Count(b[max(n, first):], newline), err))
	}
	l.failing = false
	return report
}

// loseLocked counts lost lines, and returns the error if it is to be reported.
func (l *log) loseLocked(lines int, err error) error {
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

// rotateLocked renames the file and begins the next. If that fails, lines still go into the old file, and the next attempt
// follows after another LogFileBytes.
func (l *log) rotateLocked() error {
	old := l.file
	next, err := l.next()
	if err == nil {
		err = os.Rename(l.path(), filepath.Join(l.cfg.Logs, fmt.Sprintf("%s-%06d%s", l.name, next, suffix)))
	}
	if err == nil {
		l.last = next
	}
	// A missing file was renamed by an attempt that failed later, or by someone else.
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = l.open()
	}
	if err != nil {
		l.limit = l.size + l.cfg.LogFileBytes
		return fmt.Errorf("rotate log %s: %w", l.name, err)
	}
	l.limit = l.cfg.LogFileBytes
	return errors.Join(old.Close(), l.prune())
}

// follow begins a new file if somebody has moved or deleted the current one: a deleted file would take the lines along, and its room would not be
// free before the next rotation.
func (l *log) follow() (report error) {
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if l.file == nil {
		return nil
	}
	named, err := os.Stat(l.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // the next line tells what is wrong with the disk
	}
	if open, failed := l.file.Stat(); failed != nil || err == nil && os.SameFile(named, open) {
		l.nameless = false
		return nil
	}
	old := l.file
	if err = os.Mkdir(l.cfg.Logs, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
		err = l.open()
	}
	switch {
	case err == nil:
		l.limit, l.nameless = l.cfg.LogFileBytes, false
		return old.Close()
	case l.nameless:
		return nil
	}
	l.nameless = true
	return fmt.Errorf("begin log %s again, whose file was moved or deleted: %w", l.name, err)
}

// next returns the number of the next rotated file. It looks at those that are there, as another node may have made one with the next
// number. Of those that somebody has moved away it repeats no number in one life.
func (l *log) next() (int, error) {
	files, err := list(l.cfg.Logs, l.name)
	last := l.last
	for _, f := range files {
		if f.number != current {
			last = max(last, f.number)
		}
	}
	return last + 1, err
}

// prune deletes the oldest rotated files.
func (l *log) prune() error {
	if l.cfg.LogKeep == 0 {
		return nil
	}
	files, err := list(l.cfg.Logs, l.name)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f logFile) bool {
		return f.number == current || f.IsDir() || !strings.HasSuffix(f.Name(), suffix) // keep what somebody has packed
	})
	for _, f := range files[:max(0, len(files)-l.cfg.LogKeep)] {
		if err := os.Remove(filepath.Join(l.cfg.Logs, f.Name())); err != nil {
			return fmt.Errorf("delete old log: %w", err)
		}
	}
	return nil
}

// failure says how many lines were lost so far, and why the first was.
func (l *log) failure() error {
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if l.lost == 0 {
		return nil
	}
	return fmt.Errorf("log %s lost %d lines: %w", l.name, l.lost, l.err)
}

func (l *log) close() error {
	l.fileMu.Lock()
	defer l.fileMu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
