package member_test

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

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
			await(t, func() bool { return len(first.View().Peers) == 2 && len(second.View().Peers) == 2 })
			before := heap()
			garbage(t, at, c.streams, c.size).Wait()
			third := gossiping(t, 2, at)
			await(t, func() bool {
				return len(first.View().Peers) == 3 && len(second.View().Peers) == 3 && len(third.View().Peers) == 3
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
