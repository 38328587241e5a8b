package netsim

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// segment is the largest unit sent, in bytes: an Ethernet frame minus headers with time stamps.
	segment = 1448
	// header is the size of the IP and TCP headers with time stamps, in bytes; an acknowledgement has nothing else.
	header = 52
	// initialWindow is what may be in flight before the first acknowledgement (RFC 6928).
	initialWindow = 10 * segment
	// buffer bounds what waits for a reader, and so what may be in flight.
	buffer = 4 << 20
	// sendBuffer is how far a writer may be ahead of what may leave: enough to let it sleep.
	sendBuffer = 256 << 10
	// minTimeout is how long beyond a round trip a connection must be idle to start from the initial window again: the
	// least retransmission timeout (RFC 6298, RFC 9293; 200 ms as in Linux).
	minTimeout = 200 * time.Millisecond
	// minQueue is the least queueing delay that stops the window's growth, or half a round trip if that is more. Until
	// the path is full, the queues of slow start stay below that; beyond it, a router would drop packets.
	minQueue = 20 * time.Millisecond
)

const errReset = syscall.ECONNRESET

// conn is one end of a connection. Acknowledgements clock what it sends: each lets as much leave as it acknowledges,
// and as much again while the window grows (slow start, RFC 5681). The window stops growing when queues on the path
// show that it is full.
type conn struct {
	net           *Network
	owner         *Endpoint
	near, far     *host
	local, remote netip.AddrPort
	peer          *conn
	writing       chan struct{} // holds a token during a Write

	// net.mu guards what follows.
	err    error // why the connection is dead
	closed bool

	unsent   []byte
	ended    bool          // no more will be written
	finished bool          // the end has been sent
	window   int           // bytes that may be in flight
	flight   int           // bytes in flight
	peak     int           // the most bytes in flight since it was idle
	sent     time.Duration // when the last segment left
	order    time.Duration // when the last segment reaches the peer's downlink
	trip     time.Duration // the shortest round trip seen; 0 before the first

	arrived     [][]byte
	waiting     int // bytes in arrived
	eof         bool
	read, write time.Time // deadlines
	changed     sync.Cond
}

func newConn(n *Network, owner *Endpoint, near, far *host, local, remote netip.AddrPort) *conn {
	c := &conn{net: n, owner: owner, near: near, far: far, local: local, remote: remote, writing: make(chan struct{}, 1),
		window: initialWindow, changed: sync.Cond{L: &n.mu}}
	n.conns[c] = struct{}{}
	return c
}

// fail breaks both ends at once.
func (c *conn) fail(err error) {
	c.broke(err)
	c.peer.broke(err)
}

// broke breaks this end. What has arrived can still be read.
func (c *conn) broke(err error) {
	if c.err == nil {
		c.err, c.unsent = err, nil
		delete(c.net.conns, c)
		c.changed.Broadcast()
	}
}

// abort breaks this end at once, and the other when it hears of it.
func (c *conn) abort(err error) {
	if c.err == nil {
		c.broke(err)
		c.send(0, nil, func() { c.peer.broke(errReset) })
	}
}

// send sends something to the peer.
func (c *conn) send(bytes int, order *time.Duration, arrive func()) {
	c.net.send(parcel{from: c.near, to: c.far, bytes: bytes, order: order, stream: true, arrive: arrive})
}

// Drained returns once all that was written has left, or never will. Tests note when an answer has left.
func (c *conn) Drained() {
	c.net.lock()
	defer c.net.unlock()
	for len(c.unsent) > 0 && c.err == nil {
		c.net.wait(&c.changed, time.Time{})
	}
}

// transmit sends what may leave now.
func (c *conn) transmit() {
	now := c.net.plan.now
	if c.flight == 0 && now-c.sent > c.trip+minTimeout {
		c.window, c.peak = initialWindow, 0
	}
	for len(c.unsent) > 0 && c.err == nil {
		size := min(segment, len(c.unsent))
		if c.flight+size > min(c.window, buffer-c.peer.waiting) {
			return
		}
		data := c.unsent[:size:size]
		c.unsent = c.unsent[size:]
		c.flight += size
		c.peak = max(c.peak, c.flight)
		c.sent = now
		c.send(size+header, &c.order, func() { c.peer.receive(data, now) })
	}
	if c.ended && !c.finished && c.err == nil {
		c.finished = true
		c.send(0, &c.order, c.peer.receiveEnd)
	}
}

// receive takes a segment that left at a given time, and acknowledges it.
func (c *conn) receive(data []byte, left time.Duration) {
	switch {
	case c.err != nil:
		return
	case c.closed:
		c.abort(net.ErrClosed)
		return
	}
	c.arrived = append(c.arrived, data)
	c.waiting += len(data)
	c.changed.Broadcast()
	c.send(header, nil, func() { c.peer.acknowledged(len(data), left) })
}

// acknowledged handles the acknowledgement of a segment that left at a given time.
func (c *conn) acknowledged(size int, left time.Duration) {
	if c.err != nil {
		return
	}
	took := c.net.plan.now - left
	if c.trip == 0 || took < c.trip {
		c.trip = took
	}
	c.flight -= size
	if c.window < 2*c.peak && took-c.trip <= max(c.trip/2, minQueue) {
		c.window = min(c.window+size, buffer)
	}
	c.transmit()
	c.changed.Broadcast() // a writer may have room now
	c.forget()
}

// receiveEnd handles the end of the peer's stream.
func (c *conn) receiveEnd() {
	c.eof = true
	c.changed.Broadcast()
	c.forget()
	c.peer.forget()
}

// forget drops a connection that has finished.
func (c *conn) forget() {
	if c.closed && c.peer.eof && c.eof && c.flight == 0 {
		delete(c.net.conns, c)
	}
}

// take reads what has arrived. That may let the peer send more.
func (c *conn) take(b []byte) (n int) {
	before := c.waiting
	for n < len(b) && len(c.arrived) > 0 {
		k := copy(b[n:], c.arrived[0])
		n += k
		if c.arrived[0] = c.arrived[0][k:]; len(c.arrived[0]) == 0 {
			c.arrived = c.arrived[1:]
		}
	}
	c.waiting -= n
	if before > buffer/2 && c.waiting <= buffer/2 {
		c.send(0, nil, c.peer.transmit)
	}
	return n
}

// TransferMs returns how long the body of an answer takes on a fresh connection, from its first byte to its last, in ms
// without loss: slow start from the initial window, doubling each round trip, until the bandwidth is the limit.
// bytesPerMs 0 is unlimited.
func TransferMs(rttMs, bytesPerMs float64, bytes int64) float64 {
	left, window, t, perByte := float64(bytes), float64(initialWindow), 0.0, 0.0
	if bytesPerMs > 0 {
		perByte = float64(segment+header) / segment / bytesPerMs
	}
	round := rttMs + segment*perByte // a segment is acknowledged when its last byte arrives
	for left > window && window*perByte < round {
		left -= window
		window *= 2
		t += round
	}
	// From here on the path is full, or the rest is in flight: bandwidth decides.
	return t + left*perByte
}

// DownloadMs returns the expected time for a page on a fresh connection, in ms: connecting, the request, the server's
// think time, slow start.
func DownloadMs(rttMs, bytesPerMs, thinkMs, loadMs float64, bytes int64) float64 {
	return 2*rttMs + thinkMs + loadMs + TransferMs(rttMs, bytesPerMs, bytes)
}
