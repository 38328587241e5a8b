package sink

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"proxima/fetch/warc"
)

// Record is one download, for the formats that want it.
type Record struct {
	// Exchange is what went over the wire; nil where it cannot be archived.
	Exchange *warc.Exchange
	// Page is its line; nil where it is no page.
	Page *Page
	Time time.Time
	// IsPage says that it was a page that was asked for, not a robots.txt or a sitemap.
	IsPage bool
}

// Page is a line of pages.jsonl.zst.
type Page struct {
	URL    string    `json:"url"`
	Time   time.Time `json:"time"`
	Status int       `json:"status"`
	// Type is that of the header, without parameters.
	Type  string `json:"type"`
	Title string `json:"title"`
	Text  string `json:"text"`
	// Language is a code of ISO 639, "" where it is not known.
	Language string `json:"language"`
	// Links are absolute, in the order of the page, each once.
	Links []string `json:"links"`
	// Digest is that of the body, decoded: "sha256:" and hex.
	Digest string `json:"digest"`
}

// encode makes the part of a record for each format. stored, where it is not nil, must be called when the record stays.
func (s *Sink) encode(r Record) (parts [][]byte, stored func(), err error) {
	for _, format := range s.cfg.Formats {
		var part []byte
		switch {
		case format == WARC && r.Exchange != nil:
			records, err := s.archive.Encode(*r.Exchange)
			if err != nil {
				return nil, nil, err
			}
			stored = records.Stored
			part = binary.AppendUvarint(part, uint64(len(records.Index)))
			part = append(append(part, records.Index...), records.Bytes...)
		case format == Pages && r.Page != nil:
			if part, err = json.Marshal(r.Page); err != nil {
				return nil, nil, err
			}
			part = append(part, '\n')
		}
		parts = append(parts, part)
	}
	return parts, stored, nil
}

// packWARC writes the records of a spool that count as a WARC file and its index.
func (s *Sink) packWARC(p *packing) error {
	file := p.file(".warc.gz")
	var index []string
	err := s.disk.store(p.path(file), func(f *os.File) error {
		head, err := s.archive.Info(file, p.spool.Begun)
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(f, 1<<20)
		at, err := out.Write(head)
		if err != nil {
			return err
		}
		offset := int64(at)
		err = p.each(func(part []byte) error {
			n, used := binary.Uvarint(part)
			if used <= 0 || n > uint64(len(part)-used) {
				return errDamaged
			}
			line, records := part[used:used+int(n)], part[used+int(n):]
			index = append(index, warc.IndexLine(string(line), offset, file))
			offset += int64(len(records))
			_, err := out.Write(records)
			return err
		})
		if err != nil {
			return err
		}
		return out.Flush()
	})
	if err != nil {
		return err
	}
	slices.Sort(index)
	return s.disk.store(p.path(p.file(".cdxj")), func(f *os.File) error {
		out := bufio.NewWriterSize(f, 1<<20)
		for _, line := range index {
			if _, err := io.WriteString(out, line); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}

// packPages writes the lines of a spool that count, compressed.
func (s *Sink) packPages(p *packing) error {
	return s.disk.store(p.path(p.file(".pages.jsonl.zst")), func(f *os.File) error {
		out, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		err = p.each(func(line []byte) error {
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return err
		}
		return out.Close()
	})
}
