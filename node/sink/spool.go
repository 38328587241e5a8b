package sink

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"proxima/frontier/coder"
)

// Suffixes of the files in the directory of a sink.
const (
	suffixSpool    = ".spool" // records of a package that is not made yet
	suffixNew      = ".new"   // being written
	suffixManifest = ".json"  // its package is whole
)

const spoolVersion = 2

// spool is a file with the records of one future package, as a sequence of frames: length of the payload (4 bytes), its CRC-32C
// (4 bytes), payload. The first frame is the header; each other frame is a record. A record counts once its receipt is in
// the frontier, which is looked up when the package is made.
type spool struct {
	header
	path    string
	file    *os.File // nil once the spool is closed
	size    int64    // bytes of complete frames
	torn    bool     // a failed write left bytes behind size
	records uint32
	// out counts the records whose downloads have not ended. Sink.mu guards it.
	out int
	// made are its packages; nil until all of them are made. Only the packer uses it.
	made []*madePackage
}

// header is the first frame of a spool.
type header struct {
	V       int       `json:"v"`
	Name    string    `json:"name"`
	Boot    uint32    `json:"boot"`
	Serial  uint32    `json:"serial"`
	Formats []string  `json:"formats"`
	Begun   time.Time `json:"begun"`
}

// Lengths of a receipt's key and of the prefix that it shares with the other receipts of its spool.
const receiptLength, prefixLength = 12, 8

// receiptKey returns the key of a record's receipt or, without a record, the prefix of all receipts of the spool.
func (h *header) receiptKey(record ...uint32) []byte {
	key := binary.BigEndian.AppendUint32(nil, h.Boot)
	key = binary.BigEndian.AppendUint32(key, h.Serial)
	for _, n := range record {
		key = binary.BigEndian.AppendUint32(key, n)
	}
	return key
}

// mark is what each record of the spool begins with. The authors of pages do not know the name of a spool, so no page can look like records.
func (h *header) mark() []byte {
	sum := sha256.Sum256([]byte(h.Name))
	return sum[:8]
}

// spooled is a record in a spool.
type spooled struct {
	n     uint32
	page  bool
	time  time.Time
	parts [][]byte // one per format, empty where the record has nothing for it
}

const frameHead = 8

// maxFrame bounds a frame in bytes, so that a damaged length does not exhaust memory.
const maxFrame = 1<<31 - 1

func appendFrame(b, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, payload...)
}

// code is the form of a record behind its mark. What is read is a part of the bytes that it was read from.
func (r *spooled) code(c *coder.Coder) {
	coder.Small(c, &r.n, math.MaxUint32)
	c.Flags(&r.page)
	at := r.time.UnixNano()
	if c.Varint(&at, math.MaxInt64); c.Reading() {
		r.time = time.Unix(0, at).UTC()
	}
	for i := range r.parts {
		c.Bytes(&r.parts[i], maxFrame)
	}
}

func (r *spooled) append(b, mark []byte) []byte {
	c := coder.Writer(append(b, mark...))
	r.code(&c)
	return c.B
}

var errDamaged = errors.New("a record of the spool is damaged")

// read reads as many parts as there are. It leaves out what is behind them.
func (r *spooled) read(b, mark []byte) error {
	b, marked := bytes.CutPrefix(b, mark)
	c := coder.Reader(b)
	if r.code(&c); !marked || c.Err() != nil {
		return errDamaged
	}
	return nil
}

func beginSpool(d disk, dir string, h header) (*spool, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	s := &spool{header: h, path: filepath.Join(dir, h.Name+suffixSpool)}
	if s.file, err = d.create(s.path); err != nil {
		return nil, err
	}
	if err = s.append(d, appendFrame(nil, head)); err == nil {
		err = d.syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close(), os.Remove(s.path))
	}
	return s, nil
}

