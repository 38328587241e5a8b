package sites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// DNSConfig describes a name server.
type DNSConfig struct {
	// Listen is the address and port for UDP and TCP; port 0 picks a free one.
	Listen string
	// Names maps each host to its addresses.
	Names map[string][]netip.Addr
}

// ttl is how long resolvers may cache answers, in seconds.
const ttl = 3600

// DNS is a name server with authority for all names. It answers for its hosts with their addresses, and with NODATA for other record
// types. All other names do not exist (NXDOMAIN). Negative answers may be cached (RFC 2308).
type DNS struct {
	names   map[string][]netip.Addr // by canonical name
	packets net.PacketConn
	streams net.Listener
}

// NewDNS opens the listeners. Only Run closes them.
func NewDNS(cfg DNSConfig, deps Deps) (*DNS, error) {
	if deps.Listen == nil {
		deps.Listen = net.Listen
	}
	if deps.ListenPacket == nil {
		deps.ListenPacket = net.ListenPacket
	}
	d := &DNS{names: map[string][]netip.Addr{}}
	for name, addrs := range cfg.Names {
		d.names[dns.CanonicalName(name)] = addrs
	}
	var err error
	if d.streams, err = deps.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	// With port 0, use the port that TCP found free. It is almost always free for UDP too; the reverse is not true, because closed TCP
	// connections occupy their ports for a minute.
	if d.packets, err = deps.ListenPacket("udp", d.streams.Addr().String()); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for DNS: %w", err), d.streams.Close())
	}
	return d, nil
}

// Run answers questions until the context ends.
func (d *DNS) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range []*dns.Server{{PacketConn: d.packets}, {Listener: d.streams}} {
		started := make(chan struct{})
		s.Handler, s.NotifyStartedFunc = dns.HandlerFunc(d.answer), func() { close(started) }
		done := make(chan struct{})
		g.Go(func() error {
			defer close(done)
			if err := s.ActivateAndServe(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("answer DNS: %w", err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			select {
			case <-started: // a server cannot be shut down before
			case <-done:
				return nil
			}
			_ = s.ShutdownContext(ctx) // returns the context's error
			return nil
		})
	}
	err := g.Wait()
	// They are still open if serving failed or never began.
	_, _ = d.packets.Close(), d.streams.Close()
	return err
}

// answer answers one question. It is safe for concurrent use.
func (d *DNS) answer(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	if len(q.Question) != 1 || q.Opcode != dns.OpcodeQuery {
		_ = w.WriteMsg(m.SetRcode(q, dns.RcodeNotImplemented))
		return
	}
	m.SetReply(q)
	m.Authoritative = true
	name := q.Question[0].Name
	addrs, known := d.names[strings.ToLower(name)]
	if !known {
		m.Rcode = dns.RcodeNameError
	}
	for _, a := range addrs {
		header := dns.RR_Header{Name: name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: ttl}
		switch {
		case a.Is4() && header.Rrtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
		case a.Is6() && header.Rrtype == dns.TypeAAAA:
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}, Ns: "ns.", Mbox: "nobody.",
			Serial: 1, Refresh: 3600, Retry: 600, Expire: 86_400, Minttl: ttl}}
	}
	size := dns.MinMsgSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, int(opt.UDPSize()))
		m.SetEdns0(dns.DefaultMsgSize, false)
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // fails only if the client has gone
}
