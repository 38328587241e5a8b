package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const openSuffix = ".open"

// ErrClosed is returned by Write after Close.
var ErrClosed = errors.New("archive is closed")

// Writer archives exchanges. Its methods are safe for concurrent use: bytes are compressed outside of the lock and
// written under it, so records are never torn and the two records of an exchange are neighbours.
type Writer struct {
	cfg     Config
	now     func() time.Time
	members *members
	seen    memory

	randLock sync.Mutex
	rand     io.Reader

	finishing sync.WaitGroup // files detached but not yet renamed

	mu     sync.Mutex
	file   *openFile // nil: the next Write begins one
	serial int
	closed bool
}

// openFile is the file being written. A write that fails (the disk is full) may leave a part of a record behind size,
// which is cut off before anything else is written.
type openFile struct {
	*os.File
	name   string // without openSuffix
	size   int64  // bytes, all whole members
	filled bool   // holds more than the warcinfo record
	torn   bool   // bytes behind size could not be cut off
}

// Open makes the directory, completes files that a crash left open (see complete) and returns a Writer. The first file
// begins with the first Write. Close it.
func Open(cfg Config, deps Deps) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil || deps.Rand == nil {
		return nil, fmt.Errorf("open archive: clock or random source missing")
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make archive directory: %w", err)
	}
	if err := completeAll(cfg.Dir, cfg.Prefix); err != nil {
		return nil, err
	}
	seen, err := newMemory(cfg.RevisitEntries)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	return &Writer{cfg: cfg, now: deps.Now, members: newMembers(cfg.Level, cfg.Digest), seen: seen, rand: deps.Rand}, nil
}