// append writes and syncs complete frames. If it fails, none of them counts.
func (s *spool) append(d disk, b []byte) error {
	if s.torn {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("cut off half a record: %w", err)
		}
		s.torn = false
	}
	err := d.write(s.file, b, s.size)
	if err == nil {
		err = d.sync(s.file)
	}
	if err != nil {
		s.torn = s.file.Truncate(s.size) != nil
		return err
	}
	s.size += int64(len(b))
	return nil
}

// openSpool reads a spool that an earlier life left. If its header is damaged, the name of the file and these formats take its
// place.
func openSpool(path string, formats []string) (*spool, error) {
	s := &spool{path: path}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch payload, err := readFrame(f, nil, info.Size()); {
	case damaged(err) || errors.Is(err, io.EOF):
		h := header{V: spoolVersion, Name: strings.TrimSuffix(filepath.Base(path), suffixSpool), Formats: formats, Begun: info.ModTime().UTC()}
		words := strings.Split(h.Name, "-")
		if _, err := fmt.Sscanf(strings.Join(words[max(0, len(words)-2):], " "), "%d %d", &h.Boot, &h.Serial); err != nil {
			return s, nil // no sink has made it
		}
		s.header = h
	case err != nil:
		return nil, err
	case json.Unmarshal(payload, &s.header) != nil || s.V != spoolVersion:
		return nil, fmt.Errorf("%s is from another version of the program", filepath.Base(path))
	}
	s.size, err = s.each(func(*spooled) error { return nil })
	return s, err
}

// each calls visit for every complete record and returns where the last of them ends. It skips the header, damaged frames, and a frame that
// a crash tore. The record is valid until visit returns.
func (s *spool) each(visit func(r *spooled) error) (size int64, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	r := spooled{parts: make([][]byte, len(s.Formats))}
	var payload []byte
	in := bufio.NewReaderSize(f, 1<<20)
	mark, end, at := s.mark(), info.Size(), int64(-1)
	least := uint32(0) // the number of the next record, unless it is missing
	for lost := true; ; {
		if lost {
			if at, err = nextFrame(f, at+1, end, mark); err != nil || at == end {
				return size, err
			}
			if _, err = f.Seek(at, io.SeekStart); err != nil {
				return size, err
			}
			in.Reset(f)
		}
		payload, err = readFrame(in, payload, end-at)
		if err == nil {
			err = r.read(payload, mark)
		}
		if err == nil && r.n < least { // it comes twice
			err = errDamaged
		}
		if lost = damaged(err); lost {
			continue
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err == nil {
			err = visit(&r)
		}
		if err != nil {
			return size, err
		}
		least = r.n + 1
		at += int64(frameHead + len(payload))
		size = at
	}
}

// damaged reports whether an error of readFrame or read is one of the content.
func damaged(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, io.ErrUnexpectedEOF)
}

// nextFrame returns where the next record with a mark begins, from a place on, or the end if there is none. It may be damaged, too.
func nextFrame(f io.ReaderAt, from, end int64, mark []byte) (int64, error) {
	const window = 1 << 20
	in := bufio.NewReaderSize(io.NewSectionReader(f, from+frameHead, end-from-frameHead), window)
	for {
		some, err := in.Peek(window)
		if i := bytes.Index(some, mark); i >= 0 {
			return from + int64(i), nil
		}
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		n, _ := in.Discard(window - len(mark) + 1) // which is there
		from += int64(n)
	}
}

// readFrame reads a frame of at most most bytes.
func readFrame(in io.Reader, memory []byte, most int64) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return memory, err
	}
	n := binary.LittleEndian.Uint32(head[:4])
	if n == 0 || int64(n) > min(maxFrame, most-frameHead) {
		return memory, errDamaged
	}
	if uint32(cap(memory)) < n {
		memory = make([]byte, n)
	}
	memory = memory[:n]
	if _, err := io.ReadFull(in, memory); err != nil {
		return memory, err
	}
	if crc32.Checksum(memory, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(head[4:]) {
		return memory, errDamaged
	}
	return memory, nil
}
