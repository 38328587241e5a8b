package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// votersFile is where a node keeps whose votes count, and for what it has voted: the name of the run, a line feed, and
// what the room of the members gave. It is a file of its own because it must be on disk before the node tells of it, and
// because of its name: who copies a data directory must not leave it out.
const votersFile = "voters"

// loadVoters reads what an earlier life kept; nil where there is none of this run.
func loadVoters(data, run string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(data, votersFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read voters: %w", err)
	}
	of, votes, ok := bytes.Cut(b, []byte{'\n'})
	if !ok || string(of) != run {
		return nil, nil // another crawl, with members of its own
	}
	return votes, nil
}

func keepVoters(data, run string, votes []byte) error {
	if err := replaceFile(filepath.Join(data, votersFile), append([]byte(run+"\n"), votes...)); err != nil {
		return fmt.Errorf("write voters: %w", err)
	}
	return nil
}

// ErrAlone says that a node has no overlay.
var ErrAlone = errors.New("the node crawls alone: it waits for nobody")

// GoAlone tells the node that the members that it does not see are gone for good. It gives the ids of those whose votes
// counted.
func (n *Node) GoAlone(by string) (dropped []string, err error) {
	if n.overlay == nil {
		return nil, ErrAlone
	}
	n.acted(by, "go alone")
	return n.overlay.members.GoAlone("an operator said so")
}
