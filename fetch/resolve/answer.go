package resolve

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// flagTC is the bit TC of the third byte of a message (RFC 1035, section 4.1.1).
const flagTC = 1 << 1

// maxAliases is the number of CNAME records followed in one lookup. Chains of content networks have up to six.
const maxAliases = 12

// question is what an answer must match.
type question struct {
	id    uint16
	name  string // canonical, without the final dot
	qtype uint16 // dns.TypeA, dns.TypeAAAA or dns.TypeTXT
	edns  bool
}

// reply is what an answer says: addresses, or the alias to ask for next, or that there is no address.
type reply struct {
	addrs   []netip.Addr
	texts   []string // the TXT records of the name, each joined to one string
	alias   string   // canonical name that the aliases end at, if the answer says nothing more about it
	aliases int      // number of CNAME records followed
	absent  error    // errNXDOMAIN or errNoAddress; set if there are neither addrs nor an alias
	// ttl is the shortest of the records used, negative if the answer gives none.
	ttl time.Duration
}

// interpret reads a DNS message as the answer to q (RFC 1034, section 4.3; RFC 2308). It uses only records of the name asked for
// and of the aliases that lead on from it. It keeps the first maxAddrs addresses and follows up to aliases CNAME records. Its
// errors are errStray, errTruncated, errNoEDNS, errServer and errServFail.
func interpret(msg []byte, q question, aliases int) (reply, error) {
	var m dns.Msg
	unpackErr := m.Unpack(msg) // fills in what precedes an error
	if m.Id != q.id || !m.Response || m.Opcode != dns.OpcodeQuery {
		return reply{}, errStray
	}
	refused := m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented
	if len(m.Question) == 0 && q.edns && refused {
		return reply{}, errNoEDNS // some servers return only the header
	}
	if len(m.Question) != 1 || m.Question[0].Qtype != q.qtype || m.Question[0].Qclass != dns.ClassINET ||
		!sameName(m.Question[0].Name, q.name) {
		return reply{}, errStray
	}
	switch {
	case m.Truncated:
		return reply{}, errTruncated
	case unpackErr != nil:
		return reply{}, fmt.Errorf("%w: %w", errStray, unpackErr)
	case q.edns && refused:
		return reply{}, errNoEDNS
	case m.Rcode == dns.RcodeServerFailure:
		return reply{}, errServFail
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		return reply{}, fmt.Errorf("%w: RCODE %d (%s)", errServer, m.Rcode, dns.RcodeToString[m.Rcode])
	}
	if q.qtype == dns.TypeTXT {
		var rep reply
		for _, rr := range m.Answer {
			if txt, ok := rr.(*dns.TXT); ok && sameName(txt.Hdr.Name, q.name) {
				rep.texts = append(rep.texts, strings.Join(txt.Txt, ""))
			}
		}
		return rep, nil
	}
	return follow(&m, q, aliases)
}

// follow walks from the name asked for to its addresses.
func follow(m *dns.Msg, q question, aliases int) (reply, error) {
	rep := reply{ttl: math.MaxInt64}
	name := q.name
	for {
		if m.Rcode == dns.RcodeSuccess {
			rep.addAddrs(m.Answer, name, q.qtype)
		}
		if rep.addrs != nil {
			return rep, nil
		}
		cname := aliasOf(m.Answer, name)
		if cname == nil {
			break
		}
		if rep.aliases == aliases {
			return reply{}, fmt.Errorf("%w: more than %d aliases", errServer, maxAliases)
		}
		target, err := CanonicalName(cname.Target)
		if err != nil {
			return reply{}, fmt.Errorf("%w: alias: %w", errServer, err)
		}
		name = target
		rep.aliases++
		rep.ttl = min(rep.ttl, seconds(cname.Hdr.Ttl))
	}

	soa := authority(m.Ns, name)
	switch {
	case m.Rcode == dns.RcodeNameError:
		rep.absent = errNXDOMAIN
	case soa != nil:
		rep.absent = errNoAddress
	case rep.aliases > 0:
		rep.alias = name
		return rep, nil
	case !m.Authoritative && !m.RecursionAvailable && len(m.Ns) > 0:
		return reply{}, fmt.Errorf("%w: referral", errServer)
	default:
		rep.absent = errNoAddress
	}
	if soa == nil {
		rep.ttl = -1
	} else {
		rep.ttl = min(rep.ttl, seconds(soa.Hdr.Ttl), seconds(soa.Minttl)) // RFC 2308, section 5
	}
	return rep, nil
}

func (rep *reply) addAddrs(records []dns.RR, name string, qtype uint16) {
	for _, rr := range records {
		h := rr.Header()
		if len(rep.addrs) == maxAddrs {
			return
		}
		if h.Rrtype != qtype || h.Class != dns.ClassINET || !sameName(h.Name, name) {
			continue
		}
		var addr netip.Addr
		switch rr := rr.(type) {
		case *dns.A:
			addr, _ = netip.AddrFromSlice(rr.A)
		case *dns.AAAA:
			addr, _ = netip.AddrFromSlice(rr.AAAA)
		}
		// A mapped address is the IPv4 address that a connection to it would reach.
		if addr = addr.Unmap(); !addr.IsValid() || slices.Contains(rep.addrs, addr) {
			continue
		}
		rep.addrs = append(rep.addrs, addr)
		rep.ttl = min(rep.ttl, seconds(h.Ttl))
	}
}

func aliasOf(records []dns.RR, name string) *dns.CNAME {
	for _, rr := range records {
		if c, ok := rr.(*dns.CNAME); ok && c.Hdr.Class == dns.ClassINET && sameName(c.Hdr.Name, name) {
			return c
		}
	}
	return nil
}

// authority returns the SOA record of a zone that name lies in.
func authority(records []dns.RR, name string) *dns.SOA {
	for _, rr := range records {
		soa, ok := rr.(*dns.SOA)
		if ok && soa.Hdr.Class == dns.ClassINET && dns.IsSubDomain(soa.Hdr.Name, name+".") {
			return soa
		}
	}
	return nil
}

// sameName compares a name in a message with a canonical one. The presentation form is ASCII, so case folding is safe.
func sameName(wire, name string) bool {
	return len(wire) == len(name)+1 && wire[len(name)] == '.' && strings.EqualFold(wire[:len(name)], name)
}

// seconds converts a time to live. One with the highest bit set counts as zero (RFC 2181, section 8).
func seconds(ttl uint32) time.Duration {
	if ttl > math.MaxInt32 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
