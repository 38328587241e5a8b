package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
)

const (
	// ednsSize is the size in bytes of the largest UDP answer asked for. It fits into one packet everywhere (DNS Flag Day 2020).
	ednsSize = 1232
	// maxStrays is the number of messages ignored while waiting for an answer. More suggest that someone guesses the id.
	maxStrays = 32
)

// TXT returns the TXT records of a name, if any. It does not follow aliases and caches nothing.
func (r *Resolver) TXT(ctx context.Context, name string) ([]string, error) {
	rep, err := r.query(ctx, name, dns.TypeTXT, 0)
	if err != nil {
		return nil, fmt.Errorf("look up TXT of %s: %w", name, err)
	}
	return rep.texts, nil
}

// query asks the servers in turn, beginning with the one that answered last, until one answers, the tries are used up, or every
// server has failed.
func (r *Resolver) query(ctx context.Context, name string, qtype uint16, aliases int) (reply, error) {
	servers := *r.servers.Load()
	first := int(r.good.Load())       // another lookup may change it at any time
	left := make([]int, len(servers)) // indices of the servers still to ask, the next first
	for i := range left {
		left[i] = (first + i) % len(left)
	}
	var lastErr error
	for try := 0; try < r.cfg.Attempts && len(left) > 0; try++ {
		server := left[0]
		rep, err := r.try(ctx, servers[server], name, qtype, aliases)
		if err == nil {
			r.good.Store(int32(server))
			return rep, nil
		}
		late := over(ctx)
		if !late || lastErr == nil { // an earlier error says more than that the time is over
			lastErr = fmt.Errorf("ask %s: %w", servers[server], err)
		}
		if late {
			break
		}
		if left = left[1:]; !errors.Is(err, errServer) {
			left = append(left, server)
		}
	}
	return reply{}, lastErr
}

// over says whether the asker's time has ended. At its deadline a connection may end before the context does.
func over(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(deadline)
}

// try asks one server within cfg.Timeout: over UDP, once more without EDNS if the server does not know it (RFC 6891, section 7),
// and over TCP if the answer does not fit (RFC 7766, section 5).
func (r *Resolver) try(ctx context.Context, server, name string, qtype uint16, aliases int) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	q := question{name: name, qtype: qtype, edns: true}
	rep, err := r.exchange(ctx, "udp", server, q, aliases)
	if errors.Is(err, errNoEDNS) {
		q.edns = false
		rep, err = r.exchange(ctx, "udp", server, q, aliases)
	}
	if errors.Is(err, errTruncated) {
		rep, err = r.exchange(ctx, "tcp", server, q, aliases)
		if errors.Is(err, errTruncated) || errors.Is(err, errNoEDNS) {
			err = fmt.Errorf("%w: %w over TCP", errServer, err)
		}
	}
	return rep, err
}

// exchange sends a question over a new connection, hence from a random port, and waits for its answer. Unlike dns.Client it does
// not give up at a message that may be forged.
func (r *Resolver) exchange(ctx context.Context, network, server string, q question, aliases int) (reply, error) {
	conn, err := r.dial(ctx, network, server)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return reply{}, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	size := ednsSize + 1
	if network == "tcp" {
		conn, size = &dns.Conn{Conn: conn}, dns.MaxMsgSize // frames each message with its length
	}
	q.id = dns.Id()
	msg, err := q.pack()
	if err != nil {
		return reply{}, err
	}
	if _, err := conn.Write(msg); err != nil {
		return reply{}, err
	}
	buf := make([]byte, size)
	for range maxStrays {
		n, err := conn.Read(buf)
		if err != nil {
			return reply{}, err
		}
		if network == "udp" && n > ednsSize {
			buf[2] |= flagTC // larger than asked for, so its end is missing
		}
		rep, err := interpret(buf[:n], q, aliases)
		if !errors.Is(err, errStray) {
			if !errors.Is(err, errServFail) { // a server on this machine says so of all names when the network is gone
				r.alive.hear()
			}
			return rep, err
		}
	}
	return reply{}, fmt.Errorf("%d messages: %w", maxStrays, errStray)
}

// pack returns the message that asks a recursive server.
func (q question) pack() ([]byte, error) {
	m := new(dns.Msg).SetQuestion(q.name+".", q.qtype)
	m.Id = q.id
	if q.edns {
		m.SetEdns0(ednsSize, false)
	}
	return m.Pack()
}
