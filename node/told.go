package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/peer"
)

// mostDigests is how many digests are remembered. Each new seed and each block makes another one.
const mostDigests = 10_000

// told is what this node knows about the crawl from its seeds, its operator and its peers: what is in scope, what is blocked, and which nodes
// have the files of which sites. It is kept in crawl.json.
type told struct {
	node *Node
	// changed rings when there is something new to tell the peers.
	changed bell.Bell
	// rest is the digest of blocks and files.
	rest atomic.Uint64
	// covered has the digests of sets whose entries this node has, all of them. It is looked at before each call of a peer, which must not wait
	// until crawl.json is written.
	covered *lru.Cache[uint64, struct{}]

	// mu guards what follows.
	mu   sync.Mutex
	file crawlFile
}

// newCovered returns a place for the digests told last. Peers send the entries of others once more.
func newCovered() *lru.Cache[uint64, struct{}] {
	cache, _ := lru.New[uint64, struct{}](mostDigests) // it fails only for a size below one
	return cache
}

// newTold puts in force what a node was told in its earlier lives. The node must have its rules and its blocklist.
func newTold(n *Node, f crawlFile) (*told, error) {
	s := &told{node: n, changed: bell.New(), covered: newCovered(), file: f}
	if err := n.rules.Widen(f.Learnt, func([]string) error { return nil }); err != nil {
		return nil, fmt.Errorf("scope: %w", err)
	}
	for _, b := range f.Blocks {
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("blocks: %w", err)
		}
	}
	s.file.Blocks = newest(f.Blocks)
	s.enforceLocked()
	return s, nil
}

var _ peer.Told = (*told)(nil)

// Entries implements peer.Told.
func (s *told) Entries() (entries []string, digest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, digest = s.node.rules.Seeded()
	for _, b := range s.file.Blocks {
		entries = append(entries, b.entry())
	}
	return append(entries, s.file.Files...), digest ^ s.rest.Load()
}

// Digest implements peer.Told.
func (s *told) Digest() uint64 { return s.node.rules.SeededDigest() ^ s.rest.Load() }

// Knows implements peer.Told.
func (s *told) Knows(digest uint64) bool {
	return digest == 0 || digest == s.Digest() || s.covered.Contains(digest)
}

// Unite implements peer.Told.
func (s *told) Unite(entries []string, whole uint64) error {
	var blocks []Block
	var files []string
	scope := make([]string, 0, len(entries))
	for _, entry := range entries {
		var b Block
		var err error
		switch {
		case strings.HasPrefix(entry, filesEntry):
			err = checkFiles(entry)
			files = append(files, entry)
		case strings.HasPrefix(entry, blockEntry):
			b, err = parseBlock(entry)
			blocks = append(blocks, b)
		default:
			scope = append(scope, entry)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", peer.ErrMalformed, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.Digest()
	var unwritten error
	err := s.node.rules.Widen(scope, func(added []string) error {
		next := s.file
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
	blocks = slices.DeleteFunc(blocks, func(b Block) bool { return !b.newer(s.blockLocked(b.On)) })
	if len(blocks) > 0 {
		s.node.operator.logBlocks(blocks) // before they are in force
	}
	// Blocks hold even if there is no room for the directories.
	if err := errors.Join(s.addLocked(blocks, nil, toldMost), s.addLocked(nil, files, toldMost)); err != nil {
		return err
	}
	if whole != 0 {
		s.covered.Add(whole, struct{}{})
	}
	if s.Digest() != before {
		s.changed.Ring()
	}
	return nil
}

// seed remembers further seeds, and widens the scope by them as the configuration says.
func (s *told) seed(seeds []identity.URL) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.file
	next.Seeds, _ = withSeeds(next.Seeds, seeds)
	kept := false
	keep := func([]string) error {
		kept = true
		return s.keepLocked(next)
	}
	if err := s.node.rules.Widen(s.node.rules.Brought(seeds), keep); err != nil || kept {
		s.changed.Ring()
		return err
	}
	return keep(nil) // they widen nothing
}

// pause remembers whether the node is paused, and pauses it. Of two calls the one that is remembered counts.
func (s *told) pause(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.file
	next.Paused = on
	if err := s.keepLocked(next); err != nil {
		return err
	}
	s.node.operator.hold(on)
	return nil
}

// paused says whether the operator has paused this node.
func (s *told) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Paused
}

// keep writes crawl.json.
func (s *told) keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepLocked(s.file)
}

// keepLocked writes crawl.json.
func (s *told) keepLocked(next crawlFile) error {
	if err := next.keep(s.node.cfg.Node.Data); err != nil {
		return err
	}
	s.file = next
	return nil
}

const (
	// tellEvery is how often a node makes sure that one of its peers knows everything.
	tellEvery = 5 * time.Second
	// tellAtOnce is how many peers a node tells of something new at once. These tell others.
	tellAtOnce = 8
)

// tell tells the peers what this node knows about the crawl. Other calls do so, too; tell is for nodes that make no other calls.
func (o *overlay) tell(ctx context.Context) error {
	return bell.Loop(ctx, o.node.told.changed, tellEvery, func(timed bool) error {
		most := tellAtOnce
		if timed {
			most = 1
		}
		v := o.there()
		others := v.Others()
		rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		bell.Each(most, others[:min(most, len(others))], func(id string) {
			_ = o.client.Tell(ctx, id) // a peer that does not answer is told later
		})
		return nil
	})
}
