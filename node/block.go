package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"proxima/fetch/blocklist"
	"proxima/node/runlog"
)

const (
	// mostBlocks is how many hosts and prefixes may be blocked, those included that are not any more: they are remembered, so that a node
	// that comes back late does not block them again.
	mostBlocks = 100_000
	// maxVersion is the highest version of a block that is believed. They grow by ones.
	maxVersion = 1 << 53
	// maxWhy is how long a reason may be, and maxWho a name, in bytes.
	maxWhy, maxWho = 500, 100
)

// Block is what the overlay has been told about a host with all below it, or a prefix of addresses: that it is left alone, or no longer is.
// Of two about the same the one with the higher version holds: it was said by somebody who knew the other. Of one version, said at the same time
// on both sides of a partition, that one holds whose entry is the greater text. No clock counts.
type Block struct {
	// On is what it is about, as a list has it: "example.org", "192.0.2.0/24".
	On      string `json:"on"`
	Off     bool   `json:"off,omitempty"`
	Version uint64 `json:"version"`
	// By is who said so, on Node, at a time by its clock.
	By   string    `json:"by"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
	Why  string    `json:"why,omitempty"`
}

// blockEntry is how an entry about a block begins.
const blockEntry = "block "

// entry is the one text of a block.
func (b Block) entry() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // a year of five digits: check lets none through
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

// check says what cannot be of a block.
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

// plain says whether a text of somebody fits into a line that is shown to people.
func plain(what, text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("%s: %d bytes, more than %d", what, len(text), most)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return fmt.Errorf("%s: %q has characters that cannot be shown", what, text)
	}
	return nil
}

// newer says whether a block holds instead of another one about the same.
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

// Block has the whole overlay leave a host alone with all below it, or a prefix of addresses; with off it may be asked again. It says whether
// that is new. Nothing happens where it is so already.
func (n *Node) Block(text, by, why string, off bool) (b Block, changed bool, err error) {
	on, err := blocklist.Target(text)
	if err != nil {
		return b, false, badInput(fmt.Errorf("block: %w", err))
	}
	s := n.told
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.blocks[on]
	b = Block{On: on, Off: off, Version: was.Version + 1, By: by, Node: n.id.Node, At: time.Now().UTC().Truncate(time.Second), Why: why}
	if err := b.check(); err != nil {
		return b, false, badInput(fmt.Errorf("block: %w", err))
	}
	if known && was.Off == off || !known && off {
		n.acted(by, "it is so already: "+b.String(), runlog.KeyHost, on)
		return was, false, nil
	}
	n.logBlocks([]Block{b})
	if !off {
		// The request of its web master goes first: with its last host blocked a crawl ends, and its tables are closed.
		err = n.frontier.Shelf(tableOwners).Delete([]byte(on))
	}
	if err == nil {
		err = s.blockLocked([]Block{b})
	}
	if err != nil {
		return b, false, fmt.Errorf("block: %w", err)
	}
	poke(s.changed)
	return b, true, nil
}

// logBlocks says what is about to hold, and who said so.
func (n *Node) logBlocks(blocks []Block) {
	for _, b := range blocks {
		n.acted(b.By, b.String(), runlog.KeyHost, b.On, runlog.KeyPeer, b.Node)
	}
}

// Blocks are all that hold, by what they are about.
func (n *Node) Blocks() []Block {
	n.told.mu.Lock()
	defer n.told.mu.Unlock()
	return slices.DeleteFunc(sortedBlocks(n.told.blocks), func(b Block) bool { return b.Off })
}

func sortedBlocks(of map[string]Block) []Block {
	return slices.SortedFunc(maps.Values(of), func(a, b Block) int { return strings.Compare(a.On, b.On) })
}

// blockLocked puts blocks in force, on disk first.
func (s *told) blockLocked(blocks []Block) error {
	all := maps.Clone(s.blocks)
	for _, b := range blocks {
		if b.newer(all[b.On]) {
			all[b.On] = b
		}
	}
	if len(all) > mostBlocks {
		return fmt.Errorf("more than %d hosts and prefixes", mostBlocks)
	}
	next := s.task
	next.Blocks = sortedBlocks(all)
	if err := s.keepLocked(next); err != nil {
		return err
	}
	s.blocks = all
	s.enforceLocked()
	poke(s.deps.blocked)
	return nil
}

// enforceLocked has the blocklist know the blocks.
func (s *told) enforceLocked() {
	var entries, on []string
	for _, b := range s.blocks {
		entries = append(entries, b.entry())
		if !b.Off {
			on = append(on, b.On)
		}
	}
	s.list.Tell(on)
	s.rest.Store(digestOf(append(entries, s.files...)))
}
