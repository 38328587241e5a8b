package compare

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// class says what a record is about, and so with which others it is joined.
type class uint8

const (
	classPage     class = iota // a download of a page; key is the URL
	classDecision              // what an assigner decided about a server in a batch, and the estimates that it asked for
	classMove                  // a host has a new owner; key is the host
)

// record is what is kept of a line until it meets the others with its key. Of a decision, bytes is the number of estimates that were
// asked for and node the one that was chosen.
type record struct {
	key    uint64 // hash
	batch  uint64 // hash, 0 for none
	time   int64  // ms since 1970
	ms     float32
	bytes  uint32
	server uint32 // index in names
	run    uint16
	node   uint16 // index in the run, noNode for none
	labels uint16 // a bit for each assigner
	status uint16
	class  class
	flags  uint8
}

const recordSize = 8 + 8 + 8 + 4 + 4 + 4 + 2 + 2 + 2 + 2 + 1 + 1

// Flags of a record.
const (
	flagCompared  = 1 << iota // downloaded for a comparison
	flagEstimate              // downloaded for an estimate; of a decision's class: the token of one
	flagRound                 // in a round of mode persistent
	flagOK                    // answered with a status below 400
	flagHTML                  // and it was a page
	flagCut                   // broken off by this side: says nothing
	flagAgain                 // another try may succeed
	flagTruncated             // the assigner decided because it had to
)

const noNode = math.MaxUint16

// partitions is into how many parts the records are spread, by key: 10 GB of logs are 0.8 GB of records, of which 3 MB are in memory
// at a time.
const partitions = 256

const partBuffer = 8 << 10 // bytes

// spill holds records, on disk where they are many, and gives them back joined by key. It is not safe for concurrent use.
type spill struct {
	dir   string // made when first needed
	temp  string
	parts [partitions]part
	buf   [recordSize]byte
}

type part struct {
	mem  []byte
	file *os.File
}

func newSpill(temp string) *spill { return &spill{temp: temp} }

func (s *spill) add(r record) error {
	p := &s.parts[(r.key>>32^uint64(r.class))%partitions]
	if len(p.mem)+recordSize > partBuffer {
		if err := s.flush(p); err != nil {
			return err
		}
	}
	p.mem = append(p.mem, r.encode(&s.buf)...)
	return nil
}

func (s *spill) flush(p *part) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp(s.temp, "proxima-compare-"); err != nil {
			return fmt.Errorf("make folder for temporary files: %w", err)
		}
	}
	if p.file == nil {
		if p.file, err = os.CreateTemp(s.dir, "part-"); err != nil {
			return fmt.Errorf("make temporary file: %w", err)
		}
	}
	if _, err := p.file.Write(p.mem); err != nil {
		return fmt.Errorf("write temporary file in %s: %w", filepath.Dir(s.dir), err)
	}
	p.mem = p.mem[:0]
	return nil
}

// groups calls a function with all records of each key and class, sorted by run, batch and time. They are valid during the call.
func (s *spill) groups(do func([]record) error) error {
	var list []record
	for i := range s.parts {
		p := &s.parts[i]
		list = list[:0]
		if p.file != nil {
			if _, err := p.file.Seek(0, io.SeekStart); err != nil {
				return fmt.Errorf("read temporary file: %w", err)
			}
			in := bufio.NewReaderSize(p.file, 64<<10)
			for {
				_, err := io.ReadFull(in, s.buf[:])
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return fmt.Errorf("read temporary file: %w", err)
				}
				list = append(list, decodeRecord(s.buf[:]))
			}
		}
		for b := p.mem; len(b) > 0; b = b[recordSize:] {
			list = append(list, decodeRecord(b))
		}
		p.mem = nil
		slices.SortStableFunc(list, compareRecords)
		for rest := list; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].key == rest[0].key && rest[n].class == rest[0].class {
				n++
			}
			if err := do(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return nil
}

// close deletes the temporary files.
func (s *spill) close() error {
	var errs []error
	for i := range s.parts {
		if f := s.parts[i].file; f != nil {
			errs = append(errs, f.Close())
		}
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.key, b.key), cmp.Compare(a.run, b.run), cmp.Compare(a.batch, b.batch),
		cmp.Compare(a.time, b.time), cmp.Compare(a.node, b.node))
}

func (r record) encode(to *[recordSize]byte) []byte {
	b, le := to[:0], binary.LittleEndian
	b = le.AppendUint64(b, r.key)
	b = le.AppendUint64(b, r.batch)
	b = le.AppendUint64(b, uint64(r.time))
	b = le.AppendUint32(b, math.Float32bits(r.ms))
	b = le.AppendUint32(b, r.bytes)
	b = le.AppendUint32(b, r.server)
	b = le.AppendUint16(b, r.run)
	b = le.AppendUint16(b, r.node)
	b = le.AppendUint16(b, r.labels)
	b = le.AppendUint16(b, r.status)
	return append(b, byte(r.class), r.flags)
}

func decodeRecord(b []byte) record {
	le := binary.LittleEndian
	return record{key: le.Uint64(b), batch: le.Uint64(b[8:]), time: int64(le.Uint64(b[16:])), ms: math.Float32frombits(le.Uint32(b[24:])),
		bytes: le.Uint32(b[28:]), server: le.Uint32(b[32:]), run: le.Uint16(b[36:]), node: le.Uint16(b[38:]), labels: le.Uint16(b[40:]),
		status: le.Uint16(b[42:]), class: class(b[44]), flags: b[45]}
}
