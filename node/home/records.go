package home

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"proxima/node/wire"
)

// Record says who owns a host. It is on the disks of its home, of its owner, and of the node with its second copy.
type Record struct {
	Host string
	// Epoch counts owners. Higher wins; tie to the lower owner.
	Epoch uint64
	// Owner crawls the host.
	Owner string
	// Assigned says that an assigner chose the owner; else the host is with its first owner, its home.
	Assigned bool
}

// Newer says whether a record wins over another of the same host.
func (r Record) Newer(than Record) bool {
	if r.Epoch != than.Epoch {
		return r.Epoch > than.Epoch
	}
	return r.Owner < than.Owner
}

// hash is the record's part of the digest by which home and owner see that they agree.
func (r Record) hash() uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(r.Host)
	_, _ = d.Write(binary.BigEndian.AppendUint64([]byte{0}, r.Epoch))
	return d.Sum64()
}

func (r Record) wire() *wire.Record {
	return &wire.Record{Host: r.Host, Epoch: r.Epoch, Owner: r.Owner, Assigned: r.Assigned}
}

func fromWire(w *wire.Record) (Record, bool) {
	r := Record{Host: w.GetHost(), Epoch: w.GetEpoch(), Owner: w.GetOwner(), Assigned: w.GetAssigned()}
	return r, r.Host != "" && len(r.Host) <= maxHost && len(r.Owner) == idLength
}

const (
	maxHost  = 300
	idLength = 32
)

// Shelf is a table of keys and values that survives a crash.
type Shelf interface {
	Get(key []byte) ([]byte, error) // nil, nil for none
	Put(key, value []byte) error
	Delete(key []byte) error
	// ScanAfter visits the keys that come after one in their order, nil for all. An error of visit ends it and is returned.
	ScanAfter(after []byte, visit func(key, value []byte) error) error
}

// records are the records that this node has. On the shelf: key = host; value = version (1 byte, 1), epoch (uvarint),
// flags (1 byte: 1 assigned), owner. A bounded part of them is in memory. It is used under the lock of Home,
// but for visit.
type records struct {
	shelf Shelf
	cache map[string]cached
	limit int
}

// cached is what is in memory of a host: its record on the shelf, with an empty Owner for none.
type cached struct {
	Record
	// rumour: there is none on the shelf. The record is what who answered a link said: good to route by, and no more.
	rumour bool
}

const recordVersion = 1

func newRecords(shelf Shelf, limit int) *records {
	return &records{shelf: shelf, cache: make(map[string]cached), limit: limit}
}

func (t *records) get(host string) (Record, bool, error) {
	if c, ok := t.cache[host]; ok {
		if c.rumour || c.Owner == "" {
			return Record{}, false, nil
		}
		return c.Record, true, nil
	}
	b, err := t.shelf.Get([]byte(host))
	if err != nil {
		return Record{}, false, fmt.Errorf("read record of %s: %w", host, err)
	}
	var r Record
	if b != nil {
		if r, err = decodeRecord(host, b); err != nil {
			return Record{}, false, err
		}
	}
	t.remember(host, cached{Record: r})
	return r, b != nil, nil
}

// rumour is who is said to own a host of which there is no record.
func (t *records) rumour(host string) (Record, bool) {
	c := t.cache[host]
	return c.Record, c.rumour
}

func (t *records) remember(host string, c cached) {
	if len(t.cache) >= t.limit {
		n := t.limit / 8
		for k := range t.cache { // whichever come: what is asked for often is soon back
			delete(t.cache, k)
			if n--; n <= 0 {
				break
			}
		}
	}
	t.cache[host] = c
}

func (t *records) put(r Record) error {
	if err := t.shelf.Put([]byte(r.Host), appendRecord(nil, r)); err != nil {
		return fmt.Errorf("write record of %s: %w", r.Host, err)
	}
	t.remember(r.Host, cached{Record: r})
	return nil
}

// each visits all records: a second for a million.
func (t *records) each(visit func(Record) error) error { return t.after(nil, visit) }

func (t *records) after(host []byte, visit func(Record) error) error {
	return t.shelf.ScanAfter(host, func(key, value []byte) error {
		r, err := decodeRecord(string(key), value)
		if err != nil {
			return err
		}
		return visit(r)
	})
}

// pageRecords is how many records are read at once where all are visited and nobody is to wait.
const pageRecords = 1000

// visit calls f for all records. It needs no lock: what changes meanwhile may be seen or not.
func (t *records) visit(f func(Record) error) error {
	for after := ""; ; {
		page, err := t.page(after, pageRecords)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
		}
		if len(page) < pageRecords {
			return nil
		}
		after = page[len(page)-1].Host
	}
}

// page returns the next n records, in the order of their hosts, after a host; "" is before all. It is shorter at the end.
func (t *records) page(after string, n int) (page []Record, err error) {
	var from []byte
	if after != "" {
		from = []byte(after)
	}
	enough := errors.New("enough")
	err = t.after(from, func(r Record) error {
		if page = append(page, r); len(page) == n {
			return enough
		}
		return nil
	})
	if err == enough {
		err = nil
	}
	return page, err
}

func appendRecord(b []byte, r Record) []byte {
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, r.Epoch)
	var flags byte
	if r.Assigned {
		flags = 1
	}
	return append(append(b, flags), r.Owner...)
}

var errDamaged = errors.New("damaged")

func decodeRecord(host string, b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("read record of %s: unknown version", host)
	}
	epoch, n := binary.Uvarint(b[1:])
	if n <= 0 || len(b) != 1+n+1+idLength || b[1+n] > 1 {
		return Record{}, fmt.Errorf("read record of %s: %w", host, errDamaged)
	}
	return Record{Host: host, Epoch: epoch, Assigned: b[1+n] == 1, Owner: string(b[2+n:])}, nil
}
