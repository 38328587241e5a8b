package ownership

import (
	"maps"
	"slices"

	"proxima/frontier"
)

// The methods below implement Shelf.

func (d *disk) Get(key []byte) ([]byte, error) {
	if err := d.lockNow(2); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if v, ok := d.now.shelf[string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (d *disk) ScanAfter(after []byte, visit func(key, value []byte) error) error {
	if err := d.lock(); err != nil {
		return err
	}
	shelf := maps.Clone(d.now.shelf)
	d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(shelf)) {
		if after == nil || key > string(after) {
			if err := visit([]byte(key), []byte(shelf[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *disk) Batch(fill func(put func(key, value []byte), remove func(key []byte))) error {
	if err := d.lockNow(2); err != nil {
		return err
	}
	defer d.mu.Unlock()
	fill(func(k, v []byte) { d.now.shelf[string(k)] = string(v) }, func(k []byte) { delete(d.now.shelf, string(k)) })
	return nil
}

// lockNow is lock for callers that hold a mutex. They do not wait while the process is frozen: others that want the mutex would stop the fake
// clock. caller is how many calls above fault.fails the call to the disk is.
func (d *disk) lockNow(caller int) error {
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		return frontier.ErrClosed
	}
	if err := d.fault.fails(caller); err != nil {
		d.mu.Unlock()
		return err
	}
	return nil
}
