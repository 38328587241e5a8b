package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/runlog"
)

// TestWarningsOfUnavailablePeers: one stands for all within ten seconds, and the next one says how many there were.
func TestWarningsOfUnavailablePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		cfg := runlog.Default()
		cfg.Logs = t.TempDir()
		log, err := runlog.Open(cfg, runlog.Meta{}, runlog.Deps{Now: time.Now, Echo: slog.NewTextHandler(&said, nil)})
		must(t, err)
		n := &Node{runlog: log}
		for s := range 25 {
			n.warn(fmt.Errorf("call %d: %w", s, peer.ErrUnavailable))
			time.Sleep(time.Second)
		}
		n.warn(errors.New("other"))
		must(t, log.Close())
		want := []string{"call 0: ", "call 10: ", "(and 9 other calls failed)", "call 20: ", "(and 9 other calls failed)", "other"}
		got := said.String()
		for _, part := range want {
			if _, rest, ok := strings.Cut(got, part); ok {
				got = rest
			} else {
				t.Errorf("%q is missing in %q", part, &said)
			}
		}
		if lines := strings.Count(said.String(), "\n"); lines != 4 {
			t.Errorf("%d lines in %q", lines, &said)
		}
	})
}

// TestRefusalsInTheLog: what a node cannot answer now is asked again and no warning; what it must not answer is one.
func TestRefusalsInTheLog(t *testing.T) {
	var said bytes.Buffer
	cfg := runlog.Default()
	cfg.Logs = t.TempDir()
	log, err := runlog.Open(cfg, runlog.Meta{}, runlog.Deps{Now: time.Now, Echo: slog.NewTextHandler(&said, nil)})
	must(t, err)
	o := &overlay{node: &Node{runlog: log}}
	o.logRefused(peer.Refusal{Kind: peer.KindUnavailable, Procedure: "Renew", Reason: "later"})
	o.logRefused(peer.Refusal{Kind: peer.KindSecret, Reason: "stranger"})
	must(t, log.Close())
	first, second, _ := strings.Cut(said.String(), "\n")
	if !strings.Contains(first, "level=INFO") || !strings.Contains(first, `reason="Renew: later"`) {
		t.Error(first)
	}
	if !strings.Contains(second, "level=WARN") || !strings.Contains(second, "reason=stranger") {
		t.Error(second)
	}
}
