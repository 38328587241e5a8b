package placement

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/wire"
)

// Bounds on what a peer may send, beyond those of the message as a whole.
const (
	maxLabels     = 16
	maxName       = 128 // bytes of a label or of a batch's name
	maxReason     = 300 // bytes of a reason; longer ones are cut
	maxStage      = time.Hour
	maxRetryAfter = 365 * 24 * time.Hour
)

// encodeFetch makes the message of a remote fetch.
func encodeFetch(f RemoteFetch) *wire.RemoteFetch {
	return &wire.RemoteFetch{
		Url: f.URL.String(), Server: f.Server.AsSlice(), Epoch: f.Epoch, Batch: f.Batch, Labels: f.Labels,
		Assigned: f.Assigned, Fresh: f.Fresh, Quiet: f.Quiet,
		Depth: uint32(f.Depth), Hops: uint32(f.Hops), Attempt: uint32(f.Attempt),
	}
}

// decodeFetch reads the message of a remote fetch and says what is wrong with it.
func decodeFetch(m *wire.RemoteFetch) (RemoteFetch, error) {
	if m == nil {
		return RemoteFetch{}, errors.New("no remote fetch")
	}
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
		Ending: uint32(r.Ending), Trouble: uint32(r.Trouble), Reason: cut(r.Reason), Asked: r.Asked,
		RetryAfterMs: r.RetryAfter.Milliseconds(), Status: uint32(max(0, r.Status)), Bytes: r.Timing.Bytes,
		Timing: &wire.Timing{
			ConnectUs: r.Timing.Connect.Microseconds(), TlsUs: r.Timing.TLS.Microseconds(),
			FirstByteUs: r.Timing.FirstByte.Microseconds(), TotalUs: r.Timing.Total.Microseconds(), Fresh: r.Timing.Fresh,
		},
		Unmade: r.Unmade, Html: r.HTML,
	}
}

// decodeResponse reads the result of a response, with the coordinate of who sent it.
func decodeResponse(m *wire.FetchResponse) (Result, error) {
	r, err := decodeResult(m.GetResult())
	if c, unplaced := ncoord.DecodeCoordinate(m.GetCoordinate()); err == nil && unplaced == nil {
		r.Coord, r.Placed = c, true
	}
	return r, err
}

// decodeResult reads the message of a result and says what is wrong with it.
func decodeResult(m *wire.FetchResult) (Result, error) {
	switch {
	case m == nil:
		return Result{}, errors.New("no result")
	case m.GetEnding() > uint32(frontier.Again):
		return Result{}, fmt.Errorf("ending %d is unknown", m.GetEnding())
	case m.GetTrouble() > uint32(frontier.Interrupted):
		return Result{}, fmt.Errorf("trouble %d is unknown", m.GetTrouble())
	case m.GetStatus() > 999:
		return Result{}, fmt.Errorf("status %d is none", m.GetStatus())
	case m.GetBytes() < 0:
		return Result{}, fmt.Errorf("%d bytes are none", m.GetBytes())
	case m.GetRetryAfterMs() < 0 || m.GetRetryAfterMs() > maxRetryAfter.Milliseconds():
		return Result{}, fmt.Errorf("retry after %d ms is out of bounds", m.GetRetryAfterMs())
	}
	r := Result{
		Ending: frontier.Ending(m.GetEnding()), Trouble: frontier.Trouble(m.GetTrouble()), Reason: cut(m.GetReason()),
		Asked: m.GetAsked(), RetryAfter: time.Duration(m.GetRetryAfterMs()) * time.Millisecond,
		Status: int(m.GetStatus()), Unmade: m.GetUnmade(), HTML: m.GetHtml(),
	}
	t := m.GetTiming()
	r.Timing.Bytes, r.Timing.Fresh = m.GetBytes(), t.GetFresh()
	for _, stage := range []struct {
		us int64
		to *time.Duration
	}{
		{t.GetConnectUs(), &r.Timing.Connect}, {t.GetTlsUs(), &r.Timing.TLS}, {t.GetFirstByteUs(), &r.Timing.FirstByte},
		{t.GetTotalUs(), &r.Timing.Total},
	} {
		if stage.us < 0 || stage.us > maxStage.Microseconds() {
			return Result{}, fmt.Errorf("a stage of %d µs is out of bounds", stage.us)
		}
		*stage.to = time.Duration(stage.us) * time.Microsecond
	}
	if r.Timing.Connect+r.Timing.TLS+r.Timing.FirstByte > r.Timing.Total+time.Second {
		return Result{}, errors.New("the stages take longer than the whole")
	}
	if r.HTML && (r.Unmade || !r.Asked || r.Timing.Total == 0) {
		return Result{}, errors.New("a page without a download")
	}
	return r, nil
}

// cut bounds a reason, and makes it text.
func cut(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	if !utf8.ValidString(reason) {
		reason = strings.ToValidUTF8(reason, "�")
	}
	return reason
}
