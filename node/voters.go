package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// votersFile is where a node keeps the voters and its own vote: the name of the run, a line feed, and the bytes of member.Deps.Keep. They
// must be on disk before the node tells others. In a file of their own they are written at once.
const votersFile = "voters"

// loadVoters reads what this node kept for this run. It returns nil if there is nothing.
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
