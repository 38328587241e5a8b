package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestLies sends messages before, or in place of, the real answer.
func TestLies(t *testing.T) {
	const lie, truth = "www.example.org. 120 A 192.0.2.66", "www.example.org. 120 A 192.0.2.1"
	change := func(f func(m *dns.Msg)) func(q *dns.Msg) []byte {
		return func(q *dns.Msg) []byte {
			m := answerTo(q, dns.RcodeSuccess, lie)
			m.Question = slices.Clone(m.Question)
			f(m)
			return packed(m)
		}
	}
	tests := []struct {
		name string
		lie  func(q *dns.Msg) []byte
	}{
		{"wrong id", change(func(m *dns.Msg) { m.Id++ })},
		{"wrong question", change(func(m *dns.Msg) { m.Question[0].Name = "www.example.com." })},
		{"wrong type", change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA })},
		{"wrong class", change(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS })},
		{"no question", change(func(m *dns.Msg) { m.Question = nil })},
		{"two questions", change(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) })},
		{"a query", change(func(m *dns.Msg) { m.Response = false })},
		{"an update", change(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate })},
		{"empty", func(*dns.Msg) []byte { return []byte{} }},
		{"header cut off", func(q *dns.Msg) []byte { return packed(answerTo(q, 0, lie))[:11] }},
		{"question cut off", func(q *dns.Msg) []byte { return packed(answerTo(q, 0, lie))[:20] }},
		{"answer cut off", func(q *dns.Msg) []byte { b := packed(answerTo(q, 0, lie)); return b[:len(b)-2] }},
	}
	for _, tt := range tests {
		before := func(_, _ string, q *dns.Msg) [][]byte {
			return append([][]byte{tt.lie(q), tt.lie(q)}, records(q, truth)...)
		}
		if f, got, err := lookup(t, "www.example.org", before); err != nil || !slices.Equal(got.Addrs, addrs("192.0.2.1")) || f.queries() != 1 {
			t.Errorf("%s before the truth: %+v, %v after %d queries", tt.name, got, err, f.queries())
		}
		alone := func(_, _ string, q *dns.Msg) [][]byte { return [][]byte{tt.lie(q)} }
		if _, got, err := lookup(t, "www.example.org", alone); kindOf(t, err) != "temporary" || got.Elapsed != 12*time.Second {
			t.Errorf("%s alone: %+v, %v, want temporary after 12 s", tt.name, got, err)
		}
		flood := func(_, _ string, q *dns.Msg) [][]byte { return slices.Repeat([][]byte{tt.lie(q)}, 100) }
		if f, got, err := lookup(t, "www.example.org", flood); kindOf(t, err) != "temporary" || got.Elapsed != 0 || f.queries() != 3 {
			t.Errorf("%s as a flood: %+v, %v after %d queries, want temporary at once after 3", tt.name, got, err, f.queries())
		}
	}
}

