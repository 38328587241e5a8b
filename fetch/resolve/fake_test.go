package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler gives the messages that a server sends back to a question. It may sleep.
type handler = func(server, network string, q *dns.Msg) [][]byte

// fakeServers answers over pipes.
type fakeServers struct {
	handle handler

	mu    sync.Mutex
	asked []string // "network server type name" of each query
}

func (f *fakeServers) dial(_ context.Context, network, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		buf := make([]byte, 4096)
		n, err := 0, error(nil)
		if network == "tcp" {
			if _, err = io.ReadFull(server, buf[:2]); err == nil {
				n, err = io.ReadFull(server, buf[:binary.BigEndian.Uint16(buf)])
			}
		} else {
			n, err = server.Read(buf)
		}
		var q dns.Msg
		if err != nil || q.Unpack(buf[:n]) != nil || !q.RecursionDesired { // it would only refer to others
			return
		}
		f.mu.Lock()
		f.asked = append(f.asked, network+" "+addr+" "+dns.TypeToString[q.Question[0].Qtype]+" "+q.Question[0].Name)
		f.mu.Unlock()
		for _, msg := range f.handle(addr, network, &q) {
			if network == "tcp" {
				msg = append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
			}
			if _, err := server.Write(msg); err != nil {
				return
			}
		}
		server.Read(buf) // until the other end closes
	}()
	return client, nil
}

// queries counts the questions about hosts.
func (f *fakeServers) queries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, q := range f.asked {
		if !strings.HasSuffix(q, " NS .") {
			n++
		}
	}
	return n
}

// probes counts the questions for the root, which only ask whether anybody is there.
func (f *fakeServers) probes() int {
	questions := f.queries()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked) - questions
}

// answerTo is an answer to q with these records, in the form of zone files. SOA records go into the authority section.
func answerTo(q *dns.Msg, rcode int, records ...string) *dns.Msg {
	m := new(dns.Msg).SetRcode(q, rcode)
	m.RecursionAvailable = true
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		switch rr.Header().Rrtype {
		case dns.TypeSOA, dns.TypeNS:
			m.Ns = append(m.Ns, rr)
		default:
			m.Answer = append(m.Answer, rr)
		}
	}
	return m
}

func packed(m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// records is an answer with these records, and nothing else.
func records(q *dns.Msg, texts ...string) [][]byte {
	return [][]byte{packed(answerTo(q, dns.RcodeSuccess, texts...))}
}

// silence is a server that answers nothing.
func silence(string, string, *dns.Msg) [][]byte { return nil }

// zone answers by name and type: "www.example.org. A" → records, and SERVFAIL where the only record is "SERVFAIL".
func zone(names map[string][]string) handler {
	return func(_, _ string, q *dns.Msg) [][]byte {
		rr, ok := names[q.Question[0].Name+" "+dns.TypeToString[q.Question[0].Qtype]]
		switch {
		case !ok:
			return [][]byte{packed(answerTo(q, dns.RcodeNameError))}
		case len(rr) == 1 && rr[0] == "SERVFAIL":
			return [][]byte{packed(answerTo(q, dns.RcodeServerFailure))}
		case len(rr) == 1 && rr[0] == "silence":
			return nil
		}
		return records(q, rr...)
	}
}

// start returns a Resolver that asks 192.0.2.53 and 192.0.2.54, played by f, and sees no files of this machine.
func start(t testing.TB, f *fakeServers, change func(*Config)) *Resolver {
	t.Helper()
	cfg := Default()
	cfg.Servers = []string{"192.0.2.53", "192.0.2.54:5353"}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg, Deps{Dial: f.dial, HostsFile: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// lookup asks for a host in a bubble.
func lookup(t *testing.T, host string, handle handler) (f *fakeServers, got Answer, err error) {
	t.Helper()
	f = &fakeServers{handle: handle}
	synctest.Test(t, func(t *testing.T) {
		got, err = start(t, f, nil).Lookup(t.Context(), host)
		time.Sleep(time.Minute) // servers may be at work
	})
	return f, got, err
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// kindOf names the kind of an error of Lookup.
func kindOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e):
		t.Fatalf("error %v is no *Error", err)
	case errors.Is(err, ErrNotFound):
		return "not found"
	case errors.Is(err, ErrTemporary):
		return "temporary"
	case errors.Is(err, ErrInvalid):
		return "invalid"
	}
	t.Fatalf("error %v has no kind", err)
	return ""
}
