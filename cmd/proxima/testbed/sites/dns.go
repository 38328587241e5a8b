package sites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// DNSConfig is what the name server knows.
type DNSConfig struct {
	// Listen is the address and port, over UDP and TCP; port 0 takes a free one.
	Listen string
	// Names are the addresses of each host.
	Names map[string][]netip.Addr
	// TTL is how long answers may be kept; an hour if it is 0.
	TTL time.Duration
}

// DNS is a name server with authority for everything: its hosts have the addresses that it knows and no other records (NODATA), all
// other names do not exist (NXDOMAIN), both at once (RFC 2308).
type DNS struct {
	names             map[string][]netip.Addr // by lower-case name with the dot at its end
	ttl               uint32
	packets           net.PacketConn
	streams           net.Listener
	answered, unknown atomic.Int64
}

// NewDNS listens. Run must be called even to close it.
func NewDNS(cfg DNSConfig, deps Deps) (*DNS, error) {
	if deps.Listen == nil {
		deps.Listen = net.Listen
	}
	if deps.ListenPacket == nil {
		deps.ListenPacket = net.ListenPacket
	}
	if cfg.TTL == 0 {
		cfg.TTL = time.Hour
	}
	d := &DNS{names: map[string][]netip.Addr{}, ttl: uint32(cfg.TTL / time.Second)}
	for name, addrs := range cfg.Names {
		d.names[dns.CanonicalName(name)] = addrs
	}
	var err error
	if d.streams, err = deps.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	// The same port, where any was asked for: one that is free for streams, which many connections hold for a minute after
	// their end, is all but always free for packets, too.
	if d.packets, err = deps.ListenPacket("udp", d.streams.Addr().String()); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for DNS: %w", err), d.streams.Close())
	}
	return d, nil
}

// Addr is where it listens.
func (d *DNS) Addr() netip.AddrPort {
	at, err := netip.ParseAddrPort(d.packets.LocalAddr().String())
	if err != nil {
		return netip.AddrPort{} // a socket without an address that can be dialled
	}
	return at
}

// Queries are how many questions it answered about names that it knows and does not know.
func (d *DNS) Queries() (answered, unknown int64) { return d.answered.Load(), d.unknown.Load() }

// Run answers until the context ends.
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
			case <-started: // it cannot be shut down before
			case <-done:
				return nil
			}
			_ = s.ShutdownContext(ctx) // the error is that of the context
			return nil
		})
	}
	err := g.Wait()
	// Where serving failed, or never began, they are open still.
	_, _ = d.packets.Close(), d.streams.Close()
	return err
}

// answer is called for each question, by many goroutines.
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
	if known {
		d.answered.Add(1)
	} else {
		d.unknown.Add(1)
		m.Rcode = dns.RcodeNameError
	}
	for _, a := range addrs {
		header := dns.RR_Header{Name: name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: d.ttl}
		switch {
		case a.Is4() && header.Rrtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
		case a.Is6() && header.Rrtype == dns.TypeAAAA:
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: d.ttl}, Ns: "ns.", Mbox: "nobody.",
			Serial: 1, Refresh: 3600, Retry: 600, Expire: 86_400, Minttl: d.ttl}}
	}
	size := dns.MinMsgSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, int(opt.UDPSize()))
		m.SetEdns0(dns.DefaultMsgSize, false)
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // the asker has gone
}