// TestServersOfAllKinds has servers that do not do what a resolver hopes for.
func TestServersOfAllKinds(t *testing.T) {
	const one = "www.example.org. 120 A 192.0.2.1"
	many := make([]string, 200) // more than fit a packet
	for i := range many {
		many[i] = fmt.Sprintf("www.example.org. 120 A 192.0.2.%d", i)
	}
	udp := func(first func(q *dns.Msg) []byte) handler { // and then, over TCP, all
		return func(_, network string, q *dns.Msg) [][]byte {
			if network == "udp" {
				return [][]byte{first(q)}
			}
			return records(q, many...)
		}
	}
	code := func(rcode int) handler {
		return func(_, _ string, q *dns.Msg) [][]byte { return [][]byte{packed(answerTo(q, rcode))} }
	}
	changed := func(q *dns.Msg, change func(m *dns.Msg), records ...string) []byte {
		m := answerTo(q, 0, records...)
		change(m)
		return packed(m)
	}
	truncated := func(m *dns.Msg) { m.Truncated = true }
	chaos := func(m *dns.Msg) { m.Answer[0].Header().Class = dns.ClassCHAOS }
	sized := func(size int) handler {
		return udp(func(q *dns.Msg) []byte {
			b := packed(answerTo(q, 0, many[:8]...))
			return append(b, make([]byte, size-len(b))...)
		})
	}
	strays := func(n int) handler {
		return func(_, _ string, q *dns.Msg) [][]byte {
			stray := changed(q, func(m *dns.Msg) { m.Id++ }, "www.example.org. 120 A 192.0.2.66")
			return append(slices.Repeat([][]byte{stray}, n), records(q, one)...)
		}
	}
	for _, tt := range []struct {
		name    string
		handle  handler
		kind    string
		addrs   int
		queries int
	}{
		// Answers that do not fit a packet come over TCP, whether the server says so or sends too much.
		{"a flag", udp(func(q *dns.Msg) []byte { return changed(q, truncated) }), "", 8, 2},
		{"a flag, part of a record", udp(func(q *dns.Msg) []byte { b := changed(q, truncated, one); return b[:len(b)-2] }), "", 8, 2},
		{"too large", udp(func(q *dns.Msg) []byte { return packed(answerTo(q, 0, many...)) }), "", 8, 2},
		{"a flag over TCP, too", func(_, _ string, q *dns.Msg) [][]byte { return [][]byte{changed(q, truncated)} }, "temporary", 0, 4},
		{"the size that was asked for", sized(1232), "", 8, 1},
		{"a byte more", sized(1233), "", 8, 2},
		// The answer may come after 31 messages that are none.
		{"31 strays", strays(31), "", 1, 1},
		{"32 strays", strays(32), "temporary", 0, 3},
		{"no EDNS", func(_, _ string, q *dns.Msg) [][]byte {
			if q.IsEdns0() != nil {
				return [][]byte{packed(answerTo(q, dns.RcodeFormatError))}
			}
			return records(q, one)
		}, "", 1, 2},
		{"no EDNS, header only", func(_, _ string, q *dns.Msg) [][]byte {
			if q.IsEdns0() != nil {
				return [][]byte{changed(q, func(m *dns.Msg) { m.Rcode, m.Question = dns.RcodeNotImplemented, nil })}
			}
			return records(q, one)
		}, "", 1, 2},
		{"format error always", code(dns.RcodeFormatError), "temporary", 0, 4},
		{"refused by one", func(server, network string, q *dns.Msg) [][]byte {
			if server == "192.0.2.53:53" {
				return code(dns.RcodeRefused)(server, network, q)
			}
			return records(q, one)
		}, "", 1, 2},
		{"refused by all", code(dns.RcodeRefused), "temporary", 0, 2},
		{"a flag, and a format error over TCP", func(_, network string, q *dns.Msg) [][]byte {
			if network == "udp" {
				return [][]byte{changed(q, truncated)}
			}
			return [][]byte{packed(answerTo(q, dns.RcodeFormatError))}
		}, "temporary", 0, 4},
		{"aliases without end over TCP", func(_, network string, q *dns.Msg) [][]byte {
			if network == "udp" {
				return [][]byte{changed(q, truncated)}
			}
			return records(q, q.Question[0].Name+" 60 CNAME x"+q.Question[0].Name)
		}, "temporary", 0, 28},
		{"addresses of what does not exist", func(_, _ string, q *dns.Msg) [][]byte {
			return [][]byte{packed(answerTo(q, dns.RcodeNameError, one))}
		}, "not found", 0, 1},
		{"an address of another class", func(_, _ string, q *dns.Msg) [][]byte { return [][]byte{changed(q, chaos, one)} }, "not found", 0, 1},
		{"an alias of another class", func(_, _ string, q *dns.Msg) [][]byte {
			return [][]byte{changed(q, chaos, "www.example.org. 120 CNAME a.example.org.")}
		}, "not found", 0, 1},
		{"nothing, says its own server", func(_, _ string, q *dns.Msg) [][]byte {
			return [][]byte{changed(q, func(m *dns.Msg) { m.RecursionAvailable, m.Authoritative = false, true }, "example.org. 100 NS ns.example.net.")}
		}, "not found", 0, 1},
		{"referral", func(_, _ string, q *dns.Msg) [][]byte {
			return [][]byte{changed(q, func(m *dns.Msg) { m.RecursionAvailable = false }, "org. 100 NS ns.example.net.")}
		}, "temporary", 0, 2},
	} {
		f, got, err := lookup(t, "www.example.org", tt.handle)
		if kindOf(t, err) != tt.kind || len(got.Addrs) != tt.addrs || f.queries() != tt.queries || got.Elapsed != 0 {
			t.Errorf("%s: %+v, %v after %q, want %q, %d addresses, after %d", tt.name, got, err, f.asked, tt.kind, tt.addrs, tt.queries)
		}
		if tt.addrs == 8 && got.Addrs[7] != netip.MustParseAddr("192.0.2.7") {
			t.Errorf("%s: %v", tt.name, got.Addrs)
		}
	}
}

