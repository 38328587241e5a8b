package ownership

import (
	"encoding/binary"
	"errors"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// Bounds of what a chunk holds. What a peer sends beyond them is malformed, or cut where that does no harm.
const (
	// chunkBytes bounds a chunk in addition to ChunkURLs: with very long URLs it would exceed the largest message.
	chunkBytes = 512 << 10
	maxWait    = 7 * 24 * time.Hour // the longest duration
	maxCount   = 1 << 32            // of drops, and of retries
	maxPath    = 64 << 10           // far above what identity accepts
	maxRobots  = 1 << 20            // above the limit of the fetcher
)

// chunkToWire makes the message of a chunk.
func chunkToWire(c frontier.Chunk) *wire.Chunk {
	w := &wire.Chunk{Drops: c.Drops}
	if s := c.State; s != nil {
		w.State = &wire.HostState{
			SinceRequestMs: milliseconds(s.SinceRequest), WaitMs: s.Wait.Milliseconds(), CrawlDelayMs: s.CrawlDelay.Milliseconds(),
			Level: uint32(s.Level), Done: s.Done, Failed: s.Failed, Dropped: s.Dropped,
			TriedBy: s.TriedBy, ReachedSince: s.ReachedSince, Retries: s.Retries,
			GivenUpMs: s.GivenUp.Milliseconds(), GivenUpWhy: s.WhyGivenUp,
		}
		if r := s.Robots; r != nil {
			w.State.Robots = &wire.RobotsFile{Body: r.Body, ValidMs: r.Valid.Milliseconds()}
		}
	}
	w.Pending = make([]*wire.Pending, len(c.Pending))
	all := make([]wire.Pending, len(c.Pending)) // one allocation instead of thousands
	for i, p := range c.Pending {
		w.Pending[i] = &all[i]
		w.Pending[i].Path, w.Pending[i].Sitemap = p.Path, p.Sitemap
		w.Pending[i].Depth, w.Pending[i].Hops = uint32(p.Depth), uint32(p.Hops)
	}
	w.Done = make([]byte, 0, 8*len(c.Done))
	for _, hash := range c.Done {
		w.Done = binary.LittleEndian.AppendUint64(w.Done, hash)
	}
	now := time.Now()
	for i := range c.Pages {
		w.Pages = append(w.Pages, frontier.AppendPage(nil, &c.Pages[i], now))
	}
	return w
}

// milliseconds maps negative durations, which mean "never", to -1.
func milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// duration is the inverse of milliseconds, up to maxWait.
func duration(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(min(ms, maxWait.Milliseconds())) * time.Millisecond
}

var errMalformed = errors.New("malformed chunk")

// chunkFromWire reads a chunk from a peer. It fails with errMalformed, and cuts waits and counts to their bounds.
func chunkFromWire(w *wire.Chunk) (frontier.Chunk, error) {
	c := frontier.Chunk{Drops: min(w.GetDrops(), maxCount)}
	if s := w.GetState(); s != nil {
		c.State = &frontier.HostState{
			SinceRequest: duration(s.GetSinceRequestMs()), Wait: max(0, duration(s.GetWaitMs())), CrawlDelay: max(0, duration(s.GetCrawlDelayMs())),
			Level: uint8(min(s.GetLevel(), 60)), Done: s.GetDone(), Failed: s.GetFailed(), Dropped: s.GetDropped(),
			TriedBy: s.GetTriedBy(), ReachedSince: s.GetReachedSince(), Retries: min(s.GetRetries(), maxCount),
			GivenUp: max(0, duration(s.GetGivenUpMs())), WhyGivenUp: s.GetGivenUpWhy(),
		}
		if len(c.State.TriedBy) > frontier.MaxID {
			return c, errMalformed
		}
		if r := s.GetRobots(); r != nil {
			if len(r.GetBody()) > maxRobots {
				return c, errMalformed
			}
			c.State.Robots = &frontier.RobotsFile{Body: r.GetBody(), Valid: max(0, duration(r.GetValidMs()))}
		}
	}
	c.Pending = make([]frontier.PendingURL, 0, len(w.GetPending()))
	for _, p := range w.GetPending() {
		if p.GetPath() == "" || p.GetPath()[0] != '/' || len(p.GetPath()) > maxPath || p.GetDepth() > 255 || p.GetHops() > 255 {
			return c, errMalformed
		}
		c.Pending = append(c.Pending, frontier.PendingURL{Path: p.GetPath(), Sitemap: p.GetSitemap(),
			Depth: uint8(p.GetDepth()), Hops: uint8(p.GetHops())})
	}
	b := w.GetDone()
	if len(b)%8 != 0 {
		return c, errMalformed
	}
	c.Done = make([]uint64, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		c.Done = append(c.Done, binary.LittleEndian.Uint64(b))
	}
	now := time.Now()
	for _, b := range w.GetPages() {
		p, err := frontier.ParsePage(b, now)
		if err != nil {
			return c, errMalformed
		}
		c.Pages = append(c.Pages, p)
	}
	return c, nil
}

func digestToWire(d frontier.Digest) *wire.Digest {
	return &wire.Digest{Accepted: d.Accepted, Done: d.Done, AcceptedXor: d.AcceptedXor, DoneXor: d.DoneXor, Drops: d.Drops,
		Pages: d.Pages, PagesXor: d.PagesXor}
}
