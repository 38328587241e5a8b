package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

const (
	// mostBlocks is how many hosts and prefixes may be blocked. It includes those whose block has ended: they are remembered so that a node
	// that was away does not block them again.
	mostBlocks = 100_000
	// toldMost is how many times as many a node takes from peers. Two sides of an overlay may both come close to the bound, and a node that
	// refuses what a peer has been told refuses all its calls.
	toldMost = 2
	// maxVersion is the highest version of a block that is accepted. Versions grow by one.
	maxVersion = 1 << 53
	// maxWhy bounds the length of a reason, and maxWho that of a name, in bytes.
	maxWhy, maxWho = 500, 100
)

// Block tells the overlay to leave alone a host with everything below it, or an address prefix; or no longer to. Of two blocks of the same
// target, the one with the higher version is in force: who made it knew the other. Two blocks of one version can be made on the two sides
// of a partition. Then the one whose entry is the greater text is in force. Clocks do not matter.
type Block struct {
	// On is the target, as a blocklist has it: "example.org", "192.0.2.0/24". Off ends the block.
	On      string `json:"on"`
	Off     bool   `json:"off,omitempty"`
	Version uint64 `json:"version"`
	// By is who made the block, Node where, and At when by the clock of that node.
	By   string    `json:"by"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
	Why  string    `json:"why,omitempty"`
}

// blockEntry is how the entry of a block begins.
const blockEntry = "block "

// entry returns the text of a block. Each block has only one.
func (b Block) entry() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // check has excluded the years that cannot be encoded
	}
	return blockEntry + string(text)
}

func parseBlock(entry string) (b Block, err error) {
	if err := json.Unmarshal([]byte(strings.TrimPrefix(entry, blockEntry)), &b); err != nil {
		return b, fmt.Errorf("read block: %w", err)
	}
	if err := b.check(); err != nil {
		return b, fmt.Errorf("read block: %w", err)
	}
	if b.entry() != entry {
		return b, errors.New("read block: it is not written as this node would write it")
	}
	return b, nil
}

// check returns an error for a block that no node makes.
func (b Block) check() error {
	on, err := blocklist.Target(b.On)
	switch {
	case err != nil:
		return err
	case on != b.On:
		return fmt.Errorf("%q is written %q", b.On, on)
	case b.Version == 0 || b.Version > maxVersion:
		return fmt.Errorf("version %d is not between 1 and %d", b.Version, uint64(maxVersion))
	case b.At.Location() != time.UTC || b.At.Year() < 0 || b.At.Year() > 9999:
		return errors.New("the time is none of UTC")
	}
	return errors.Join(plain("why", b.Why, maxWhy), plain("by", b.By, maxWho), plain("node", b.Node, maxWho))
}

// plain returns an error for a text that is too long for a line, or has characters that cannot be shown.
func plain(what, text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("%s: %d bytes, more than %d", what, len(text), most)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return fmt.Errorf("%s: %q has characters that cannot be shown", what, text)
	}
	return nil
}

// newer reports whether a block replaces another one of the same target.
func (b Block) newer(than Block) bool {
	return b.Version > than.Version || b.Version == than.Version && b.entry() > than.entry()
}

func (b Block) String() string {
	s := "blocked"
	if b.Off {
		s = "unblocked"
	}
	if b.Why != "" {
		s += ": " + b.Why
	}
	return s
}

// Block tells the whole overlay to leave alone a host with everything below it, or an address prefix. off ends that. Block reports whether
// anything has changed.
func (o *Operator) Block(text, by, why string, off bool) (b Block, changed bool, err error) {
	on, err := blocklist.Target(text)
	if err != nil {
		return b, false, badInput(fmt.Errorf("block: %w", err))
	}
	s := o.node.told
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.blockLocked(on)
	known := was.Version > 0
	b = Block{On: on, Off: off, Version: was.Version + 1, By: by, Node: o.node.id.Node, At: time.Now().UTC().Truncate(time.Second), Why: why}
	if err := b.check(); err != nil {
		return b, false, badInput(fmt.Errorf("block: %w", err))
	}
	if known && was.Off == off || !known && off {
		o.log(by, "it is so already: "+b.String(), runlog.KeyHost, on)
		was.On, was.Off = on, off
		return was, false, nil
	}
	o.logBlocks([]Block{b})
	undo := func() error { return nil }
	if !off {
		// The request of the web master goes first: if this blocks the last host, the crawl ends and the frontier closes.
		undo, err = o.node.webMasters.blocked(on)
	}
	if err == nil {
		err = s.addLocked([]Block{b}, nil, 1)
	}
	if err != nil {
		return b, false, fmt.Errorf("block: %w", errors.Join(err, undo()))
	}
	return b, true, nil
}

// logBlocks logs blocks before they are in force.
func (o *Operator) logBlocks(blocks []Block) {
	for _, b := range blocks {
		about := []any{runlog.KeyHost, b.On}
		if b.Node != o.node.id.Node {
			about = append(about, runlog.KeyPeer, b.Node)
		}
		o.log(b.By, b.String(), about...)
	}
}

// Blocks returns all blocks in force, by target.
func (o *Operator) Blocks() []Block {
	s := o.node.told
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.file.Blocks), func(b Block) bool { return b.Off })
}

// newest returns the newest block of each target, sorted by target.
func newest(blocks []Block) []Block {
	all := slices.SortedFunc(slices.Values(blocks), func(a, b Block) int {
		switch {
		case a.On != b.On:
			return strings.Compare(a.On, b.On)
		case a.newer(b):
			return -1
		case b.newer(a):
			return 1
		}
		return 0
	})
	return slices.CompactFunc(all, func(a, b Block) bool { return a.On == b.On })
}

// blockLocked returns the block of a target, or one of version 0.
func (s *told) blockLocked(on string) (b Block) {
	i, known := slices.BinarySearchFunc(s.file.Blocks, on, func(b Block, on string) int { return strings.Compare(b.On, on) })
	if known {
		b = s.file.Blocks[i]
	}
	return b
}

// addLocked writes blocks and entries about files to disk, and puts the blocks in force. There may be so many times as many as a node tells;
// what peers have told beyond that hinders nothing that adds none.
func (s *told) addLocked(blocks []Block, files []string, times int) error {
	next := s.file
	if len(blocks) > 0 { // most calls tell nothing new, and there may be many
		next.Blocks = newest(slices.Concat(s.file.Blocks, blocks))
	}
	next.Files = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.file.Files, files))))
	switch {
	case len(blocks) == 0 && len(next.Files) == len(s.file.Files):
		return nil
	case len(next.Blocks) > max(times*mostBlocks, len(s.file.Blocks)):
		return fmt.Errorf("more than %d hosts and prefixes", times*mostBlocks)
	case len(next.Files) > max(times*mostFiles, len(s.file.Files)):
		return fmt.Errorf("more than %d directories of nodes", times*mostFiles)
	}
	if err := s.keepLocked(next); err != nil {
		return err
	}
	s.enforceLocked()
	if len(blocks) > 0 {
		s.node.blocked.Ring()
	}
	s.changed.Ring()
	return nil
}

// enforceLocked tells the blocklist which blocks are in force.
func (s *told) enforceLocked() {
	var entries, on []string
	for _, b := range s.file.Blocks {
		entries = append(entries, b.entry())
		if !b.Off {
			on = append(on, b.On)
		}
	}
	s.node.blocklist.Tell(on)
	s.rest.Store(identity.Digest(append(entries, s.file.Files...)...))
}
