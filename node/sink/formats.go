package sink

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"proxima/fetch/warc"
)

// Record is one download.
type Record struct {
	// Exchange is what went over the wire; nil if it cannot be archived.
	Exchange *warc.Exchange
	// Page is its line; nil if it is not a page.
	Page *Page
	Time time.Time
	// IsPage means that the crawl asked for a page, not for a robots.txt file or a sitemap.
	IsPage bool
}

// Page is a line of pages.jsonl.zst.
type Page struct {
	URL    string    `json:"url"`
	Time   time.Time `json:"time"`
	Status int       `json:"status"`
	// Type is the Content-Type without parameters.
	Type  string `json:"type"`
	Title string `json:"title"`
	Text  string `json:"text"`
	// Language is a code of ISO 639, "" if unknown.
	Language string `json:"language"`
	// Links are absolute and unique, in the order of the page.
	Links []string `json:"links"`
	// Digest is "sha256:" and the hex digest of the decoded body.
	Digest string `json:"digest"`
}

// encode makes the part of a record for each format. If stored is not nil, it must be called once the record is sure to be
// kept.
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

// packWARC writes a WARC file and its CDXJ index.
func (s *Sink) packWARC(p *packing) error {
	file := p.file(".warc.gz")
	var index []string
	err := s.disk.store(p.path(file), func(f *os.File) error {
		out := bufio.NewWriterSize(f, 1<<20)
		at, err := out.Write(s.archive.Info(file, p.spool.Begun))
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
		_, err := f.WriteString(strings.Join(index, ""))
		return err
	})
}

// packPages writes the compressed file of pages.
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
