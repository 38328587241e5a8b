package relay

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection for frames with one member. It is being dialled, open, or has ended.
type link struct {
	peer string
	out  chan frame
	// ctx ends with the link.
	ctx  context.Context
	end  context.CancelFunc
	open atomic.Bool
	used atomic.Int64 // when a frame other than a ping last went over it, Unix time in ns
	keep atomic.Bool  // it leads to a relay of this node and is never idle

	// tokens are what the peer may still have carried, as of since; only the reader uses them.
	tokens float64
	since  time.Time
	conn   net.Conn // once the link is open
}

// newLink makes a link that is to be dialled, or run. It ends with ctx at the latest.
func newLink(ctx context.Context, peer string) *link {
	l := &link{peer: peer, out: make(chan frame, queued), tokens: burst, since: time.Now()}
	l.ctx, l.end = context.WithCancel(ctx)
	l.touch()
	return l
}

func (l *link) touch()     { l.used.Store(time.Now().UnixNano()) }
func (l *link) idle() bool { return !l.keep.Load() && time.Since(time.Unix(0, l.used.Load())) > Idle }

// stands reports whether frames sent now go out at once.
func (l *link) stands() bool { return l.open.Load() && l.ctx.Err() == nil }

// offer queues a frame, or drops it if the queue is full.
func (l *link) offer(f frame) bool {
	l.touch()
	select {
	case l.out <- f:
		return true
	default:
		return false
	}
}

// run carries frames until the connection breaks, is silent, or has been idle.
func (l *link) run(conn net.Conn, dialled bool, take func(*link, frame)) {
	context.AfterFunc(l.ctx, func() { conn.Close() }) //nolint:errcheck // its users get the error
	l.conn = conn
	l.open.Store(true)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer l.end()
	writing.Go(func() {
		defer l.end()
		l.write(dialled)
	})
	in := bufio.NewReaderSize(conn, 4<<10)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(Silence)) // if this fails, so does the read
		f, err := readFrame(in)
		if err != nil {
			return
		}
		if f.kind != framePing {
			l.touch()
			take(l, f)
		}
	}
}

// write sends queued frames, and pings while there are none.
func (l *link) write(dialled bool) {
	ticker := time.NewTicker(Silence / 3)
	defer ticker.Stop()
	var b []byte
	for {
		b = b[:0]
		select {
		case <-l.ctx.Done():
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

// may reports whether the peer may have one more packet carried.
func (l *link) may(now time.Time) bool {
	l.tokens = min(burst, l.tokens+now.Sub(l.since).Seconds()*rate)
	l.since = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
