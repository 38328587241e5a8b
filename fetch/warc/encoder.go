package warc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Encoder makes the records of exchanges. Its methods are safe for concurrent use.
type Encoder struct {
	cfg     Config
	members *members
	seen    memory

	mu   sync.Mutex // of rand
	rand io.Reader
}

// Records are those of one exchange.
type Records struct {
	// Bytes are whole gzip members: the response, or a revisit, and then the request.
	Bytes []byte
	// Index is the beginning of the line of the index: see IndexLine.
	Index string

	seen     memory
	digest   string // "" where a later payload must not refer to this one
	original original
}

// Stored says that the records stay: an identical payload is then archived as a revisit that refers to them. Without the call
// nothing ever refers to them.
func (r *Records) Stored() {
	if r.digest != "" {
		r.seen.add(r.digest, r.original)
	}
}

// New makes an Encoder. rand gives the random bits of record ids: crypto/rand.Reader, or something seeded in tests.
func New(cfg Config, rand io.Reader) (*Encoder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	seen, err := newMemory(cfg.RevisitEntries)
	if err != nil {
		return nil, fmt.Errorf("make memory of payloads: %w", err)
	}
	return &Encoder{cfg: cfg, members: newMembers(cfg.Level, cfg.Digest), seen: seen, rand: rand}, nil
}

// Info is the warcinfo record that a file of this name begins with.
func (e *Encoder) Info(name string, now time.Time) ([]byte, error) {
	id, _, err := e.twoIDs()
	if err != nil {
		return nil, err
	}
	f := newFields("warcinfo", id, now)
	f.add("WARC-Filename", name)
	info := &fields{}
	info.add("software", e.cfg.Software)
	info.add("format", "WARC File Format 1.1")
	info.add("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/")
	info.add("operator", e.cfg.Operator)
	info.add("robots", e.cfg.Robots)
	var out bytes.Buffer
	if err := e.members.append(&out, f, typeWarcinfo, info.b.Bytes()); err != nil {
		return nil, fmt.Errorf("compress warcinfo: %w", err)
	}
	return out.Bytes(), nil
}

// Encode makes the records of one exchange: a response record, or a revisit record with the head alone where the same payload
// was stored before, then the request record. Its errors wrap ErrInvalid, or are those of the random source.
func (e *Encoder) Encode(ex Exchange) (*Records, error) {
	if err := ex.validate(); err != nil {
		return nil, err
	}
	responseID, requestID, err := e.twoIDs()
	if err != nil {
		return nil, err
	}
	out := e.members.buffer()
	defer e.members.release(out)

	uri := targetURI(ex.URL)
	payload := digest(e.cfg.Digest, ex.Body)
	// An empty payload saves nothing, and a truncated one is not what the server has.
	whole := len(ex.Body) > 0 && ex.Truncated == ""
	var first original
	again := false
	if whole {
		first, again = e.seen.find(payload)
	}
	if err := e.appendResponse(out, &ex, responseID, uri, payload, first, again); err != nil {
		return nil, fmt.Errorf("compress record of %s: %w", uri, err)
	}
	r := &Records{Index: indexOf(&ex, uri, payload, out.Len(), again), seen: e.seen}
	if whole && !again {
		r.digest, r.original = payload, original{id: responseID, uri: strings.Clone(uri), date: ex.Time}
	}
	if len(ex.Request) > 0 {
		f := newFields("request", requestID, ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Concurrent-To", responseID.String())
		if err := e.members.append(out, f, typeRequest, ex.Request); err != nil {
			return nil, fmt.Errorf("compress request of %s: %w", uri, err)
		}
	}
	r.Bytes = bytes.Clone(out.Bytes())
	return r, nil
}

func (e *Encoder) appendResponse(out *bytes.Buffer, ex *Exchange, id uuid, uri, payload string, first original, again bool) error {
	head := archivedHead(ex.ResponseHead)
	if !again {
		f := newFields("response", id, ex.Time)
		ex.describe(f, uri)
		f.add("WARC-Payload-Digest", payload)
		f.add("WARC-Truncated", ex.Truncated)
		return e.members.append(out, f, typeResponse, head, ex.Body)
	}
	f := newFields("revisit", id, ex.Time)
	ex.describe(f, uri)
	f.add("WARC-Profile", profile)
	f.add("WARC-Refers-To", first.id.String())
	f.add("WARC-Refers-To-Target-URI", first.uri)
	f.add("WARC-Refers-To-Date", formatDate(first.date))
	f.add("WARC-Payload-Digest", payload)
	f.add("WARC-Truncated", TruncatedLength) // prescribed for a block without the duplicate payload (6.7.2)
	return e.members.append(out, f, typeResponse, head)
}

// describe adds the fields that the records of one exchange share.
func (ex *Exchange) describe(f *fields, uri string) {
	f.add("WARC-Target-URI", uri)
	if ex.Addr.IsValid() {
		f.add("WARC-IP-Address", ex.Addr.Unmap().WithZone("").String())
	}
	f.add("WARC-Protocol", ex.Protocol)
}

func (e *Encoder) twoIDs() (a, b uuid, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a, err = readUUID(e.rand); err == nil {
		b, err = readUUID(e.rand)
	}
	return a, b, err
}
