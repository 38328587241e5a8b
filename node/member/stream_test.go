package member

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// deaf is a transport of a node that reaches nobody by streams. A dial of one member waits until it times out.
type deaf struct {
	ports
	slow string

	mu      sync.Mutex
	dialled []string
}

func (d *deaf) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.IPv4(192, 0, 2, 1), 7946, nil
}

func (d *deaf) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d.mu.Lock()
	d.dialled = append(d.dialled, addr)
	d.mu.Unlock()
	if addr == d.slow {
		time.Sleep(timeout)
	}
	return nil, errors.New("nobody listens")
}

// What cannot be stored is not sent. A member is answered that leaves, one is told who votes that knows others, and all hear at once that the crawl is over.
func TestWhatAVoterSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, full := &deaf{}, errors.New("full")
		var disk error
		m := lone(t, func(_ *Config, deps *Deps) { deps.Transport, deps.Keep = d, func([]byte) error { return disk } })
		list, c, err := m.open()
		must(t, err)
		m.list, m.carrier = list, c
		for i := 2; i < 4; i++ {
			m.table.seen(nodeID(i), "192.0.2."+string(rune('0'+i))+":7", meta{boot: 1, addr: "192.0.2.9:8"}, nil, m.now())
		}
		set := m.table.paxos.set
		set.version, set.ids = set.version+1, []string{nodeID(1), nodeID(2), nodeID(3)}
		m.table.adopt(set, m.now())
		m.table.members[nodeID(2)].stamp = m.table.paxos.plain()
		m.table.members[nodeID(3)].matched = m.now() // a moment ago it was the same
		if err := m.vote(); err != nil || d.packets != 1 {
			t.Errorf("a member knows other voters: %d packets went, %v", d.packets, err)
		}
		for i, step := range []struct {
			disk error
			kind int
			want int // packets
		}{{full, messagePrepare, 0}, {nil, messagePrepare, 1}, {nil, messageLeave, 1}} {
			disk, d.packets = step.disk, 0
			m.messages = []message{{kind: step.kind, from: nodeID(2), set: set, ballot: ballot{uint64(i + 1), nodeID(2)}}}
			if err := m.vote(); err != nil || d.packets != step.want {
				t.Errorf("step %d: %d packets went, want %d; %v", i, d.packets, step.want, err)
			}
		}
		d.packets = 0
		if err := m.Over(); err != nil || d.packets != 1 {
			t.Errorf("the crawl is over: %d packets went, %v", d.packets, err)
		}
		disk, m.table.paxos.dirty, d.packets = full, true, 0
		if err := m.farewell(list); !errors.Is(err, full) || d.packets != 0 {
			t.Errorf("a farewell: %d packets went, %v", d.packets, err)
		}
		if err := list.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// A message that is too long for a packet goes by stream. A member that takes no stream holds up neither the others' messages nor the vote.
func TestMembersThatTakeNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{slow: "192.0.2.2:7"}
		m := lone(t, func(_ *Config, deps *Deps) { deps.Transport = d })
		list, c, err := m.open()
		must(t, err)
		m.list, m.carrier = list, c
		var many []string
		for i := range 100 {
			many = append(many, nodeID(i+1))
		}
		var out []outgoing
		for i := 2; i < 5; i++ {
			m.table.seen(nodeID(i), "192.0.2."+string(rune('0'+i))+":7", meta{boot: 1, addr: "192.0.2.9:8"}, nil, m.now())
			out = append(out, m.table.paxos.write(nodeID(i), message{kind: messageAccept, ballot: ballot{1, nodeID(1)}, accepted: proposal{ballot{1, nodeID(1)}, many}}))
		}
		begin := time.Now()
		m.send(out)
		if took := time.Since(begin); took > 0 {
			t.Errorf("the vote waits for %v", took)
		}
		synctest.Wait()
		d.mu.Lock()
		if got := len(d.dialled); got != 3 {
			t.Errorf("dialled are %s", strings.Join(d.dialled, ", "))
		}
		d.mu.Unlock()
		m.sending.Wait()
		if err := list.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}
