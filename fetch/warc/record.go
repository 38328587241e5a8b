package warc

import (
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
)

const (
	version      = "WARC/1.1"
	profile      = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	typeRequest  = "application/http;msgtype=request"
	typeResponse = "application/http;msgtype=response"
	typeWarcinfo = "application/warc-fields"
	dateForm     = "2006-01-02T15:04:05.000000Z"
	endOfRecord  = "\r\n\r\n"
	level        = 6 // of gzip, 1 (fast) to 9 (small)
)

// recordID is the URI of a random UUID.
func recordID(id uuid.UUID) string { return "<" + id.URN() + ">" }

// fields are the named fields of a record, in order. Values must be free of CR and LF.
type fields struct{ b bytes.Buffer }

func newFields(kind string, id uuid.UUID, date time.Time) *fields {
	f := &fields{}
	f.b.WriteString(version + "\r\n")
	f.add("WARC-Type", kind)
	f.add("WARC-Record-ID", recordID(id))
	f.add("WARC-Date", formatDate(date))
	return f
}

// add adds a field unless its value is empty.
func (f *fields) add(name, value string) {
	if value != "" {
		f.b.WriteString(name + ": " + value + "\r\n")
	}
}

func formatDate(t time.Time) string { return t.UTC().Format(dateForm) }

// digest returns the labelled digest of the concatenated parts (ISO 28500, labelled-digest, in the encodings that the IIPC recommends).
func digest(parts ...[]byte) string {
	h := sha1.New() // which every tool reads
	for _, p := range parts {
		h.Write(p)
	}
	return "sha1:" + base32.StdEncoding.EncodeToString(h.Sum(nil))
}

func newZip() any {
	z, err := gzip.NewWriterLevel(io.Discard, level)
	if err != nil {
		panic(err) // the level is valid
	}
	return z
}

// append adds one record as one gzip member to out: the fields, Block-Digest and Content-Length, and the block. A buffer takes everything,
// so there are no errors.
func (e *Encoder) append(out *bytes.Buffer, f *fields, contentType string, block ...[]byte) {
	length := 0
	for _, p := range block {
		length += len(p)
	}
	f.add("WARC-Block-Digest", digest(block...))
	f.add("Content-Type", contentType)
	f.add("Content-Length", strconv.Itoa(length))
	f.b.WriteString("\r\n")

	z := e.zips.Get().(*gzip.Writer)
	defer e.zips.Put(z)
	z.Reset(out)
	z.Write(f.b.Bytes())
	for _, p := range block {
		z.Write(p)
	}
	io.WriteString(z, endOfRecord)
	z.Close()
}
