package peer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"proxima/node/peer"
	"proxima/node/wire"
)

// knowledge is what a node knows of the scope; its digest is the number of its entries.
type knowledge struct {
	entries []string
	whole   []uint64
	broken  error
}

func (k *knowledge) Entries() ([]string, uint64) { return k.entries, k.Digest() }
func (k *knowledge) Digest() uint64              { return uint64(len(k.entries)) }
func (k *knowledge) Knows(digest uint64) bool    { return digest <= k.Digest() }
func (k *knowledge) Unite(entries []string, whole uint64) error {
	if k.broken == nil && len(entries) > 0 {
		k.entries, k.whole = append(k.entries, entries...), append(k.whole, whole)
	}
	return k.broken
}

// A call of a node that knows more of the scope is carried out once that is told, in parts; one of a node that knows less at once.
func TestWhatWasToldGoesBeforeACall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		much := &knowledge{}
		for i := range 45_000 {
			much.entries = append(much.entries, fmt.Sprintf("host n%d.example", i))
		}
		little := &knowledge{}
		a, b := w.node("a", who{told: much}), w.node("b", who{told: little})
		calls := 0
		answer := func(context.Context, string, *wire.LeaseRequest) (*wire.LeaseResponse, error) {
			if calls++; len(little.entries) != len(much.entries) {
				t.Errorf("carried out while %d of %d entries were known", len(little.entries), len(much.entries))
			}
			return &wire.LeaseResponse{}, nil
		}
		b.handler.OnLease = answer
		for range 3 {
			if _, err := a.client.Lease(t.Context(), "b", &wire.LeaseRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		if calls != 3 || !slices.Equal(little.entries, much.entries) || !slices.Equal(little.whole, []uint64{0, 0, 45_000}) {
			t.Errorf("%d calls; %d entries told, wholes %v", calls, len(little.entries), little.whole)
		}
		if n := a.client.Counts().Failures[peer.KindTold]; n != 1 {
			t.Errorf("%d calls were refused for that, want the first", n)
		}
		if len(b.refused()) > 0 {
			t.Errorf("told as trouble: %v", b.refused())
		}

		little.entries = little.entries[:10]
		a.handler.OnLease = func(context.Context, string, *wire.LeaseRequest) (*wire.LeaseResponse, error) {
			return &wire.LeaseResponse{}, nil
		}
		if _, err := b.client.Lease(t.Context(), "a", &wire.LeaseRequest{}); err != nil || len(much.whole) > 0 {
			t.Errorf("who knows less told something: %v, %v", much.whole, err)
		}

		// Who has nothing else to say can make sure that it is known.
		little.entries, little.whole = little.entries[:10], nil
		for range 2 {
			if err := a.client.Tell(t.Context(), "b"); err != nil || len(little.entries) < len(much.entries) || len(little.whole) != 3 {
				t.Errorf("%d entries told in %d messages: %v", len(little.entries), len(little.whole), err)
			}
		}
		little.entries = little.entries[:10]
		if err := b.client.Tell(t.Context(), "a"); err != nil || len(much.whole) > 0 {
			t.Errorf("who knows less told something: %v, %v", much.whole, err)
		}

		// Who cannot keep what it is told carries nothing out.
		little.entries, little.broken = nil, errors.New("disk is gone")
		if _, err := a.client.Lease(t.Context(), "b", &wire.LeaseRequest{}); err == nil || calls != 3 {
			t.Errorf("carried out, %d times: %v", calls, err)
		}
	})
}

// TestLongEntriesAreTold: entries are told however long they are.
func TestLongEntriesAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		much, little := &knowledge{}, &knowledge{}
		for i := range 20_000 {
			much.entries = append(much.entries, fmt.Sprintf("block %d %s", i, strings.Repeat("x", 500)))
		}
		a := w.node("a", who{told: much})
		w.node("b", who{told: little})
		if _, err := a.ask("b"); err != nil || !slices.Equal(little.entries, much.entries) {
			t.Errorf("%d of %d entries were told: %v", len(little.entries), len(much.entries), err)
		}
	})
}

// TestWhatCannotBeToldSpoilsNoMessage: a peer that does not understand what it is told has not refused the message that waits for that.
func TestWhatCannotBeToldSpoilsNoMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		much, strange := &knowledge{entries: []string{"of a newer node"}}, &knowledge{broken: fmt.Errorf("%w: it is strange", peer.ErrMalformed)}
		a := w.node("a", who{told: much})
		w.node("b", who{told: strange})
		if _, err := a.ask("b"); err == nil || errors.Is(err, peer.ErrMalformed) || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("%v, want one after which the message is sent again", err)
		}
	})
}
