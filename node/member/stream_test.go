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

// A message that is too long for a packet goes by stream. A member that takes no stream holds up neither the others' messages nor the vote.
func TestMembersThatTakeNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{slow: "192.0.2.2:7"}
		m := lone(t, func(_ *Config, deps *Deps) { deps.Transport = d })
		list, c, err := m.open()
		if err != nil {
			t.Fatal(err)
		}
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
