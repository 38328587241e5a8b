package relay

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"time"
)

// link is a connection for frames with one member. It stands, or is being dialled.
type link struct {
	peer string
	out  chan frame
	// open is closed when it stands, gone when it has ended.
	open, gone chan struct{}
	used       atomic.Int64 // when a frame other than a ping went over it, in ns of the Unix epoch
	keep       atomic.Bool  // to a relay of this node: it is never idle

	// tokens are what the peer may still have carried, of the time since; only the reader has them.
	tokens float64
	since  time.Time
	conn   net.Conn // once it stands
}

func newLink(peer string) *link {
	l := &link{peer: peer, out: make(chan frame, queued), open: make(chan struct{}), gone: make(chan struct{}), tokens: burst, since: time.Now()}
	l.touch()
	return l
}

func (l *link) touch()     { l.used.Store(time.Now().UnixNano()) }
func (l *link) idle() bool { return !l.keep.Load() && time.Since(time.Unix(0, l.used.Load())) > Idle }

// stands says whether frames sent now go out at once.
func (l *link) stands() bool {
	select {
	case <-l.gone:
		return false
	case <-l.open:
		return true
	default:
		return false
	}
}

// offer queues a frame, or drops it.
func (l *link) offer(f frame) bool {
	l.touch()
	select {
	case l.out <- f:
		return true
	default:
		return false
	}
}

// run carries frames until the connection breaks, is silent, or is not used any more.
func (l *link) run(ctx context.Context, conn net.Conn, dialled bool, take func(*link, frame)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // its users are told
	l.conn = conn
	close(l.open)
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer cancel()
		l.write(ctx, dialled)
	}()
	in := bufio.NewReaderSize(conn, 4<<10)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(Silence)) // then the read fails at once
		f, err := readFrame(in)
		if err != nil {
			break
		}
		if f.kind != framePing {
			l.touch()
			take(l, f)
		}
	}
	cancel()
	<-written
}

// write sends what is queued, and a ping where there is nothing.
func (l *link) write(ctx context.Context, dialled bool) {
	ticker := time.NewTicker(Silence / 3)
	defer ticker.Stop()
	var b []byte
	for {
		b = b[:0]
		select {
		case <-ctx.Done():
			return
		case f := <-l.out:
			b = f.append(b)
			for len(b) < 16<<10 && len(l.out) > 0 {
				b = (<-l.out).append(b)
			}
		case <-ticker.C:
			if dialled && l.idle() {
				return
			}
			b = frame{kind: framePing}.append(b)
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(Silence))
		if _, err := l.conn.Write(b); err != nil {
			return
		}
	}
}

// may says whether the peer may have one more packet carried.
func (l *link) may(now time.Time) bool {
	l.tokens = min(burst, l.tokens+now.Sub(l.since).Seconds()*rate)
	l.since = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
