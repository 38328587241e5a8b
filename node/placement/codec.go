package placement

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/ownership"
	"proxima/node/wire"
)

// Bounds of what a peer may send.
const (
	maxLabels     = 16
	maxName       = 128       // bytes of a label or of a batch's name
	maxReason     = 300       // bytes of a reason; longer ones are cut
	maxStage      = time.Hour // of one stage of a download
	maxRetryAfter = 365 * 24 * time.Hour
	maxPageLinks  = 100_000 // links of a page, ten times what is read of one
	maxPortion    = 1 << 20 // bytes of links in an answer; one link always fits
)

// encodeFetch makes the message of a remote fetch.
func encodeFetch(f RemoteFetch) *wire.RemoteFetch {
	return &wire.RemoteFetch{
		Url: f.URL.String(), Server: f.Server.AsSlice(), Epoch: f.Epoch, Batch: f.Batch, Labels: f.Labels,
		Assigned: f.Assigned, Fresh: f.Fresh, Quiet: f.Quiet,
		Depth: uint32(f.Depth), Hops: uint32(f.Hops), Attempt: uint32(f.Attempt),
	}
}

// decodeFetch reads the message of a remote fetch.
func decodeFetch(m *wire.RemoteFetch) (RemoteFetch, error) {
	u, err := identity.Parse(m.GetUrl())
	if err != nil {
		return RemoteFetch{}, err
	}
	addr, ok := netip.AddrFromSlice(m.GetServer())
	if !ok {
		return RemoteFetch{}, fmt.Errorf("server of %d bytes is no address", len(m.GetServer()))
	}
	if addr = addr.Unmap(); addr.IsUnspecified() || addr.IsMulticast() {
		return RemoteFetch{}, fmt.Errorf("server %s is no address of one server", addr)
	}
	if literal, err := netip.ParseAddr(u.Name()); err == nil && literal.Unmap() != addr {
		return RemoteFetch{}, fmt.Errorf("server %s is not that of %s", addr, u.Name())
	}
	if len(m.GetBatch()) > maxName || len(m.GetLabels()) > maxLabels {
		return RemoteFetch{}, errors.New("batch or labels too long")
	}
	for _, l := range m.GetLabels() {
		if len(l) > maxName {
			return RemoteFetch{}, errors.New("label too long")
		}
	}
	if m.GetDepth() > math.MaxUint8 || m.GetHops() > math.MaxUint8 || m.GetAttempt() > math.MaxUint8 {
		return RemoteFetch{}, errors.New("depth, hops or attempt above 255")
	}
	return RemoteFetch{
		URL: u, Server: addr, Epoch: m.GetEpoch(), Batch: m.GetBatch(), Labels: m.GetLabels(),
		Assigned: m.GetAssigned(), Fresh: m.GetFresh(), Quiet: m.GetQuiet(),
		Depth: uint8(m.GetDepth()), Hops: uint8(m.GetHops()), Attempt: uint8(m.GetAttempt()),
	}, nil
}

// encodeResult makes the message of a result, without the coordinate.
func encodeResult(r Result) *wire.FetchResult {
	return &wire.FetchResult{
		Ending: uint32(r.Ending), Trouble: uint32(r.Trouble), Reason: shorten(r.Reason), Asked: r.Asked,
		RetryAfterMs: min(r.RetryAfter, maxRetryAfter).Milliseconds(), Status: uint32(max(0, r.Status)), Bytes: r.Timing.Bytes,
		Timing: &wire.Timing{
			ConnectUs: r.Timing.Connect.Microseconds(), TlsUs: r.Timing.TLS.Microseconds(),
			FirstByteUs: r.Timing.FirstByte.Microseconds(), TotalUs: r.Timing.Total.Microseconds(),
		},
		Unmade: r.Unmade, Html: r.HTML,
	}
}

// linkBytes returns how much memory links take. On the wire they take no more.
func linkBytes(links []frontier.Link) (n int) {
	for _, l := range links {
		n += len(l.URL.Host) + len(l.URL.Path) + 40
	}
	return n
}

// encodeLinks makes the messages of those links that fit into one answer. The asker has the first links already, had of them. more
// tells that some are left.
func encodeLinks(links []frontier.Link, had int) (portion []*wire.Link, more bool) {
	links = links[min(had, len(links)):]
	for i, bytes := 0, 0; i < len(links); i++ {
		if bytes += linkBytes(links[i : i+1]); i > 0 && bytes > maxPortion {
			return portion, true
		}
		portion = append(portion, ownership.LinkToWire(links[i]))
	}
	return portion, false
}

// decodeLinks appends the links of a response to those that came before; false if they are malformed.
func decodeLinks(m *wire.FetchResponse, before []frontier.Link) ([]frontier.Link, bool) {
	if len(before)+len(m.GetLinks()) > maxPageLinks || m.GetMore() && len(m.GetLinks()) == 0 {
		return nil, false
	}
	links := before
	for _, w := range m.GetLinks() {
		l, ok := ownership.LinkOf(w)
		if !ok {
			return nil, false
		}
		links = append(links, l)
	}
	return links, true
}

// decodeResponse reads a response. The result has the links that came before, too. ok is false if the response is malformed.
func decodeResponse(m *wire.FetchResponse, before []frontier.Link) (Result, bool) {
	f, t := m.GetResult(), m.GetResult().GetTiming()
	r := Result{Status: int(f.GetStatus()), Unmade: f.GetUnmade(), HTML: f.GetHtml(), Outcome: frontier.Outcome{
		Ending: frontier.Ending(f.GetEnding()), Trouble: frontier.Trouble(f.GetTrouble()), Reason: shorten(f.GetReason()),
		Asked: f.GetAsked(), RetryAfter: time.Duration(f.GetRetryAfterMs()) * time.Millisecond,
	}}
	if c, err := ncoord.DecodeCoordinate(m.GetCoordinate()); err == nil {
		r.Coord = c
	}
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	r.Timing = assign.Timing{Connect: us(t.GetConnectUs()), TLS: us(t.GetTlsUs()), FirstByte: us(t.GetFirstByteUs()), Total: us(t.GetTotalUs()),
		Bytes: f.GetBytes()}
	for _, stage := range []int64{t.GetConnectUs(), t.GetTlsUs(), t.GetFirstByteUs(), t.GetTotalUs()} {
		if stage < 0 || stage > maxStage.Microseconds() {
			return Result{}, false
		}
	}
	switch {
	case f == nil, f.GetEnding() > uint32(frontier.Again), f.GetTrouble() > uint32(frontier.Interrupted),
		f.GetStatus() > 999, f.GetBytes() < 0, f.GetRetryAfterMs() < 0, f.GetRetryAfterMs() > maxRetryAfter.Milliseconds(),
		r.Timing.Connect+r.Timing.TLS+r.Timing.FirstByte > r.Timing.Total+time.Second,
		r.HTML && (r.Unmade || !r.Asked || r.Timing.Total == 0):
		return Result{}, false
	}
	var ok bool
	r.Links, ok = decodeLinks(m, before)
	return r, ok
}

// shorten makes a reason short and valid UTF-8.
func shorten(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "�")
}
