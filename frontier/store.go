package frontier

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Errors of opening a store. They are wrapped with the directory and what to do.
var (
	// ErrLocked says that another process has the store open.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrDamaged says that the files of the store do not fit together.
	ErrDamaged = errors.New("the data directory is damaged")
	// ErrOldLayout says that another version of the program wrote the store.
	ErrOldLayout = errors.New("the data directory is from another version of the program")
)

// store is the Badger database under the ledger. Writes survive the death of the process at once and that of the
// machine after a second (sync).
type store struct {
	db    *badger.DB
	codec *codec
	gate  *gate

	// mu guards what follows. Callers from outside the frontier's own goroutines register while they use the database,
	// which must not be closed under them.
	mu      sync.Mutex
	users   int
	closing bool
	// syncs are the calls that wait for the next sync of the store.
	syncs []chan error
	idle  sync.Cond // of mu: users may have become 0

	syncing chan struct{} // somebody waits in syncs
	// written counts commits; flushed is what it was before the last sync, trimmed before the last trim. Both are of tend.
	written          atomic.Uint64
	flushed, trimmed uint64
}

// commit commits a transaction.
func (s *store) commit(txn *badger.Txn) error {
	if err := txn.Commit(); err != nil {
		return err
	}
	s.written.Add(1)
	return nil
}

// enter registers a user of the database; false when it is closing. Users may be nested.
func (s *store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.users++
	return true
}

// exit ends what enter began.
func (s *store) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle.Broadcast()
	}
}

func openStore(dir string, memtableMiB int) (s *store, err error) {
	// Badger panics on some kinds of damage; for the operator that is one more way to be damaged.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("open store %s: %w: %v", dir, ErrDamaged, p)
		}
	}()
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
	}
	// Blocks of many URLs go to the value log, where compactions do not copy them: twice the speed at 20 million URLs
	// of a threshold of 1 KiB. In memory there is no such log.
	valueThreshold := int64(256)
	if dir == "" {
		valueThreshold = 600 << 10 // a robots.txt fits
	}
	o := badger.DefaultOptions(dir).WithInMemory(dir == "").WithLogger(nil).
		WithMemTableSize(int64(memtableMiB) << 20).WithNumMemtables(3).
		WithNumLevelZeroTables(6).WithNumLevelZeroTablesStall(16).WithNumCompactors(2).
		WithBaseLevelSize(32 << 20).WithBaseTableSize(2 << 20).WithCompression(options.Snappy).
		WithBlockCacheSize(8 << 20).WithIndexCacheSize(8 << 20).
		WithValueLogFileSize(32 << 20).WithValueThreshold(valueThreshold).
		WithDetectConflicts(false).WithMetricsEnabled(false)
	// Tables are small, and of one size at all levels, because Badger keeps eight buffers of its compactions, each several times
	// the size of a table or of a memtable: with twice the sizes the garbage collector takes 40 % of the time of visits.
	o.TableSizeMultiplier = 1
	db, err := badger.Open(o)
	for range 8 {
		// A process that is killed between making a file and giving it its length leaves it empty. Badger then says
		// that it had to make the file, gives it its header, and opens it the next time. Nothing is missing: what was
		// acknowledged is in the files before it. The error is recognised by its text, for Badger loses its identity.
		if err == nil || !strings.Contains(err.Error(), "Create a new file") {
			break
		}
		db, err = badger.Open(o)
	}
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, fmt.Errorf("open store %s: %w", dir, ErrLocked)
		}
		for _, e := range []syscall.Errno{syscall.EACCES, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
			if strings.Contains(err.Error(), e.Error()) { // no damage, and nothing to delete
				return nil, fmt.Errorf("open store %s: %w", dir, err)
			}
		}
		return nil, fmt.Errorf("open store %s: %w: %w", dir, ErrDamaged, err)
	}
	c, err := newCodec()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s = &store{db: db, codec: c, gate: newGate(), syncing: make(chan struct{}, 1)}
	s.idle.L = &s.mu
	s.written.Store(1) // what the last life wrote
	return s, nil
}

