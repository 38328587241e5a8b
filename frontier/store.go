package frontier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Errors of opening a store. They are wrapped with the directory.
var (
	// ErrLocked means that another process has the store open.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrDamaged means that the files of the store do not fit together.
	ErrDamaged = errors.New("the data directory is damaged")
	// ErrOldLayout means that another version of the program wrote the store.
	ErrOldLayout = errors.New("the data directory is from another version of the program")
)

// wrap says in an error what was tried. It leaves nil as it is.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// store is the Badger database under the ledger. A write survives the death of the process at once, and that of the machine after a second
// (sync).
type store struct {
	db    *badger.DB
	codec *codec
	gate  gate
	calls calls
	home  os.FileInfo // the directory as it was opened; nil in memory
	// fault is called before each operation, which fails if it returns an error. Only tests return one.
	fault func() error

	// patience is how long the end waits for the disk; a tenth of it after a failure. Badger repeats for ever what the disk refuses.
	patience time.Duration

	// mu guards closing, and the beginning of users. Callers from outside the frontier's own goroutines register while they use the
	// database, so that it is not closed meanwhile.
	mu      sync.Mutex
	closing bool
	users   sync.WaitGroup

	// written counts commits. trimmed is its value before the last trim. Only tend uses it.
	written atomic.Uint64
	trimmed uint64

	// syncing is held during a sync, and guards what follows.
	syncing sync.Mutex
	flushed uint64 // written before the last sync
	failure error  // of the first sync that failed; whether the medium has what was written before is then unknown
}

// tx is a transaction. All operations but those of iterators go through it.
type tx struct {
	*badger.Txn
	fault func() error
	err   error // the first error of put or del; with each request of a batch it begins anew
}

func (t *tx) Get(key []byte) (*badger.Item, error) {
	if err := t.fault(); err != nil {
		return nil, err
	}
	return t.Txn.Get(key)
}

// writes says whether another write may follow: none does after an error (tx.err).
func (t *tx) writes() bool {
	if t.err == nil {
		t.err = t.fault()
	}
	return t.err == nil
}

// put writes a value with its metadata. It keeps both slices.
func (t *tx) put(e *badger.Entry) {
	if t.writes() {
		t.err = t.SetEntry(e)
	}
}

// set writes a value. It keeps both slices.
func (t *tx) set(key, value []byte) { t.put(badger.NewEntry(key, value)) }

// del deletes values. It keeps the keys.
func (t *tx) del(keys ...[]byte) {
	for _, key := range keys {
		if t.writes() {
			t.err = t.Delete(key)
		}
	}
}

// begin begins a transaction that writes.
func (s *store) begin() *tx { return &tx{Txn: s.db.NewTransaction(true), fault: s.fault} }

// read reads in a transaction. The store must not close meanwhile: see view.
func (s *store) read(read func(txn *tx) error) error {
	return s.db.View(func(txn *badger.Txn) error { return read(&tx{Txn: txn, fault: s.fault}) })
}

// commit writes a transaction. On return it survives the death of the process.
func (s *store) commit(txn *tx) error {
	defer s.calls.begin()()
	if err := s.fault(); err != nil {
		return err
	}
	if err := txn.Commit(); err != nil {
		return err
	}
	s.written.Add(1)
	return nil
}

// enter registers a user of the database. It returns false if the database is closing. One goroutine may be several users.
func (s *store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.users.Add(1)
	return true
}

// exit ends what enter began.
func (s *store) exit() { s.users.Done() }

// replaced says that another directory has the name of the store's. Badger opens files by name and would write into that one.
func (s *store) replaced() error {
	dir := s.db.Opts().Dir
	if now, err := os.Stat(dir); s.home == nil || err != nil || os.SameFile(s.home, now) {
		return nil // without an answer there is none: it is the disk that fails
	}
	return fmt.Errorf("%s was replaced while the node ran: nothing more is written there", dir)
}

// close waits for the users to exit and closes the database. One whose directory was replaced it leaves as a kill would.
func (s *store) close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.users.Wait()
	s.codec.close()
	if s.replaced() != nil {
		return nil // checkDisk says it
	}
	return wrap(s.db.Close(), "close store")
}

// tend syncs and trims the store if something was written since the last call.
func (s *store) tend() error {
	err, written := s.sync(), s.written.Load()
	if err != nil || s.db.Opts().InMemory || written == s.trimmed {
		return err
	}
	s.trimmed = written
	return s.trim()
}

// collect frees space in the value log.
func (s *store) collect() error {
	if s.db.Opts().InMemory || s.gate.shut.Load() { // collecting garbage needs space
		return nil
	}
	// Each call rewrites at most one file. The bound keeps a busy minute from becoming an hour.
	for range 8 {
		if s.db.RunValueLogGC(0.5) != nil {
			break
		}
		s.written.Add(1)
	}
	return nil
}

