// Package warc makes WARC 1.1 records (ISO 28500:2017) of HTTP exchanges, each a gzip member of its own, and the lines of their
// CDXJ index. It remembers payloads, so that one seen before becomes a revisit record. It does not download, decide what to keep,
// or write files. Its callers begin each file with the record of Encoder.Info.
package warc

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
)

// Config of an Encoder.
type Config struct {
	// Software and Operator describe the crawl in the warcinfo record of each file: program and version, and a contact. Empty
	// fields are left out.
	Software, Operator string
	// Revisits is how many payloads are remembered, at least 1; an identical one is then archived without its body. An entry takes
	// about 350 bytes of memory, at most 1.4 kB.
	Revisits int
}

func (c Config) validate() error {
	for _, f := range []struct{ name, value string }{{"software", c.Software}, {"operator", c.Operator}} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("warc config: %s: %q has control characters", f.name, f.value)
		}
	}
	return nil
}

// Encoder makes the records of exchanges. It is safe for concurrent use.
type Encoder struct {
	cfg  Config
	zips sync.Pool                    // of *gzip.Writer
	seen *lru.Cache[string, original] // payloads by their digest
}

// Records are the records of one exchange.
type Records struct {
	// Bytes are whole gzip members: the response or a revisit, then the request.
	Bytes []byte
	// Index is the beginning of the line of the index: see IndexLine.
	Index string

	seen     *lru.Cache[string, original]
	digest   string // of the payload; "" if no revisit may refer to these records
	original original
}

// Stored tells the encoder that the records were kept. From then on an identical payload becomes a revisit that refers to them, or to
// those of another goroutine that was faster.
func (r *Records) Stored() {
	if r.digest != "" {
		r.seen.ContainsOrAdd(r.digest, r.original)
	}
}

// New makes an Encoder.
func New(cfg Config) (*Encoder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seen, err := lru.New[string, original](cfg.Revisits)
	if err != nil {
		return nil, fmt.Errorf("make memory of payloads: %w", err)
	}
	return &Encoder{cfg: cfg, zips: sync.Pool{New: newZip}, seen: seen}, nil
}

// Info returns the warcinfo record that starts a file of this name.
func (e *Encoder) Info(name string, now time.Time) []byte {
	f := newFields("warcinfo", uuid.New(), now)
	f.add("WARC-Filename", name)
	info := &fields{}
	info.add("software", e.cfg.Software)
	info.add("format", "WARC File Format 1.1")
	info.add("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/")
	info.add("operator", e.cfg.Operator)
	info.add("robots", "RFC 9309")
	var out bytes.Buffer
	e.append(&out, f, typeWarcinfo, info.b.Bytes())
	return out.Bytes()
}

// Encode makes the records of one exchange: a response record, or a revisit record with only the head if the same payload was stored
// before, then the request record. Its errors wrap ErrInvalid.
func (e *Encoder) Encode(ex Exchange) (*Records, error) {
	if err := ex.validate(); err != nil {
		return nil, err
	}
	responseID := uuid.New()
	var out bytes.Buffer
	uri := targetURI(ex.URL)
	payload := digest(ex.Body)
	// A revisit of an empty payload would save nothing, and a truncated payload is not the server's.
	whole := len(ex.Body) > 0 && ex.Truncated == ""
	var first original
	again := false
	if whole {
		first, again = e.seen.Get(payload)
	}
	e.appendResponse(&out, &ex, responseID, uri, payload, first, again)
	r := &Records{Index: indexOf(&ex, uri, payload, out.Len(), again), seen: e.seen}
	if whole && !again && len(uri) <= maxRememberedURL {
		r.digest, r.original = payload, original{id: responseID, uri: strings.Clone(uri), date: ex.Time}
	}
	if len(ex.Request) > 0 {
		f := newFields("request", uuid.New(), ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Concurrent-To", recordID(responseID))
		e.append(&out, f, typeRequest, ex.Request)
	}
	r.Bytes = out.Bytes()
	return r, nil
}

func (e *Encoder) appendResponse(out *bytes.Buffer, ex *Exchange, id uuid.UUID, uri, payload string, first original, again bool) {
	head := archivedHead(ex.ResponseHead)
	if !again {
		f := newFields("response", id, ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Payload-Digest", payload)
		f.add("WARC-Truncated", ex.Truncated)
		e.append(out, f, typeResponse, head, ex.Body)
		return
	}
	f := newFields("revisit", id, ex.Time)
	ex.describe(f, uri)
	f.add("WARC-Profile", profile)
	f.add("WARC-Refers-To", recordID(first.id))
	f.add("WARC-Refers-To-Target-URI", first.uri)
	f.add("WARC-Refers-To-Date", formatDate(first.date))
	f.add("WARC-Payload-Digest", payload)
	f.add("WARC-Truncated", TruncatedLength) // section 6.7.2 wants it for a block without the payload
	e.append(out, f, typeResponse, head)
}

// describe adds the fields that the records of one exchange share.
func (ex *Exchange) describe(f *fields, uri string) {
	f.add("WARC-Target-URI", uri)
	if ex.Addr.IsValid() {
		f.add("WARC-IP-Address", ex.Addr.Unmap().WithZone("").String())
	}
	f.add("WARC-Protocol", ex.Protocol)
}

// maxRememberedURL limits the size of an entry: a payload first seen under a longer URL is archived in full again.
const maxRememberedURL = 1024 // bytes

// original is where a payload was archived in full.
type original struct {
	id   uuid.UUID
	uri  string
	date time.Time
}
