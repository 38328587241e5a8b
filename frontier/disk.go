package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDiskFull is returned while less disk is free than the watermark. Nothing that was accepted is lost, and downloads under way end
// as usual.
var ErrDiskFull = errors.New("the disk is full")

// diskInterval is so short that the downloads of one interval fit into the space that is left.
const diskInterval = 250 * time.Millisecond

// roomFor is how long there must be room before a node with a full disk goes on. What it stops at is the limit, where a byte more or less
// would stop it and let it go on all the time.
const roomFor = 10 * time.Second

// watermark is the free space, in bytes, below which no download begins. Without one it is what the store needs to write its buffers.
func (c Config) watermark() uint64 { return uint64(cmp.Or(c.MinFreeMiB, 8*c.memtableMiB())) << 20 }

// reserve is the free space, in bytes, below which nothing is written, because something else fills the disk.
func (c Config) reserve() uint64 { return c.watermark() / 4 }

// checkDisk pauses downloads while less disk is free than the watermark. It fails where the store is gone.
func (f *Frontier) checkDisk() error {
	end := f.store.calls.begin()
	free, err := f.deps.FreeBytes()
	if err == nil {
		err = f.store.replaced()
	}
	end()
	if err != nil {
		return err
	}
	f.store.gate.shut.Store(free < f.cfg.reserve())
	f.mu.Lock()
	now := time.Now()
	if free < f.cfg.watermark() {
		f.tight = now
	}
	was, full := f.full, now.Sub(f.tight) < roomFor
	if f.full = full; was && !full {
		f.dispatchLocked(now)
	}
	f.mu.Unlock()
	switch {
	case full && !was:
		f.deps.Event(Event{Kind: DiskFull, Free: free, Need: f.cfg.watermark()})
	case was && !full:
		f.deps.Event(Event{Kind: DiskOK, Free: free})
	}
	return nil
}

// room returns ErrDiskFull if nothing may be written. It is for what is written before Run looks at the disk.
func (l *ledger) room() error {
	free, err := FreeBytes(l.store.db.Opts().Dir)
	if err == nil && free < l.cfg.reserve() {
		err = ErrDiskFull
	}
	return err
}

// FreeBytes returns the least space, in bytes, that an ordinary user may still use on the file systems of some directories.
func FreeBytes(dirs ...string) (uint64, error) {
	least := uint64(math.MaxUint64)
	for _, dir := range dirs {
		if dir == "" {
			continue // it is in memory
		}
		var st unix.Statfs_t
		if err := uninterrupted(func() error { return unix.Statfs(dir, &st) }); err != nil {
			return 0, fmt.Errorf("look for free disk at %s: %w", dir, err)
		}
		least = min(least, st.Bavail*uint64(st.Bsize))
	}
	return least, nil
}

// uninterrupted repeats a system call for as long as signals interrupt it, as they may on a network's file system.
func uninterrupted(call func() error) (err error) {
	for {
		if err = call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// gate holds writes back while the disk is almost full. The store maps its files into memory, so a write without room on the disk would
// kill the process.
type gate struct {
	shut atomic.Bool
	stop chan struct{} // closed by Stopping
	once sync.Once
}

// pass waits until the gate is open. It fails when the context ends, and with ErrDiskFull after Stopping.
func (g *gate) pass(ctx context.Context) error {
	for g.shut.Load() {
		select {
		case <-time.After(diskInterval):
		case <-g.stop:
			return ErrDiskFull
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Writable reports whether writes pass: they wait while the disk is almost full.
func (f *Frontier) Writable() bool { return !f.store.gate.shut.Load() }

// Stopping ends the waits of calls that want to write to an almost full disk. They write nothing and get ErrDiskFull. A node calls it
// when it ends.
func (f *Frontier) Stopping() { f.store.gate.once.Do(func() { close(f.store.gate.stop) }) }

// hungAfter is how long the disk may take for one write before it counts as hung. A slow disk needs seconds.
const hungAfter = time.Minute

// calls are the calls to the disk that are under way. A disk that breaks, or whose network is gone, often answers none for minutes.
type calls struct {
	begun sync.Map // from a *time.Time, at which a call began, to nothing
}

// begin notes a call, until end is called.
func (c *calls) begin() (end func()) {
	at := time.Now()
	c.begun.Store(&at, nil)
	return func() { c.begun.Delete(&at) }
}

// hung says whether a call has been under way for too long.
func (c *calls) hung(now time.Time) bool {
	for at := range c.begun.Range {
		if now.Sub(*at.(*time.Time)) >= hungAfter {
			return true
		}
	}
	return false
}

// Hung reports whether the disk has let a write, a sync or a question wait for a minute.
func (f *Frontier) Hung() bool { return f.store.calls.hung(time.Now()) }