// view lets a caller from outside the frontier's own goroutines read the store, or sync it.
func (s *store) view(ctx context.Context, read func(txn *tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.enter() {
		return ErrClosed
	}
	defer s.exit()
	return s.read(read)
}

// get reads one value; nil if there is none.
func (s *store) get(key []byte) (out []byte, err error) {
	err = s.view(context.Background(), func(txn *tx) error {
		out, err = readValue(txn, key)
		return wrap(err, "read store")
	})
	return out, err
}

// readValue reads a value in a transaction; nil if there is none.
func readValue(txn *tx, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// readRecord reads the record of a host in a transaction; known is false if there is none.
func readRecord(txn *tx, host string) (rec record, known bool, err error) {
	value, err := readValue(txn, hostKey(kindHost, host))
	if err != nil || value == nil {
		return rec, false, err
	}
	rec, err = decodeRecord(host, value, time.Now())
	return rec, err == nil, err
}

// write writes what fill puts into one transaction.
func (s *store) write(fill func(txn *tx)) error {
	txn := s.begin()
	defer txn.Discard()
	if fill(txn); txn.err != nil {
		return txn.err
	}
	return s.commit(txn)
}

// row is a key with its value, which is nil if only keys are read. Both are valid only until the next row.
type row struct {
	key, value []byte
	meta       byte
}

// seq is the sequence number or hash that ends most keys.
func (r row) seq() uint64 { return binary.BigEndian.Uint64(r.key[len(r.key)-8:]) }

// rows yields the keys below prefix in order, from the key start on, or from the first if start is nil. After an error it yields no more.
// With a nil transaction it reads the store as it is now.
func (s *store) rows(txn *tx, prefix, start []byte, read reads) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if txn == nil {
			txn = &tx{Txn: s.db.NewTransaction(false), fault: s.fault}
			defer txn.Discard()
		}
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, read == ahead, 32
		it := txn.NewIterator(o)
		defer it.Close()
		var value []byte
		for it.Seek(start); it.ValidForPrefix(prefix); it.Next() { // nil is the first of the prefix
			item, err := it.Item(), s.fault()
			if err == nil && read != keysOnly {
				value, err = item.ValueCopy(value[:0])
			}
			if err != nil {
				yield(row{}, err)
				return
			}
			if !yield(row{key: item.Key(), value: value, meta: item.UserMeta()}, nil) {
				return
			}
		}
	}
}

// trimEvery is how many rows walk reads before it gives their memory back.
const trimEvery = 1 << 15

// walk visits all rows below prefix, whose keys must hold a host. All kinds but that of records end with a number.
func (s *store) walk(prefix []byte, visit func(host string, r row) error) error {
	n := 0
	for r, err := range s.rows(nil, prefix, nil, ahead) {
		if n++; err == nil && n%trimEvery == 0 {
			err = s.trim()
		}
		if err != nil {
			return err
		}
		host, rest, err := splitKey(r.key)
		if err == nil && prefix[1] != kindHost && len(rest) < 8 {
			err = fmt.Errorf("read key %x: no number after the host", r.key)
		}
		if err == nil {
			err = visit(host, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reads says what rows reads besides keys.
type reads uint8

const (
	keysOnly reads = iota
	inTurn         // each value when its row is reached
	ahead          // values in advance, which is faster if most of a range is read
)

// blocks reads the blocks of a queue of a host after one, until they hold as many URLs as are wanted. more means that others follow.
func (s *store) blocks(host string, o Origin, after uint64, want int) (blocks []block, more bool, err error) {
	prefix := append(hostKey(kindPending, host), byte(o))
	for r, err := range s.rows(nil, prefix, pendingKey(host, o, after+1), inTurn) {
		if err == nil && want <= 0 {
			return blocks, true, nil
		}
		var entries []entry
		if err == nil {
			entries, err = s.codec.open(host, r.value)
		}
		if err != nil {
			return nil, false, fmt.Errorf("read pending URLs of %s: %w", host, err)
		}
		blocks = append(blocks, block{&blockRef{seq: r.seq(), n: len(entries), origin: o}, entries})
		want -= len(entries)
	}
	return blocks, false, nil
}

// depths reads the smaller depths that were found for pending URLs of a host, by hash. With a nil transaction it reads the store as it
// is now.
func (s *store) depths(txn *tx, host string) (map[uint64]uint8, error) {
	out := make(map[uint64]uint8)
	prefix := hostKey(kindDepth, host)
	for r, err := range s.rows(txn, prefix, nil, ahead) {
		if err == nil && (len(r.key) != len(prefix)+8 || len(r.value) != 1) {
			err = errors.New("damaged")
		}
		if err != nil {
			return nil, fmt.Errorf("read depths of %s: %w", host, err)
		}
		out[r.seq()] = r.value[0]
	}
	return out, nil
}

// eachHost visits the hosts that have keys of any of some kinds, in the order of their names, after a host, until visit returns false. end
// says that there are no more. eachHost reads no values. visit may move the iterator, which is over all keys.
func (s *store) eachHost(ctx context.Context, kinds []byte, after string, visit func(txn *tx, it *badger.Iterator, host string) (more bool, err error)) (end bool, err error) {
	err = s.view(ctx, func(txn *tx) error {
		if err := s.fault(); err != nil {
			return err
		}
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = []byte{keyVersion}, false
		it := txn.NewIterator(o)
		defer it.Close()
		for more := true; more; {
			next := ""
			for _, kind := range kinds {
				// This seeks behind the last key of the host, because 0x01 is greater than the zero byte at the end of its name.
				it.Seek(append(append(kindPrefix(kind), after...), 1))
				if !it.ValidForPrefix(kindPrefix(kind)) {
					continue
				}
				host, _, err := splitKey(it.Item().Key())
				if err != nil {
					return err
				}
				if next == "" || host < next {
					next = host
				}
			}
			if end = next == ""; end {
				return nil
			}
			if more, err = visit(txn, it, next); err != nil {
				return err
			}
			after = next
		}
		return nil
	})
	return end, err
}
