package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
	"proxima/node/peer"
)

// mostDigests is how many digests are remembered. There is a new one whenever somebody adds a seed or blocks something.
const mostDigests = 10_000

// told is what this node has been told about the crawl, by its seeds, its operator and its peers: what is in scope, what is blocked, and who has
// the files of which sites. What is not from its own seeds is remembered in crawl.json.
type told struct {
	rules *identity.Rules
	list  *blocklist.List
	dir   string
	deps  toldDeps
	// changed holds a token when there is something to tell.
	changed chan struct{}
	// rest is the digest of the blocks and the files.
	rest atomic.Uint64

	// mu guards what follows.
	mu sync.Mutex
	// covered are digests of sets of which this node has all.
	covered map[uint64]struct{}
	task    task
	blocks  map[string]Block // by what they are about
	files   []string         // entries, sorted
}

// toldDeps are who hears of what is new.
type toldDeps struct {
	// learnt is called with blocks of others, before they count.
	learnt func([]Block)
	// blocked gets a token when others are blocked.
	blocked chan struct{}
}

func newTold(rules *identity.Rules, list *blocklist.List, dir string, t task, deps toldDeps) (*told, error) {
	s := &told{rules: rules, list: list, dir: dir, deps: deps, changed: make(chan struct{}, 1), covered: map[uint64]struct{}{}, task: t,
		blocks: map[string]Block{}, files: t.Files}
	if err := rules.Widen(t.Learnt, func([]string) error { return nil }); err != nil {
		return nil, fmt.Errorf("scope: %w", err)
	}
	for _, b := range t.Blocks {
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("blocks: %w", err)
		}
		s.blocks[b.On] = b
	}
	s.enforceLocked()
	return s, nil
}

var _ peer.Told = (*told)(nil)

// Entries implements peer.Told.
func (s *told) Entries() (entries []string, digest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, digest = s.rules.Seeded()
	for _, on := range slices.Sorted(maps.Keys(s.blocks)) {
		entries = append(entries, s.blocks[on].entry())
	}
	return append(entries, s.files...), digest ^ s.rest.Load()
}

// Digest implements peer.Told.
func (s *told) Digest() uint64 { return s.rules.SeededDigest() ^ s.rest.Load() }

// Knows implements peer.Told.
func (s *told) Knows(digest uint64) bool {
	if digest == 0 || digest == s.Digest() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.covered[digest]
	return ok
}

// Unite implements peer.Told.
func (s *told) Unite(entries []string, whole uint64) error {
	var blocks []Block
	var files []string
	scope := make([]string, 0, len(entries))
	for _, entry := range entries {
		switch {
		case strings.HasPrefix(entry, filesEntry):
			if err := checkFiles(entry); err != nil {
				return fmt.Errorf("%w: %w", peer.ErrMalformed, err)
			}
			files = append(files, entry)
			continue
		case !strings.HasPrefix(entry, blockEntry):
			scope = append(scope, entry)
			continue
		}
		b, err := parseBlock(entry)
		if err != nil {
			return fmt.Errorf("%w: %w", peer.ErrMalformed, err)
		}
		blocks = append(blocks, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.Digest()
	var unwritten error
	err := s.rules.Widen(scope, func(added []string) error {
		next := s.task
		next.Learnt = append(next.Learnt[:len(next.Learnt):len(next.Learnt)], added...)
		unwritten = s.keepLocked(next)
		return unwritten
	})
	switch {
	case unwritten != nil:
		return unwritten
	case err != nil:
		return fmt.Errorf("%w: %w", peer.ErrMalformed, err)
	}
	blocks = slices.DeleteFunc(blocks, func(b Block) bool { return !b.newer(s.blocks[b.On]) })
	if len(blocks) > 0 {
		s.deps.learnt(blocks)
		if err := s.blockLocked(blocks); err != nil {
			return err
		}
	}
	if err := s.filesLocked(files); err != nil {
		return err
	}
	if whole != 0 {
		if len(s.covered) >= mostDigests {
			clear(s.covered) // who is not known tells it again
		}
		s.covered[whole] = struct{}{}
	}
	if s.Digest() != before {
		poke(s.changed)
	}
	return nil
}

// seed adds seeds to those of this node: they are remembered, and bring into scope what its configuration says.
func (s *told) seed(seeds []identity.URL) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.task
	next.Seeds = slices.Clone(next.Seeds)
	known := make(map[string]bool, len(next.Seeds))
	for _, text := range next.Seeds {
		known[text] = true
	}
	for _, text := range texts(seeds) {
		if !known[text] {
			known[text] = true
			next.Seeds = append(next.Seeds, text)
		}
	}
	if err := s.keepLocked(next); err != nil {
		return err
	}
	defer poke(s.changed)
	return s.rules.Widen(s.rules.Brought(seeds), func([]string) error { return nil })
}

// pause remembers whether the operator has paused the node.
func (s *told) pause(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.task
	next.Paused = on
	return s.keepLocked(next)
}

// paused says whether the operator has.
func (s *told) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.task.Paused
}

// keepLocked writes what is remembered.
func (s *told) keepLocked(next task) error {
	if err := next.keep(s.dir); err != nil {
		return err
	}
	s.task = next
	return nil
}

// digestOf adds entries up, in whatever order.
func digestOf(entries []string) (digest uint64) {
	for _, entry := range entries {
		sum := sha256.Sum256([]byte(entry))
		digest ^= binary.LittleEndian.Uint64(sum[:])
	}
	return digest
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// tellEvery is how often a node makes sure that one of its peers knows all.
	tellEvery = 5 * time.Second
	// tellAtOnce is how many peers hear of something new at once. They do the same.
	tellAtOnce = 8
)

// tell has the peers know what this node has been told. Most calls do that by the way; this is for nodes that have nothing else to say.
func (o *overlay) tell(ctx context.Context) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		most := 1
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-o.node.told.changed:
			most = tellAtOnce
		}
		v := o.there()
		others := slices.DeleteFunc(slices.Clone(v.Alive), func(id string) bool { return id == v.Self })
		rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		var g errgroup.Group
		for _, id := range others[:min(most, len(others))] {
			g.Go(func() error {
				_ = o.client.Tell(ctx, id) // who does not hear it now is told when it is called, or at another tick
				return nil
			})
		}
		_ = g.Wait()
	}
}
