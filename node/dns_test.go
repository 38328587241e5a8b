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
	mute   string            // the name, with the dot at the end, about which no question is answered
	silent atomic.Bool
	portal atomic.Bool // every name leads to a private address
	local  bool        // it runs on the machine of the node, so its silence is SERVFAIL
	wakes  time.Time   // when a question for the root ends the silence, if that is set
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
		silent := s.silent.Load() || q.Question[0].Name == s.mute
		if silent && !s.local {
			continue
		}
		time.Sleep(5 * time.Millisecond) // an answer takes time
		var m dns.Msg
		m.SetReply(&q)
		switch name := q.Question[0].Name; {
		case silent:
			m.Rcode = dns.RcodeServerFailure
		case name == ".":
		case s.portal.Load() && q.Question[0].Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(10, 0, 0, 1)})
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
