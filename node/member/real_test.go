package member_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/node/member"
	"proxima/node/netsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Over the sockets of the machine: they join, and nothing is left after an end in order, even if somebody holds a
// stream and says nothing.
func TestSocketsOfTheMachine(t *testing.T) {
	// Nobody answers at the address that the first one has: the machine takes connections, no program does.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer mute.Close()
	var lives []*socketNode
	join := []string{mute.Addr().String()}
	for i := range 3 {
		lives = append(lives, gossiping(t, i, append(join, mute.Addr().String())...))
		join = []string{strings.Replace(lives[0].Gossip(), "127.0.0.1", "localhost", 1)}
	}
	for _, l := range lives {
		await(t, func() bool { return len(l.View().Peers) == 3 && l.View().Majority })
	}
	silent, err := net.Dial("tcp", lives[0].Gossip())
	must(t, err)
	defer silent.Close()
	begin := time.Now()
	for _, l := range lives {
		l.stop()
	}
	for _, l := range lives {
		l.await(t)
	}
	if took := time.Since(begin); took > 9*time.Second { // the deadline of the silent stream is 10 s
		t.Errorf("the end took %v", took)
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	cfg := member.Default()
	cfg.Bind = l.Addr().String()
	m, err := member.New(cfg, member.Deps{ID: netsim.ID(1), PeerAddr: "127.0.0.1:1", Secrets: [][]byte{secret}})
	must(t, err)
	if err := m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Run returned %v", err)
	}
}

// leaveNothing waits at the end of a test until its goroutines have ended. Those of memberlist wait for their timers.
func leaveNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { await(t, func() bool { return goleak.Find(before) == nil }) })
}

// await waits for something real.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came")
		}
	}
}
