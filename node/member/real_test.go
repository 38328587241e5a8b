package member_test

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"sync"
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
		await(t, func() bool { return len(l.View().Alive) == 3 && l.View().Majority })
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

// socketNode is a node on the machine's sockets.
type socketNode struct {
	*member.Members
	stop context.CancelFunc
	done chan error
}

// gossiping runs a node until the test ends, if not before.
func gossiping(t *testing.T, place int, join ...string) *socketNode {
	t.Helper()
	leaveNothing(t)
	cfg := member.Default()
	cfg.Bind, cfg.Preset, cfg.LeaveTimeout, cfg.Join = "127.0.0.1:0", member.PresetLAN, time.Second, join
	m, err := member.New(cfg, member.Deps{ID: netsim.ID(place), Boot: 1, PeerAddr: "127.0.0.1:1",
		Secrets: [][]byte{secret}})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	n := &socketNode{m, stop, make(chan error, 1)}
	go func() { n.done <- m.Run(ctx); close(n.done) }()
	t.Cleanup(func() { stop(); n.await(t) })
	await(t, func() bool { return m.Gossip() != "" })
	return n
}

// await waits for the end of a node.
func (n *socketNode) await(t *testing.T) {
	t.Helper()
	if err := <-n.done; err != nil {
		t.Error(err)
	}
}

// garbage opens streams that announce a large message and sends nearly all of it.
func garbage(t *testing.T, to string, streams, size int) (open *sync.WaitGroup) {
	t.Helper()
	// Not the address of the members: strangers are elsewhere.
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	open = &sync.WaitGroup{}
	for range streams {
		c, err := d.Dial("tcp", to)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		open.Go(func() {
			head := binary.BigEndian.AppendUint32([]byte{10}, uint32(size))
			if _, err := c.Write(head); err != nil {
				return
			}
			part := make([]byte, 4<<10)
			for left := size - len(part); left > 0; left -= len(part) {
				if _, err := c.Write(part); err != nil {
					return
				}
			}
		})
	}
	return open
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Streams of garbage that announce as much as memberlist would read cost little memory, and keep nobody out.
func TestGarbageStreamsCostLittle(t *testing.T) {
	const bound = 12 << 20
	for _, c := range []struct {
		name          string
		streams, size int
	}{
		{"eight of 19 MiB", 8, 19 << 20},
		{"two hundred of 19 MiB", 200, 19 << 20},
		{"two hundred of 1,000 KiB", 200, 1000 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := gossiping(t, 0)
			at := first.Gossip()
			second := gossiping(t, 1, at)
			await(t, func() bool { return len(first.View().Alive) == 2 && len(second.View().Alive) == 2 })
			before := heap()
			garbage(t, at, c.streams, c.size).Wait()
			third := gossiping(t, 2, at)
			await(t, func() bool {
				return len(first.View().Alive) == 3 && len(second.View().Alive) == 3 && len(third.View().Alive) == 3
			})
			// What the streams' ends have not let go yet is let go soon.
			await(t, func() bool {
				more := int64(heap()) - int64(before)
				t.Logf("%d streams of %d KiB hold %d KiB", c.streams, c.size>>10, more>>10)
				return more <= bound
			})
		})
	}
}
