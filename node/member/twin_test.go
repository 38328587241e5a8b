package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// The state of another node with this node's id ends the younger of the two. If they are as old as each other, the life and then
// chance decide.
func TestTwoNodesWithOneID(t *testing.T) {
	for _, c := range []struct {
		what  string
		age   time.Duration // of the other; this one has run for ten seconds
		boot  uint64
		nonce int // less or more than this node's
		gives bool
	}{
		{"the other is older", 11 * time.Second, 9, 1, true},
		{"the other is younger", 9 * time.Second, 5, -1, false},
		{"as old, of an earlier life", 10*time.Second + 999*time.Millisecond, 6, 1, true},
		{"as young, of a later life", 10*time.Second + 999*time.Millisecond, 8, -1, false},
		{"almost as old, of an earlier life", 9*time.Second + time.Millisecond, 6, 1, true},
		{"of the same life, with less luck", 10 * time.Second, 7, 1, false},
		{"of the same life, with more luck", 10 * time.Second, 7, -1, true},
	} {
		m := lone(t)
		m.nonce, m.table.started = 50, m.now().Add(-10*time.Second)
		other := state{sender: nodeID(1), boot: c.boot, nonce: uint64(50 + c.nonce), age: c.age}
		delegate{m}.MergeRemoteState(encode(nil, other), false)
		if gives := errors.Is(m.duplicateErr, ErrDuplicate); gives != c.gives || !woken(m.wakeTend) {
			t.Errorf("%s: it gives way %v, by %v", c.what, gives, m.duplicateErr)
		}
		want := "duplicate: a younger node has this node's id; it gives way"
		if c.gives {
			want = "duplicate: an older node has this node's id"
		}
		if got := said(m); got != want {
			t.Errorf("%s: it tells %q", c.what, got)
		}
	}
	m := lone(t)
	m.nonce = 50
	delegate{m}.MergeRemoteState(encode(nil, state{sender: nodeID(1), boot: 7, nonce: 50}), false)
	if !m.metSelf || m.duplicateErr != nil || said(m) != "" {
		t.Error("it takes itself for another node")
	}
	woken(m.wakeTend)
	delegate{m}.MergeRemoteState(encode(nil, state{sender: nodeID(2), boot: 1}), false)
	if !woken(m.wakeTend) {
		t.Error("what another node sees is not looked at")
	}
	delegate{m}.MergeRemoteState([]byte{stateVersion + 1}, false)
	if got := said(m); got != "trouble: decode state: unknown version 3" {
		t.Errorf("of a state that cannot be read it tells %q", got)
	}
}

// A later life of this node that others take for alive, at the same address, is another node with a copy of its directory.
func TestTwinAtTheSameAddress(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return now } })
	hear := func(boot uint64) string {
		_ = delegate{m}.NotifyAlive(&memberlist.Node{Name: nodeID(1), Addr: []byte{192, 0, 2, 1}, Port: 7, Meta: encode(nil, meta{boot: boot, addr: "192.0.2.1:8"})})
		return said(m)
	}
	for _, c := range []struct {
		after time.Duration
		boot  uint64
		told  bool
	}{{0, 8, false}, {4 * time.Minute, 8, false}, {time.Minute, 7, false}, {0, 6, false}, {0, 8, true}, {9 * time.Minute, 8, false}, {time.Minute, 8, true},
		{11 * time.Minute, 8, false}, {5 * time.Minute, 8, true}} {
		now = now.Add(c.after)
		if got := hear(c.boot); strings.HasPrefix(got, "duplicate: another node has this node's id, at 192.0.2.1:7,") != c.told {
			t.Errorf("of life %d, %v later: %q", c.boot, c.after, got)
		}
	}
}

// TestNewsOfAnEarlierLife: every restart brings news of the life before, which is no trouble. That others took this life for dead is.
func TestNewsOfAnEarlierLife(t *testing.T) {
	for line, want := range map[string]string{
		"[WARN] memberlist: Refuting an alive message for 'SELF' (127.0.0.1:7082) meta:([5 4] VS [5 4]), vsn:([1] VS [1])\n": "",
		"[WARN] memberlist: Refuting a dead message (from: SELF)\n":                                                          "",
		"[WARN] memberlist: Refuting a dead message (from: other)\n":                                                         "trouble: memberlist: Refuting a dead message (from: other)",
	} {
		m := lone(t, func(*Config, *Deps) {})
		if _, err := (gossipLog{m}).Write([]byte(strings.ReplaceAll(line, "SELF", m.deps.ID))); err != nil {
			t.Fatal(err)
		}
		if got := said(m); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}
