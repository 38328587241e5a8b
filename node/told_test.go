package node

import (
	"fmt"
	"testing"

	"proxima/frontier/identity"
)

// TestWhatIsToldIsBounded: however much peers tell, a node remembers so many digests of sets, and of directories of nodes. It refuses a set
// with more directories as a whole.
func TestWhatIsToldIsBounded(t *testing.T) {
	rules, err := identity.New(identity.Default(), []identity.URL{{Host: "http://a.test", Path: "/"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &told{node: &Node{rules: rules}, covered: map[uint64]struct{}{}}
	const most = 10_000
	for i := range uint64(most + 1) {
		if err := s.Unite(nil, i+1); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Knows(most+1) || len(s.covered) > most {
		t.Errorf("%d digests, with the last one: %v", len(s.covered), s.Knows(most+1))
	}
	var files []string
	for i := range most + 1 {
		files = append(files, filesOf("a", fmt.Sprint("dir", i)))
	}
	if err := s.Unite(files, 1<<40); err == nil || len(s.file.Files) > 0 || s.Knows(1<<40) {
		t.Errorf("%d directories are remembered: %v", len(s.file.Files), err)
	}
}
