package peer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

// What a peer says of an error ends up in the status and the logs of who called it.
func TestWordsOfPeersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		words := "\x1b[31m\n" + strings.Repeat("word ", 1<<18)
		a, b := w.node("a", who{}), w.node("b", who{})
		b.handler.OnIdle = func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
			return nil, errors.New(words)
		}
		_, err := a.ask("b")
		if err == nil || !strings.Contains(err.Error(), "word") || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("the error has %d bytes: %.100q", len(err.Error()), err)
		}
		b.handler.OnDeliver = func(context.Context, string, *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			return &wire.DeliverResponse{Answers: []*wire.Delivered{{Verdict: wire.Verdict_VERDICT_REFUSED, Reason: words}}}, nil
		}
		told := ""
		o, stop := running(t, peer.Default(), peer.OutboxDeps{Shelf: new(netsim.Shelf), Deliver: a.client.Deliver,
			Refused: func(_ string, _ *wire.Link, reason string) { told = reason }})
		add(t, o, "b", linksOf("b", 1))
		sleep(2 * time.Second)
		if !strings.Contains(told, "word") || len(told) > 300 || strings.ContainsAny(told, "\n\x1b") {
			t.Errorf("the reason has %d bytes: %.100q", len(told), told)
		}
		stop()
	})
}
