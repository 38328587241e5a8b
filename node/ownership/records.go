package ownership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// Record says who owns a host. One without an owner stands for no record; every other one is newer.
type Record struct {
	Host string
	// Epoch counts the owners. The higher epoch wins; between equal epochs, the lower owner.
	Epoch uint64
	Owner string // the node that crawls the host
	// Assigned is set if an assigner chose the owner. Otherwise the owner is, or was, the home.
	Assigned bool
}

// Newer reports whether a record wins over another record of the same host.
func (r Record) Newer(than Record) bool {
	if r.Epoch != than.Epoch {
		return r.Epoch > than.Epoch
	}
	return r.Owner < than.Owner
}

// hash is the record's share of a tally's digest.
func (r Record) hash() uint64 {
	return xxhash.Sum64(binary.BigEndian.AppendUint64(append([]byte(r.Host), 0), r.Epoch))
}

// origin is the queue that new URLs of the host join at its owner.
func (r Record) origin() frontier.Origin {
	if r.Assigned {
		return frontier.Assigned
	}
	return frontier.Discovered
}

func (r Record) wire() *wire.Record {
	return &wire.Record{Host: r.Host, Epoch: r.Epoch, Owner: r.Owner, Assigned: r.Assigned}
}

const (
	idLength = 32
	// maxEpoch is more than any overlay reaches, and far from overflow.
	maxEpoch = 1 << 62
)

// fromWire reads a record from a peer; false if it is malformed.
func fromWire(w *wire.Record) (Record, bool) {
	r := Record{Host: w.GetHost(), Epoch: w.GetEpoch(), Owner: w.GetOwner(), Assigned: w.GetAssigned()}
	return r, identity.CheckHost(r.Host) == nil && len(r.Owner) == idLength && r.Epoch > 0 && r.Epoch <= maxEpoch
}

// On disk the key of a record is its host. The value is version (1 byte), epoch (uvarint), flags (1 byte: 1 = assigned), owner.
const recordVersion = 1

func (r Record) encode() []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, r.Epoch)
	var flags byte
	if r.Assigned {
		flags = 1
	}
	return append(append(b, flags), r.Owner...)
}

// decodeRecord reads what encode wrote.
func decodeRecord(host string, b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("read record of %s: unknown version", host)
	}
	epoch, n := binary.Uvarint(b[1:])
	if n <= 0 || len(b) != 1+n+1+idLength || b[1+n] > 1 {
		return Record{}, fmt.Errorf("read record of %s: damaged", host)
	}
	return Record{Host: host, Epoch: epoch, Assigned: b[1+n] == 1, Owner: string(b[2+n:])}, nil
}

// Shelf is a table of keys and values that survives a crash.
type Shelf interface {
	Get(key []byte) ([]byte, error) // nil, nil if there is none
	// ScanAfter visits the keys after one in order, all if it is nil. An error from visit ends the scan and is returned.
	ScanAfter(after []byte, visit func(key, value []byte) error) error
	// Batch makes all changes that fill asks for, or none.
	Batch(fill func(put func(key, value []byte), remove func(key []byte))) error
}

// records stores the records that this node has. A put changes memory only, and the next flush writes to disk, so put does not
// wait for the disk. A bounded number of clean records is cached. It is safe for concurrent use.
type records struct {
	shelf Shelf

	// flushing is full during a flush, so that changes reach the disk in order. It is filled before mu is taken. Unlike for a mutex, a
	// fake clock advances while goroutines wait for it.
	flushing chan struct{}
	// mu guards the fields below. It is never held across I/O.
	mu    sync.Mutex
	cache *simplelru.LRU[string, Record]
	dirty map[string]Record // not on disk yet
	wrote int               // how often dirty records became clean
}

func newRecords(shelf Shelf, limit int) *records {
	cache, _ := simplelru.NewLRU[string, Record](limit, nil) //nolint:errcheck // it fails for a limit below one only
	return &records{shelf: shelf, flushing: make(chan struct{}, 1), cache: cache, dirty: make(map[string]Record)}
}