// Write archives one exchange: a response record, or a revisit record with the head alone where the same payload is
// already in the archive, then the request record. When it returns nil the bytes are with the operating system (they
// survive a kill of the process). Errors wrap ErrInvalid, ErrClosed or the disk's error; after an error of the disk the
// exchange is not in the archive, unless all that failed was to complete the file before, and later calls may succeed.
func (w *Writer) Write(ex Exchange) error {
	if err := ex.validate(); err != nil {
		return err
	}
	responseID, requestID, err := w.twoIDs()
	if err != nil {
		return err
	}
	out := w.members.buffer()
	defer w.members.release(out)

	uri := targetURI(ex.URL)
	payload := digest(w.cfg.Digest, ex.Body)
	// An empty payload saves nothing, and a truncated one is not what the server has.
	whole := len(ex.Body) > 0 && ex.Truncated == ""
	var first original
	again := false
	if whole {
		first, again = w.seen.find(payload)
	}
	if err := w.appendResponse(out, &ex, responseID, uri, payload, first, again); err != nil {
		return fmt.Errorf("compress record of %s: %w", uri, err)
	}
	if len(ex.Request) > 0 {
		f := newFields("request", requestID, ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Concurrent-To", responseID.String())
		if err := w.members.append(out, f, typeRequest, ex.Request); err != nil {
			return fmt.Errorf("compress request of %s: %w", uri, err)
		}
	}
	if err := w.store(out.Bytes()); err != nil {
		return fmt.Errorf("archive %s: %w", uri, err)
	}
	if whole && !again {
		w.seen.add(payload, original{id: responseID, uri: strings.Clone(uri), date: ex.Time})
	}
	return nil
}

func (w *Writer) appendResponse(out *bytes.Buffer, ex *Exchange, id uuid, uri, payload string, first original, again bool) error {
	head := archivedHead(ex.ResponseHead)
	if !again {
		f := newFields("response", id, ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Payload-Digest", payload)
		f.add("WARC-Truncated", ex.Truncated)
		return w.members.append(out, f, typeResponse, head, ex.Body)
	}
	f := newFields("revisit", id, ex.Time)
	ex.describe(f, uri)
	f.add("WARC-Profile", profile)
	f.add("WARC-Refers-To", first.id.String())
	f.add("WARC-Refers-To-Target-URI", first.uri)
	f.add("WARC-Refers-To-Date", formatDate(first.date))
	f.add("WARC-Payload-Digest", payload)
	f.add("WARC-Truncated", TruncatedLength) // prescribed for a block without the duplicate payload (6.7.2)
	return w.members.append(out, f, typeResponse, head)
}

// describe adds the fields that the records of one exchange share.
func (ex *Exchange) describe(f *fields, uri string) {
	f.add("WARC-Target-URI", uri)
	if ex.Addr.IsValid() {
		f.add("WARC-IP-Address", ex.Addr.Unmap().WithZone("").String())
	}
	f.add("WARC-Protocol", ex.Protocol)
}

func (w *Writer) twoIDs() (a, b uuid, err error) {
	w.randLock.Lock()
	defer w.randLock.Unlock()
	if a, err = readUUID(w.rand); err == nil {
		b, err = readUUID(w.rand)
	}
	return a, b, err
}

// store writes the members of one exchange, in the next file where this one has no room for them.
func (w *Writer) store(b []byte) error {
	full, err := w.storeLocked(b)
	if full == nil {
		return err
	}
	defer w.finishing.Done()
	return errors.Join(err, full.finish(w.cfg.Dir))
}

// storeLocked returns the file that had no room, if any, for the caller to finish: syncing a large file takes seconds,
// which the other goroutines must not wait for.
func (w *Writer) storeLocked(b []byte) (full *openFile, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	if f := w.file; f != nil && f.filled && f.size+int64(len(b)) > w.cfg.MaxFileBytes {
		full, w.file = f, nil
		w.finishing.Add(1)
	}
	if w.file == nil {
		if w.file, err = w.begin(); err != nil {
			return full, err
		}
	}
	if err := w.file.append(b); err != nil {
		return full, err
	}
	w.file.filled = true
	return full, nil
}

// begin opens the next file and writes its warcinfo record.
func (w *Writer) begin() (*openFile, error) {
	id, suffix, err := w.twoIDs()
	if err != nil {
		return nil, err
	}
	now := w.now().UTC()
	w.serial++
	name := fmt.Sprintf("%s-%s-%05d-%x.warc.gz", w.cfg.Prefix,
		strings.Replace(now.Format("20060102150405.000"), ".", "", 1), w.serial, suffix[:4])

	f := newFields("warcinfo", id, now)
	f.add("WARC-Filename", name)
	info := &fields{}
	info.add("software", w.cfg.Software)
	info.add("format", "WARC File Format 1.1")
	info.add("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/")
	info.add("operator", w.cfg.Operator)
	info.add("robots", w.cfg.Robots)
	record := w.members.buffer()
	defer w.members.release(record)
	if err := w.members.append(record, f, typeWarcinfo, info.b.Bytes()); err != nil {
		return nil, fmt.Errorf("compress warcinfo: %w", err)
	}

	path := filepath.Join(w.cfg.Dir, name+openSuffix)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("begin archive file: %w", err)
	}
	next := &openFile{File: file, name: name}
	if err := next.append(record.Bytes()); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return next, nil
}

// append writes whole members at the end, or nothing that stays.
func (f *openFile) append(b []byte) error {
	if f.torn {
		if err := f.Truncate(f.size); err != nil {
			return fmt.Errorf("cut off half a record: %w", err)
		}
		f.torn = false
	}
	if _, err := f.WriteAt(b, f.size); err != nil {
		f.torn = f.Truncate(f.size) != nil
		return fmt.Errorf("write archive file: %w", err)
	}
	f.size += int64(len(b))
	return nil
}

// finish makes the file durable and gives it its final name.
func (f *openFile) finish(dir string) error {
	var err error
	if f.torn {
		err = f.Truncate(f.size)
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		path := filepath.Join(dir, f.name)
		err = os.Rename(path+openSuffix, path)
	}
	if err != nil {
		return fmt.Errorf("complete archive file %s: %w", f.name, err)
	}
	return nil
}

// Close completes the last file, and waits for others that are being completed. Later calls return nil.
func (w *Writer) Close() error {
	w.mu.Lock()
	f := w.file
	w.file, w.closed = nil, true
	w.mu.Unlock()
	var err error
	if f != nil {
		err = f.finish(w.cfg.Dir)
	}
	w.finishing.Wait()
	return err
}