// A connection that fails at any step is a failure of the server and says nothing about the name. So is a question that cannot be asked.
func TestConnectionsThatFail(t *testing.T) {
	for name, dial := range map[string]func() (net.Conn, error){
		"its dial":     func() (net.Conn, error) { return nil, syscall.ENETUNREACH },
		"its deadline": func() (net.Conn, error) { near, _ := net.Pipe(); return near, near.Close() },
		"its write":    func() (net.Conn, error) { near, far := net.Pipe(); return near, far.Close() },
		"its read": func() (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				far.Read(make([]byte, 4096))
				far.Close()
			}()
			return near, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, &fakeServers{}, nil)
			r.dial = func(context.Context, string, string) (net.Conn, error) { return dial() }
			_, err := r.Lookup(t.Context(), "www.example.org")
			if kindOf(t, err) != "temporary" || !errors.Is(err, ErrNoServer) || errors.Is(err, syscall.ENETUNREACH) != (name == "its dial") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	r := start(t, &fakeServers{handle: zone(nil)}, nil)
	if texts, err := r.TXT(t.Context(), strings.Repeat("a", 64)+".example"); err == nil {
		t.Errorf("a label of 64 bytes: %q", texts)
	}
}

// The reason of a lookup that failed is that of the last server, unless the asker's time ended while that was asked.
func TestReasonOfAFailure(t *testing.T) {
	const first, second = "192.0.2.53:53", "192.0.2.54:5353"
	for _, c := range []struct {
		refuse []string // the others are silent
		named  string
	}{
		{[]string{first, second}, second},
		{[]string{first}, first},
		{nil, first},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeServers{handle: func(server, _ string, q *dns.Msg) [][]byte {
				if slices.Contains(c.refuse, server) {
					return [][]byte{packed(answerTo(q, dns.RcodeRefused))}
				}
				return nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := start(t, f, nil).TXT(ctx, "example.org"); err == nil || !strings.Contains(err.Error(), "ask "+c.named) {
				t.Errorf("when %q refuse, it names not %s: %v", c.refuse, c.named, err)
			}
		})
	}
}

