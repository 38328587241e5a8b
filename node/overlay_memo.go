package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"proxima/frontier"
	"proxima/node/bell"
)

// The keys of what a node keeps of the overlay for its next start.
const (
	// keyKnown has the gossip addresses of the members, one a line.
	keyKnown = "known"
	// keyReach is how the node was reached. If it started with another reach, homes would move.
	keyReach = "reach"
	// keyArmed has the run of which all expected nodes were there.
	keyArmed = "armed"
)

// memo keeps what a node must know of the overlay at its next start. Writes wait while the disk is almost full, and no part of the overlay
// may wait for that, so memo writes in a goroutine of its own.
type memo struct {
	shelf *frontier.Shelf
	news  bell.Bell

	// mu guards what follows.
	mu      sync.Mutex
	waiting map[string]string // values to be written, by key
}

func newMemo(shelf *frontier.Shelf) *memo {
	return &memo{shelf: shelf, news: bell.New(), waiting: map[string]string{}}
}

// put sets the value of a key soon. It does not wait.
func (m *memo) put(key, value string) {
	m.mu.Lock()
	m.waiting[key] = value
	m.mu.Unlock()
	m.news.Ring()
}

// known returns the gossip addresses of the members of an earlier life.
func (m *memo) known() []string {
	b, err := m.shelf.Get([]byte(keyKnown))
	if err != nil || len(b) == 0 {
		return nil // member.join is left
	}
	return strings.Split(string(b), "\n")
}

func (m *memo) run(ctx context.Context) error {
	if err := bell.Loop(ctx, m.news, 0, func(bool) error { return m.write() }); err != nil {
		return err
	}
	return m.write() // what came last
}

// write writes what waits. A node that stops on a full disk leaves it out. If the frontier has failed, it reports that itself.
func (m *memo) write() error {
	m.mu.Lock()
	values := m.waiting
	m.waiting = map[string]string{}
	m.mu.Unlock()
	err := m.shelf.Batch(func(set func(key, value []byte), _ func(key []byte)) {
		for key, value := range values {
			set([]byte(key), []byte(value))
		}
	})
	if err != nil && !errors.Is(err, frontier.ErrDiskFull) && !errors.Is(err, frontier.ErrClosed) {
		return fmt.Errorf("remember the overlay: %w", err)
	}
	return nil
}

// What must be on disk before the node tells others has files of its own. They are written at once, also while the store waits for room.

// votersFile is where a node keeps the voters and its own vote: the name of the run, a line feed, and the bytes of member.Deps.Keep.
const votersFile = "voters"

// quotaFile is where a node keeps a value of package quota.
func quotaFile(data, key string) string { return filepath.Join(data, "quota-"+key) }

// loadVoters reads what this node kept for this run. It returns nil if there is nothing.
func loadVoters(data, run string) ([]byte, error) {
	b, err := readIfThere(filepath.Join(data, votersFile))
	if err != nil {
		return nil, fmt.Errorf("read voters: %w", err)
	}
	votes, ok := bytes.CutPrefix(b, []byte(run+"\n"))
	if !ok {
		return nil, nil // of another crawl
	}
	return votes, nil
}

func keepVoters(data, run string, votes []byte) error {
	if err := replaceFile(filepath.Join(data, votersFile), append([]byte(run+"\n"), votes...)); err != nil {
		return fmt.Errorf("write voters: %w", err)
	}
	return nil
}
