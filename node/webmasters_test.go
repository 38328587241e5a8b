package node

import (
	"slices"
	"testing"

	"proxima/frontier"
)

// A slow disk to which the request of one web master is written does not keep others from the page.
func TestPageOfWebMastersDoesNotWaitForRequests(t *testing.T) {
	f, err := frontier.Open(t.TempDir(), frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	must(t, err)
	t.Cleanup(func() { must(t, f.Run(t.Context())) }) // it closes at once
	w := &webMasters{Node: new(Node), shelf: f.Shelf(tableOwners)}
	first, err := w.keys()
	must(t, err)
	w.making.Lock() // as long as a request is written
	next, err := w.keys()
	if err != nil || !slices.Equal(next[0], first[0]) {
		t.Errorf("the key is %q and then %q, %v", first, next, err)
	}
}
