package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/runlog"
)

// echoed is a run log, and what it shows to people of its events.
func echoed(t *testing.T) (*runlog.Writer, *bytes.Buffer) {
	t.Helper()
	said, cfg := new(bytes.Buffer), runlog.Default()
	cfg.Logs = t.TempDir()
	log, err := runlog.Open(cfg, runlog.Meta{}, runlog.Deps{Now: time.Now, Echo: slog.NewTextHandler(said, nil)})
	must(t, err)
	return log, said
}

// TestWarningsOfUnavailablePeers: one stands for all within ten seconds, and the next one says how many there were.
func TestWarningsOfUnavailablePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := echoed(t)
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
				t.Errorf("%q is missing in %q", part, said)
			}
		}
		if lines := strings.Count(said.String(), "\n"); lines != 4 {
			t.Errorf("%d lines in %q", lines, said)
		}
	})
}

// TestRefusalsInTheLog: what a node cannot answer now is asked again and no warning; what it must not answer is one.
func TestRefusalsInTheLog(t *testing.T) {
	log, said := echoed(t)
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

func TestPublicConfigHoldsNoSecrets(t *testing.T) {
	c := Default()
	c.Blocklist.Sources = []string{"https://me:hunter2@lists.example/a?x=1", "https://hunter3@lists.example/b",
		"https://lists.example/c?api_key=hunter4&size=9&access_token=hunter5#hunter", "/etc/list@home"}
	c.Peer.Secret = "/etc/proxima/secret"
	text := c.Public()
	for _, secret := range []string{"hunter2", "hunter3", "hunter4", "hunter5"} {
		if strings.Contains(text, secret) {
			t.Errorf("the configuration tells %s", secret)
		}
	}
	for _, kept := range []string{"https://xxxxx@lists.example/a?x=1", "https://lists.example/c?api_key=xxxxx&size=9&access_token=xxxxx#hunter",
		"/etc/list@home", "/etc/proxima/secret"} {
		if !strings.Contains(text, kept) {
			t.Errorf("the configuration does not tell %s", kept)
		}
	}
	if d := Default(); d.Public() != d.Text() {
		t.Error("the default configuration is changed")
	}
}

func TestExposedFilesAreNamed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "a[1") // as a pattern, it is none
	logs, store := filepath.Join(data, "logs"), filepath.Join(data, "frontier")
	for _, dir := range []string{data, logs, store} {
		must(t, os.Mkdir(dir, 0o700))
	}
	old := filepath.Join(logs, "fetch.jsonl")
	must(t, os.WriteFile(old, nil, 0o600))
	if err := exposed(data, logs); err != nil {
		t.Error(err)
	}
	for _, path := range []string{logs, old, store} {
		must(t, os.Chmod(path, 0o755))
	}
	if err := exposed(data, logs); err == nil || !strings.Contains(err.Error(), "chmod -R o= "+store+" "+logs) {
		t.Errorf("%v", err)
	}
}