// close waits for the users to exit and closes the database.
func (s *store) close() error {
	s.mu.Lock()
	s.closing = true
	for s.users > 0 {
		s.idle.Wait()
	}
	s.mu.Unlock()
	s.codec.close()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// tend syncs and trims the store every second in which something was written, and takes back space in its
// value log every minute, until stop is closed.
func (s *store) tend(stop <-chan struct{}) error {
	sync := time.NewTicker(time.Second)
	defer sync.Stop()
	collect := time.NewTicker(time.Minute)
	defer collect.Stop()
	defer s.synced(ErrClosed)
	for {
		select {
		case <-stop:
			return nil
		case <-s.syncing:
			if err := s.sync(); err != nil {
				return err
			}
		case <-sync.C:
			if err := s.sync(); err != nil {
				return err
			}
			written := s.written.Load()
			if s.db.Opts().InMemory || written == s.trimmed {
				continue
			}
			s.trimmed = written
			if err := s.trim(); err != nil {
				return err
			}
		case <-collect.C:
			if s.db.Opts().InMemory || s.gate.shut.Load() != nil { // it writes what it keeps
				continue
			}
			// Each call rewrites one file at most; the bound keeps a busy minute from becoming an hour.
			for range 8 {
				if s.db.RunValueLogGC(0.5) != nil {
					break
				}
				s.written.Add(1)
			}
		}
	}
}

// sync brings what is written to the medium, if anything was written since, and tells those who wait for it.
func (s *store) sync() error {
	s.mu.Lock()
	waiting := s.syncs
	s.syncs = nil
	s.mu.Unlock()
	var err error
	if written := s.written.Load(); written != s.flushed && !s.db.Opts().InMemory {
		if err = s.db.Sync(); err == nil {
			s.flushed = written
		}
	}
	for _, w := range waiting {
		w <- err
	}
	if err != nil {
		return fmt.Errorf("sync store: %w", err)
	}
	return nil
}

// synced tells all who wait that there is no further sync.
func (s *store) synced(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.syncs {
		w <- err
	}
	s.syncs = nil
}

// Sync returns when everything that was answered before the call survives the death of the machine. Calls that come
// together share the work.
func (f *Frontier) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	f.store.mu.Lock()
	f.store.syncs = append(f.store.syncs, done)
	f.store.mu.Unlock()
	signal(f.store.syncing)
	select {
	case err := <-done:
		return err
	case <-f.ledger.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// view lets a caller from outside the frontier's own goroutines read the store.
func (s *store) view(ctx context.Context, read func(txn *badger.Txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.enter() {
		return ErrClosed
	}
	defer s.exit()
	return s.db.View(read)
}

// get reads one value; absent is nil.
func (s *store) get(key []byte) (out []byte, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		out, err = readValue(txn, key)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	return out, nil
}

// readValue reads a value in a view of the store; absent is nil.
func readValue(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// write makes changes in one transaction.
func (s *store) write(fill func(txn *badger.Txn) error) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := fill(txn); err != nil {
		return err
	}
	return s.commit(txn)
}

// readRecord reads the record of a host in a view of the store; false where there is none.
func readRecord(txn *badger.Txn, host string) (rec record, known bool, err error) {
	value, err := readValue(txn, hostKey(kindHost, host))
	if err != nil || value == nil {
		return rec, false, err
	}
	rec, err = decodeRecord(host, value)
	return rec, err == nil, err
}

// each calls f for every item below prefix in order, from the key start on (nil: from the first), until f returns
// false. With values it fetches them ahead.
func (s *store) each(prefix, start []byte, values bool, f func(item *badger.Item) (bool, error)) error {
	return s.db.View(func(txn *badger.Txn) error { return eachIn(txn, prefix, start, values, f) })
}

// eachIn is each in a view of the store.
func eachIn(txn *badger.Txn, prefix, start []byte, values bool, f func(item *badger.Item) (bool, error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, values, 32
	it := txn.NewIterator(o)
	defer it.Close()
	if start == nil {
		start = prefix
	}
	for it.Seek(start); it.ValidForPrefix(prefix); it.Next() {
		more, err := f(it.Item())
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return nil
}

// loadedBlock is a block read back from disk.
type loadedBlock struct {
	seq     uint64
	entries []entry
}

// reading is what is to be read of one queue of a host, and what was.
type reading struct {
	after uint64 // the last block that is not to be read
	want  int    // URLs; none are read where it is not above 0
	known uint64 // the last block that was known to be on disk when the reading began
	// blocks hold those URLs, or all there are; more says that others follow.
	blocks []loadedBlock
	more   bool
}

// blocks reads pending URLs of a host.
func (s *store) blocks(host string, queues *[Revisit]reading) error {
	prefix := hostKey(kindPending, host)
	err := s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = prefix, false
		it := txn.NewIterator(o)
		defer it.Close()
		it.Seek(prefix) // most hosts have nothing in most queues, and each seek is dear
		for origin := range queues {
			q, have := &queues[origin], 0
			if q.want <= 0 {
				continue
			}
			if start := pendingKey(host, Origin(origin), q.after+1); it.ValidForPrefix(prefix) && bytes.Compare(it.Item().Key(), start) < 0 {
				it.Seek(start)
			}
			for ; it.ValidForPrefix(append(prefix, byte(origin))); it.Next() {
				if q.more = have >= q.want; q.more {
					break
				}
				_, seq, err := splitPending(it.Item().Key()[len(prefix):])
				if err != nil {
					return err
				}
				value, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				entries, err := s.codec.open(host, value)
				if err != nil {
					return err
				}
				q.blocks = append(q.blocks, loadedBlock{seq: seq, entries: entries})
				have += len(entries)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read pending URLs of %s: %w", host, err)
	}
	return nil
}

// depths reads the smaller depths found for pending URLs of a host.
func (s *store) depths(host string) (out map[uint64]uint8, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		out, err = readDepths(txn, host)
		return err
	})
	return out, err
}

// readDepths is depths in a view of the store.
func readDepths(txn *badger.Txn, host string) (map[uint64]uint8, error) {
	var out map[uint64]uint8
	err := eachIn(txn, hostKey(kindDepth, host), nil, true, func(item *badger.Item) (bool, error) {
		_, rest, err := splitKey(item.Key())
		if err != nil || len(rest) != 8 {
			return false, fmt.Errorf("read depth at %s: damaged key", host)
		}
		return true, item.Value(func(v []byte) error {
			if len(v) != 1 {
				return fmt.Errorf("read depth at %s: damaged value", host)
			}
			if out == nil {
				out = make(map[uint64]uint8)
			}
			out[binary.BigEndian.Uint64(rest)] = v[0]
			return nil
		})
	})
	return out, err
}

// waiting names up to n hosts with pending URLs, in the order of their keys after the host named, that skip lets pass,
// and the last host that it looked at. The third result is true when the end of the keys was reached.
func (s *store) waiting(after string, n int, skip func(host string) bool) (hosts []string, last string, end bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = kindPrefix(kindPending), false
		it := txn.NewIterator(o)
		defer it.Close()
		// A bound on the hosts looked at: with most of them on the workbench this would be a scan.
		for looked := 0; len(hosts) < n && looked < 16*n; looked++ {
			// Behind the last key of the host: 0x01 is more than the zero byte that ends its name.
			it.Seek(append(append(kindPrefix(kindPending), after...), 1))
			if !it.ValidForPrefix(o.Prefix) {
				end = true
				return nil
			}
			host, _, err := splitKey(it.Item().Key())
			if err != nil {
				return err
			}
			if after = host; !skip(host) {
				hosts = append(hosts, host)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", false, fmt.Errorf("look for waiting hosts: %w", err)
	}
	return hosts, after, end, nil
}
