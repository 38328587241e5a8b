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

// knowing returns what a node knows that was told n entries, each with some more text.
func knowing(n int, text string) *knowledge {
	k := &knowledge{}
	for i := range n {
		k.entries = append(k.entries, fmt.Sprintf("host n%d.example%s", i, text))
	}
	return k
}

// A call of a node that knows more of the scope is carried out once that is told, in parts; one of a node that knows less at once.
func TestWhatWasToldGoesBeforeACall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		much, little := knowing(45_000, ""), &knowledge{}
		a, b := w.node("a", who{told: much}), w.node("b", who{told: little})
		b.handler.OnIdle = func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
			if len(little.entries) != len(much.entries) {
				t.Errorf("carried out while %d of %d entries were known", len(little.entries), len(much.entries))
			}
			return &wire.IdleResponse{}, nil
		}
		toldAll := func(wholes ...uint64) {
			t.Helper()
			if !slices.Equal(little.entries, much.entries) || !slices.Equal(little.whole, wholes) || len(much.whole) > 0 {
				t.Fatalf("%d entries told, wholes %v and %v", len(little.entries), little.whole, much.whole)
			}
		}
		for range 3 {
			a.reaches("b")
		}
		toldAll(0, 0, 45_000)
		if calls, n := b.handler.seen()["Idle"], a.client.Counts().Failures[peer.KindTold]; calls != 3 || n != 1 || len(b.refused()) > 0 {
			t.Errorf("%d calls; %d were refused for that, want the first; told as trouble: %v", calls, n, b.refused())
		}

		// Who has nothing else to say can make sure that it is known. Who knows less tells nothing.
		tell := func(from *testNode, to string) {
			if err := from.client.Tell(t.Context(), to); err != nil {
				t.Error(err)
			}
		}
		little.entries, little.whole = little.entries[:10], nil
		b.reaches("a")
		tell(b, "a")
		little.entries = nil
		for range 2 {
			tell(a, "b")
			toldAll(0, 0, 45_000)
		}

		// Who cannot keep what it is told carries nothing out.
		little.entries, little.broken = nil, errors.New("disk is gone")
		if _, err := a.ask("b"); err == nil || b.handler.seen()["Idle"] != 3 {
			t.Errorf("carried out, %d times: %v", b.handler.seen()["Idle"], err)
		}
	})
}

// TestLongEntriesAreTold: entries are told however long they are.
func TestLongEntriesAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		much, little := knowing(20_000, strings.Repeat("x", 500)), &knowledge{}
		a := w.node("a", who{told: much})
		w.node("b", who{told: little})
		if a.reaches("b"); !slices.Equal(little.entries, much.entries) {
			t.Errorf("%d of %d entries were told", len(little.entries), len(much.entries))
		}
	})
}

// TestWhatCannotBeToldSpoilsNoMessage: a peer that does not understand what it is told, or has no room for it, has not refused the message that
// waits for that, and does not fail over it.
func TestWhatCannotBeToldSpoilsNoMessage(t *testing.T) {
	for _, broken := range []error{fmt.Errorf("%w: it is strange", peer.ErrMalformed), errors.New("the disk is full")} {
		inBubble(t, func(t *testing.T, w *world) {
			a := w.node("a", who{told: knowing(1, "")})
			w.node("b", who{told: &knowledge{broken: broken}})
			if _, err := a.ask("b"); err == nil || errors.Is(err, peer.ErrMalformed) || !errors.Is(err, peer.ErrUnavailable) {
				t.Errorf("%v, want one after which the message is sent again", err)
			}
		})
	}
}
