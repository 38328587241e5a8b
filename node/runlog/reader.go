package runlog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
)

// MaxLine bounds a line in bytes. No longer line is written, and a Reader skips longer ones.
const MaxLine = 1 << 20

// ErrVersion is the error of a line in a newer schema, whose meaning is not known.
var ErrVersion = errors.New("newer version of the log")

// Entry is a pointer to one of the line types.
type Entry interface{ line() *Line }

func (l *Line) line() *Line { return l }

// UnmarshalJSON decodes a line of the node log.
func (e *Event) UnmarshalJSON(b []byte) error {
	known := struct {
		*Line
		Event *string `json:"event"`
		Level *string `json:"level"`
	}{&e.Line, &e.Event, &e.Level}
	if err := json.Unmarshal(b, &known); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &e.Attrs); err != nil {
		return err
	}
	for _, key := range lineKeys {
		delete(e.Attrs, key)
	}
	return nil
}

// Reader streams the lines of one log file. It is not safe for concurrent use.
type Reader struct {
	in      *bufio.Reader
	long    []byte
	skipped int
}

// NewReader reads from r, which it buffers.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next fills e with the next valid line, and returns io.EOF after the last. It skips and counts lines that a crash has torn and
// lines that are not of a run log. Other errors are ErrVersion and those of the underlying reader.
func (r *Reader) Next(e Entry) error {
	for {
		b, err := r.readLine()
		if len(b) > 0 {
			reflect.ValueOf(e).Elem().SetZero()
			if json.Unmarshal(b, e) == nil && e.line().V > 0 {
				if v := e.line().V; v > Version {
					return fmt.Errorf("read log: version %d, known are up to %d: %w", v, Version, ErrVersion)
				}
				return nil
			}
			r.skipped++
		}
		if err != nil {
			reflect.ValueOf(e).Elem().SetZero()
			return err
		}
	}
}

// Skipped returns how many lines were skipped so far.
func (r *Reader) Skipped() int { return r.skipped }

// readLine returns the next line without its newline, valid until the next call. It returns an empty line in place of one that
// is too long, which it counts as skipped. With an error it returns what came before.
func (r *Reader) readLine() ([]byte, error) {
	r.long = r.long[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		if n := len(part); err == nil {
			part = part[:n-1]
		}
		if tooLong = tooLong || len(r.long)+len(part) > MaxLine; !tooLong && (len(r.long) > 0 || err != nil) {
			r.long = append(r.long, part...)
			part = r.long
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read log: %w", err)
		}
		if tooLong {
			r.skipped++
			return nil, err
		}
		return part, err
	}
}

// logFile is a file of a log with its number. The current file has the largest.
type logFile struct {
	fs.DirEntry
	number int
}

const current = math.MaxInt

var fileForm = regexp.MustCompile(`^([a-z]+)(?:-(\d{6,9}))?\.jsonl(\.gz)?$`)

// list lists the files of a log in the order of writing. A plain file comes before a packed one of the same number, whose name is longer.
func list(dir, name string) (files []logFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	for _, e := range entries {
		m := fileForm.FindStringSubmatch(e.Name())
		if m == nil || m[1] != name {
			continue
		}
		f := logFile{e, current}
		if m[2] != "" {
			if f.number, err = strconv.Atoi(m[2]); err != nil {
				return nil, fmt.Errorf("list logs: number of %s: %w", e.Name(), err)
			}
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b logFile) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.Name(), b.Name()))
	})
	return files, nil
}

// Files lists the files of a log (LogFetch, …) in the order of writing, the current one last. Files of other machines may be packed (.gz). A
// file that is there both packed and not counts once: the plain one.
func Files(dir, name string) (paths []string, err error) {
	files, err := list(dir, name)
	last := -1
	for _, f := range files {
		if !f.IsDir() && f.number != last {
			last = f.number
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	return paths, err
}
