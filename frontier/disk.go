package frontier

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDiskFull is returned while there is less free disk than the watermark. Nothing that was accepted is lost, and
// downloads under way end as usual.
var ErrDiskFull = errors.New("the disk is full")

const (
	diskInterval = 250 * time.Millisecond
	// reserved is the part of the watermark, one in so many, below which nothing at all is written: others fill the disk.
	reserved = 4
)

// watchDisk pauses downloads while there is less free disk than the watermark. It looks often enough that the
// downloads of the interval fit into what the watermark leaves.
func (f *Frontier) watchDisk(stop <-chan struct{}) error {
	if f.cfg.MinFreeMiB == 0 {
		return nil
	}
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		if err := f.checkDisk(); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
	}
}

func (f *Frontier) checkDisk() error {
	free, err := f.deps.FreeBytes()
	if err != nil {
		return err
	}
	full := free < uint64(f.cfg.MinFreeMiB)<<20
	f.store.gate.set(free < uint64(f.cfg.MinFreeMiB)<<20/reserved)
	f.mu.Lock()
	was := f.full != ""
	if full {
		f.full = "disk full"
	} else {
		f.full = ""
	}
	if was && !full {
		f.dispatch(time.Now())
	}
	f.mu.Unlock()
	switch {
	case full && !was:
		f.deps.Event(Event{Kind: DiskFull, Free: free})
	case was && !full:
		f.deps.Event(Event{Kind: DiskOK, Free: free})
	}
	return nil
}

// FreeBytes is the least space, in bytes, that an ordinary user may still use on the file systems of some directories.
func FreeBytes(dirs ...string) (uint64, error) {
	least := uint64(math.MaxUint64)
	for _, dir := range dirs {
		free, err := freeBytes(dir)
		if err != nil {
			return 0, err
		}
		least = min(least, free)
	}
	return least, nil
}

// freeBytes is the space that an ordinary user may still use where dir is.
func freeBytes(dir string) (uint64, error) {
	if dir == "" {
		return math.MaxUint64, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look for free disk at %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