// FuzzInterpret feeds messages as they come from the wire.
func FuzzInterpret(f *testing.F) {
	q := question{id: 1234, name: "www.example.org", qtype: dns.TypeA, edns: true}
	var m dns.Msg
	raw, err := q.pack()
	if err != nil {
		f.Fatal(err)
	}
	if err := m.Unpack(raw); err != nil {
		f.Fatal(err)
	}
	compressed := answerTo(&m, 0, "www.example.org. 70 CNAME a.example.net.", "a.example.net. 100 CNAME b.example.net.",
		"b.example.net. 100 A 192.0.2.9", "b.example.net. 100 A 192.0.2.10")
	compressed.Compress = true
	for _, msg := range []*dns.Msg{
		&m, compressed,
		answerTo(&m, 0, "www.example.org. 100 A 192.0.2.1", "www.example.net. 100 A 192.0.2.2"),
		answerTo(&m, 0, "www.example.org. 100 AAAA 2001:db8::1", "www.example.org. 100 AAAA ::ffff:192.0.2.1"),
		answerTo(&m, 0, "www.example.org. 100 CNAME www.example.org."),
		answerTo(&m, 0, soa60), answerTo(&m, dns.RcodeNameError, soa60), answerTo(&m, dns.RcodeServerFailure),
		answerTo(&m, dns.RcodeFormatError),
	} {
		f.Add(packed(msg), false)
		f.Add(packed(msg), true)
	}
	f.Fuzz(func(t *testing.T, msg []byte, v6 bool) {
		q := q
		if v6 {
			q.qtype = dns.TypeAAAA
		}
		before := bytes.Clone(msg)
		rep, err := interpret(msg, q, 3)
		if !bytes.Equal(msg, before) {
			t.Fatal("message changed")
		}
		if err != nil {
			if rep.addrs != nil || rep.alias != "" {
				t.Fatalf("%+v with %v", rep, err)
			}
			if !errors.Is(err, errStray) && !errors.Is(err, errTruncated) && !errors.Is(err, errNoEDNS) && !errors.Is(err, errServer) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		if outcomes := btoi(rep.addrs != nil) + btoi(rep.alias != "") + btoi(rep.absent != nil); outcomes != 1 {
			t.Fatalf("%d outcomes: %+v", outcomes, rep)
		}
		if len(rep.addrs) > maxAddrs || rep.aliases > 3 || rep.alias != "" && rep.aliases == 0 {
			t.Fatalf("bounds broken: %+v", rep)
		}
		if rep.ttl < -1 || rep.ttl > (1<<31-1)*time.Second || rep.ttl < 0 && rep.absent == nil {
			t.Fatalf("time to live: %+v", rep)
		}
		for i, a := range rep.addrs {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" || !v6 && !a.Is4() || slices.Contains(rep.addrs[:i], a) {
				t.Fatalf("address %v in %+v", a, rep)
			}
		}
		if rep.alias != "" {
			if name, err := CanonicalName(rep.alias); err != nil || name != rep.alias {
				t.Fatalf("alias %q is not canonical", rep.alias)
			}
		}
		// The answer to another question is never an answer to this one.
		other := q
		other.id++
		if _, err := interpret(msg, other, 3); !errors.Is(err, errStray) {
			t.Fatalf("taken with another id: %v", err)
		}
		other = q
		other.name = "www.example.com"
		if rep, err := interpret(msg, other, 3); err == nil {
			t.Fatalf("taken for another name: %+v", rep)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"www.example.org", "WWW.Example.ORG.", "192.0.2.1", "[2001:db8::1]", "a..b", "127.1", "_a-b.c", "xn--a.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, addr, err := parseHost(host)
		if err != nil {
			if name != "" || addr.IsValid() {
				t.Fatalf("%q: %q, %v with %v", host, name, addr, err)
			}
			return
		}
		if addr.IsValid() == (name != "") {
			t.Fatalf("%q is name %q and address %v", host, name, addr)
		}
		if addr.IsValid() {
			return
		}
		again, _, err := parseHost(name)
		if err != nil || again != name {
			t.Fatalf("%q became %q, then %q, %v", host, name, again, err)
		}
		if raw, err := (question{name: name, qtype: dns.TypeA}).pack(); err != nil || len(raw) != 12+len(name)+2+4 {
			t.Fatalf("%q: query of %d bytes, %v", name, len(raw), err)
		}
	})
}
