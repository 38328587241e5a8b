package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	headLen = 1024
	// maxToken is the size of the largest token of XML, in bytes. The decoder holds a token in memory. Those of sitemaps
	// are about as long as a URL.
	maxToken = 1 << 20
)

// errToken says that a file has a token beyond maxToken.
var errToken = fmt.Errorf("token longer than %d bytes", maxToken)

// input is the text of a sitemap: decompressed, up to a limit, in valid UTF-8 without byte order mark. It is an
// io.ByteReader, so that the XML decoder does not read ahead.
type input struct {
	*bufio.Reader
	token int // bytes of the current token of XML
	raw   io.LimitedReader
}

func newInput(src io.Reader, limit int64) *input {
	in := &input{raw: io.LimitedReader{R: src, N: limit + 1}} // one more byte shows whether the file just fits
	raw := bufio.NewReaderSize(&in.raw, headLen)
	head, _ := raw.Peek(headLen) // its error comes back when reading on
	in.Reader = bufio.NewReaderSize(transform.NewReader(raw, decoderOf(head)), 16<<10)
	return in
}

// limited reports whether the file is longer than the limit.
func (in *input) limited() bool { return in.raw.N <= 0 }

// decoderOf returns a decoder to valid UTF-8. The byte order mark or the XML declaration tells the encoding, which is else
// UTF-8.
func decoderOf(head []byte) transform.Transformer {
	utf8 := unicode.BOMOverride(unicode.UTF8.NewDecoder())
	declaration, _, ok := bytes.Cut(bytes.TrimSpace(head), []byte("?>"))
	if !ok || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return utf8
	}
	_, label, _ := strings.Cut(string(declaration), "encoding")
	label = strings.TrimLeft(label, " \t\r\n=")
	if label == "" {
		return utf8
	}
	label, _, _ = strings.Cut(label[1:], label[:1])
	e, name := charset.Lookup(label)
	// A text whose declaration is readable in ASCII is not UTF-16. Unknown names count as UTF-8.
	if e == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return utf8
	}
	return e.NewDecoder()
}

// toDeclaration discards what stands before the XML declaration, such as a second byte order mark, or a warning that a program has printed.
func (in *input) toDeclaration() {
	head, _ := in.Peek(headLen)
	if i := bytes.Index(head, []byte("<?xml ")); i > 0 {
		_, _ = in.Discard(i) // never fails: it is buffered
	}
}

// head skips white space and returns the next byte without consuming it. At the end it returns none.
func (in *input) head() ([]byte, error) {
	for {
		b, err := in.Peek(1)
		if len(b) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return nil, err
		}
		if b[0] != ' ' && b[0] != '\t' && b[0] != '\r' && b[0] != '\n' {
			return b, nil
		}
		if _, err := in.Discard(1); err != nil {
			return nil, err
		}
	}
}

// line returns the next line, which is valid until the next call. Of a line longer than the buffer it returns the first
// bytes.
func (in *input) line() (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, false, err
	}
	line = bytes.Clone(line[:headLen])
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, true, err
}

// ReadByte reads the next byte for the XML decoder. It fails if the token grows too long. A character that XML forbids, or a reference to one,
// becomes a blank: the decoder would refuse the rest of the file, and titles of images have some.
func (in *input) ReadByte() (byte, error) {
	if in.token++; in.token > maxToken {
		return 0, errToken
	}
	c, err := in.Reader.ReadByte()
	if c == '&' {
		if n := in.forbidden(); n > 0 {
			_, err = in.Discard(n) // it is buffered
			c = ' '
		}
	}
	if c < ' ' && c != '\n' && c != '\r' {
		c = ' '
	}
	return c, err
}

// forbidden returns the length of a reference that comes next, without its "&", to a character that XML forbids; 0 if there is none.
func (in *input) forbidden() int {
	next, _ := in.Peek(len("#x0010FFFF;"))
	reference, _, ended := strings.Cut(string(next), ";")
	digits, numeric := strings.CutPrefix(reference, "#")
	if !ended || !numeric {
		return 0
	}
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n >= ' ' && n != 0xfffe && n != 0xffff || n == '\t' || n == '\n' || n == '\r' {
		return 0
	}
	return len(reference) + 1
}
