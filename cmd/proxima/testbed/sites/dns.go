package sites

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// ttl is how long resolvers may cache answers, in seconds.
const ttl = 3600

// DNS is a name server with authority for all names. It answers for its hosts with their addresses, and with NODATA for other record
// types. All other names do not exist (NXDOMAIN). Negative answers may be cached (RFC 2308). It needs no TCP, because its answers are short.
type DNS struct {
	names map[string]netip.Addr
	conn  net.PacketConn
}

// NewDNS opens the socket at an address and port for UDP. names maps each host, in small letters, to its IPv4 address. Only Run closes the socket.
func NewDNS(listen string, names map[string]netip.Addr, deps Deps) (*DNS, error) {
	conn, err := deps.ListenPacket("udp", listen)
	if err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	return &DNS{names, conn}, nil
}

// Run answers questions until the context ends.
func (d *DNS) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { d.conn.Close() })()
	if err := (&dns.Server{PacketConn: d.conn, Handler: d}).ActivateAndServe(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("answer DNS: %w", err)
	}
	return nil
}

// ServeDNS answers a question.
func (d *DNS) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	name, kind := q.Question[0].Name, q.Question[0].Qtype
	addr, known := d.names[strings.TrimSuffix(strings.ToLower(name), ".")]
	switch {
	case !known:
		m.Rcode = dns.RcodeNameError
	case kind == dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}, A: addr.AsSlice()}}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}, Ns: "ns.", Mbox: "nobody.",
			Serial: 1, Refresh: 3600, Retry: 600, Expire: 86_400, Minttl: ttl}}
	}
	_ = w.WriteMsg(m) // a lost answer is asked for again
}
