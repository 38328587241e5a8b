package warc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
)

// record is what the tests' own parser reads, which shares no code with the writer.
type record struct {
	kind   string
	fields textproto.MIMEHeader
	block  []byte
}

func (r record) get(name string) string { return r.fields.Get(name) }

// payload is the block behind its HTTP head.
func (r record) payload() []byte {
	_, body, _ := bytes.Cut(r.block, []byte("\r\n\r\n"))
	return body
}

// parse reads a WARC file member by member and checks all that the standard demands of any record.
func parse(b []byte) (records []record, err error) {
	src := bufio.NewReader(bytes.NewReader(b))
	for {
		if _, err := src.Peek(1); errors.Is(err, io.EOF) {
			return records, nil
		}
		z, err := gzip.NewReader(src)
		if err != nil {
			return records, fmt.Errorf("member %d: %w", len(records), err)
		}
		z.Multistream(false)
		member, err := io.ReadAll(z)
		if err != nil {
			return records, fmt.Errorf("member %d: %w", len(records), err)
		}
		r, err := parseMember(member)
		if err != nil {
			return records, fmt.Errorf("record %d: %w", len(records), err)
		}
		records = append(records, r)
	}
}

func parseMember(member []byte) (record, error) {
	in := bufio.NewReader(bytes.NewReader(member))
	text := textproto.NewReader(in)
	version, err := text.ReadLine()
	if err != nil || version != "WARC/1.1" {
		return record{}, fmt.Errorf("version %q, %v", version, err)
	}
	h, err := text.ReadMIMEHeader()
	if err != nil {
		return record{}, fmt.Errorf("fields: %w", err)
	}
	for name, values := range h {
		if len(values) != 1 || values[0] == "" {
			return record{}, fmt.Errorf("field %s has not one value, but %q", name, values)
		}
	}
	length, err := strconv.Atoi(h.Get("Content-Length"))
	if err != nil {
		return record{}, err
	}
	rest, err := io.ReadAll(in)
	if err != nil {
		return record{}, err
	}
	if len(rest) != length+4 || string(rest[length:]) != "\r\n\r\n" {
		return record{}, fmt.Errorf("block of %d bytes in %d", length, len(rest))
	}
	r := record{kind: h.Get("WARC-Type"), fields: h, block: rest[:length]}
	if d := h.Get("WARC-Block-Digest"); d != sha1Label(r.block) {
		return record{}, fmt.Errorf("block digest %s is wrong", d)
	}
	if d := h.Get("WARC-Payload-Digest"); r.kind == "response" && d != sha1Label(r.payload()) {
		return record{}, fmt.Errorf("payload digest %s is wrong", d)
	}
	return r, nil
}

func sha1Label(b []byte) string {
	sum := sha1.Sum(b)
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}