// get returns the record of a host, one without an owner if there is none.
func (t *records) get(host string) (Record, error) {
	for {
		if r, loaded := t.peek(host); loaded {
			return r, nil
		}
		if err := t.load(host); err != nil {
			return Record{}, err
		}
	}
}

// peek is get without the disk. loaded tells whether the answer is known.
func (t *records) peek(host string) (r Record, loaded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, loaded = t.dirty[host]; loaded {
		return r, true
	}
	return t.cache.Get(host)
}

// load reads the record of a host from disk into the cache. It caches nothing if the record may have changed since it was read.
func (t *records) load(host string) error {
	t.mu.Lock()
	wrote := t.wrote
	t.mu.Unlock()
	b, err := t.shelf.Get([]byte(host))
	if err != nil {
		return fmt.Errorf("read record of %s: %w", host, err)
	}
	var r Record
	if b != nil {
		if r, err = decodeRecord(host, b); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, changed := t.dirty[host]; !changed && t.wrote == wrote {
		t.cache.Add(host, r)
	}
	return nil
}

// put changes a record in memory. One without an owner removes it.
func (t *records) put(host string, r Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Add(host, r)
	t.dirty[host] = r
}

// flush writes all changes to the store.
func (t *records) flush() error {
	t.flushing <- struct{}{}
	defer func() { <-t.flushing }()
	t.mu.Lock()
	changes := maps.Clone(t.dirty)
	t.mu.Unlock()
	hosts := slices.Collect(maps.Keys(changes))
	for part := range slices.Chunk(hosts, maxFlush) {
		err := t.shelf.Batch(func(put func(key, value []byte), remove func(key []byte)) {
			for _, host := range part {
				if r := changes[host]; r.Owner == "" {
					remove([]byte(host))
				} else {
					put([]byte(host), r.encode())
				}
			}
		})
		if err != nil {
			return fmt.Errorf("write %d records: %w", len(part), err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(changes) > 0 {
		t.wrote++
	}
	for host, c := range changes {
		if t.dirty[host] == c {
			delete(t.dirty, host)
		}
	}
	return nil
}

// maxFlush is how many records one transaction writes.
const maxFlush = 500

// pageRecords is how many records pages reads at once.
const pageRecords = 1000

// visit calls f for all records. Records that change meanwhile may be missed or seen.
func (t *records) visit(f func(Record) error) error {
	return t.pages(func(page []Record) error {
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// pages calls f for all records in order of their hosts, some at a time. It waits for no write: those that are not on disk yet come from
// memory.
func (t *records) pages(f func([]Record) error) error {
	t.mu.Lock()
	dirty := maps.Clone(t.dirty)
	t.mu.Unlock()
	changed := slices.Sorted(maps.Keys(dirty))
	enough := errors.New("enough")
	var after []byte
	for more := true; more; {
		var page []Record
		err := t.shelf.ScanAfter(after, func(key, value []byte) error {
			r, err := decodeRecord(string(key), value)
			if err != nil {
				return err
			}
			after = key
			if _, old := dirty[r.Host]; !old {
				page = append(page, r)
			}
			if len(page) == pageRecords {
				return enough
			}
			return nil
		})
		if more = errors.Is(err, enough); err != nil && !more {
			return fmt.Errorf("read records: %w", err)
		}
		for len(changed) > 0 && (!more || changed[0] < string(after)) {
			if r := dirty[changed[0]]; r.Owner != "" {
				page = append(page, r)
			}
			changed = changed[1:]
		}
		slices.SortFunc(page, func(a, b Record) int { return strings.Compare(a.Host, b.Host) })
		for part := range slices.Chunk(page, pageRecords) {
			if err := f(part); err != nil {
				return err
			}
		}
	}
	return nil
}
