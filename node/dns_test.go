package node_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// nameServer answers for some names in a bubble, and that the others do not exist.
type nameServer struct {
	names  map[string]string // address by name, with the dot at the end
	silent atomic.Bool
	wakes  time.Time // when a question for the root ends the silence, if that is set
	asked  atomic.Int64
}

func (s *nameServer) dial(_ context.Context, network, _ string) (net.Conn, error) {
	if network == "tcp" {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	go s.serve(far)
	return near, nil
}

func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		var q dns.Msg
		if err != nil || q.Unpack(buf[:n]) != nil {
			return
		}
		s.asked.Add(1)
		if s.silent.Load() && !s.wakes.IsZero() && time.Now().After(s.wakes) && q.Question[0].Name == "." {
			s.silent.Store(false)
		}
		if s.silent.Load() {
			continue
		}
		time.Sleep(5 * time.Millisecond) // an answer takes time
		var m dns.Msg
		m.SetReply(&q)
		switch name := q.Question[0].Name; {
		case name == ".":
		case s.names[name] != "" && q.Question[0].Qtype == dns.TypeA:
			rr, err := dns.NewRR(name + " 60 IN A " + s.names[name])
			if err != nil {
				panic(err)
			}
			m.Answer = append(m.Answer, rr)
		case s.names[name] == "":
			m.Rcode = dns.RcodeNameError
		}
		out, err := m.Pack()
		if err != nil {
			panic(err)
		}
		if _, err := c.Write(out); err != nil && err != io.ErrClosedPipe {
			return
		}
	}
}

// answerForRoot answers questions for the servers of the root and no others, until the socket is closed.
func answerForRoot(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var q, m dns.Msg
		if q.Unpack(buf[:n]) != nil || len(q.Question) != 1 || q.Question[0].Name != "." {
			continue
		}
		if out, err := m.SetReply(&q).Pack(); err == nil {
			c.WriteTo(out, from) //nolint:errcheck // the asker asks again
		}
	}
}
