package member

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/lobby"
)

const (
	// maxStream bounds one stream. The state of maxEntries members, each with the largest meta, fits.
	maxStream = 1 << 20
	// unproven is the number of places for streams that have not yet proved that they know the secret. A place is worth
	// placeSize bytes read, so all of them hold 8 MiB.
	unproven  = 128
	placeSize = 64 << 10
	// ofMember is how many places a member may take before it counts like a stranger: one stream of the largest size,
	// and some small ones.
	ofMember = 24
	// proofTime is how long a stream may take to send its message.
	proofTime = 10 * time.Second
)

// A stream of memberlist is a header with the label, and one encrypted message.
const (
	markEncrypted = 10
	// Streams carry these three messages only; the last are messages of voters that are too long for a packet. Nodes send no others
	// by stream, and compressed ones could become large.
	markPing     = 0
	markPushPull = 6
	markUser     = 8

	cryptVersion = 1
	cryptHead    = 1 + 12 // version and nonce
	cryptTag     = 16
)

// prover reads a stream's message before memberlist does, which would read 20 MiB from anybody. It passes on only what
// it can decrypt.
type prover struct {
	label string
	keys  func() [][]byte
	lobby *lobby.Lobby
	// opening is held while a message is decrypted, to bound the memory for plain text.
	opening sync.Mutex
}

// prove returns all that a guest sent, once that proved knowledge of a key. The guest has then left the lobby.
func (p *prover) prove(g *lobby.Guest) ([]byte, error) {
	// memberlist sets its own deadline later.
	if err := g.SetDeadline(time.Now().Add(proofTime)); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	said, err := p.read(g)
	if !g.Leave() {
		return nil, errors.New("too many streams had not proved themselves")
	}
	return said, err
}

// read reads the header and the message of a stream, as far as they may be those of a member.
func (p *prover) read(g *lobby.Guest) ([]byte, error) {
	label, err := memberlist.AddLabelHeaderToPacket(nil, p.label)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(label)+5)
	if _, err := io.ReadFull(g, head); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if !bytes.HasPrefix(head, label) {
		theirs := head[2:min(2+int(head[1]), len(head))] // as far as it was read
		return nil, fmt.Errorf("it is of another run, version or member.faster, or garbage: it says %q, this node %q", theirs, p.label)
	}
	auth := head[len(label):]
	size := int(binary.BigEndian.Uint32(auth[1:]))
	switch {
	case auth[0] != markEncrypted:
		return nil, errors.New("it is not encrypted")
	case size <= cryptHead+cryptTag || size > maxStream:
		return nil, fmt.Errorf("it announces %d bytes, not %d to %d", size, cryptHead+cryptTag+1, maxStream)
	}
	said, err := grow(g, head, len(head)+size)
	if err != nil {
		return nil, err
	}
	return said, p.open(said[len(head):], append(said[len(label):len(head):len(head)], p.label...))
}

// grow reads until b has size bytes. It allocates memory, and takes places for it, only as bytes arrive.
func grow(g *lobby.Guest, b []byte, size int) ([]byte, error) {
	b = append(make([]byte, 0, min(size, 4<<10)), b...)
	places := 1
	for len(b) < size {
		if len(b) == cap(b) {
			room := min(2*cap(b), size)
			if more := (room+placeSize-1)/placeSize - places; more > 0 {
				if !g.Take(more) {
					return nil, net.ErrClosed
				}
				places += more
			}
			b = append(make([]byte, 0, room), b...)
		}
		n, err := g.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil && len(b) < size {
			return nil, fmt.Errorf("read %d of %d bytes: %w", len(b), size, err)
		}
	}
	return b, nil
}

// open returns why a message is not from a member, nil if it is.
func (p *prover) open(message, auth []byte) error {
	if message[0] != cryptVersion {
		return fmt.Errorf("unknown version %d of encryption", message[0])
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	for _, key := range p.keys() {
		block, err := aes.NewCipher(key)
		if err != nil {
			return fmt.Errorf("use key: %w", err)
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return fmt.Errorf("use key: %w", err)
		}
		plain, err := gcm.Open(nil, message[1:cryptHead], message[cryptHead:], auth)
		if err != nil {
			continue
		}
		if kind := plain[0]; kind != markPing && kind != markPushPull && kind != markUser {
			return fmt.Errorf("no node sends messages of kind %d by stream", kind)
		}
		return nil
	}
	return errors.New("it does not know the secret")
}

// stream is a connection that ends with its carrier's streams, unless it is closed before. Read returns the head first,
// and maxStream bytes in all.
type stream struct {
	net.Conn
	c      *carrier
	unhook func() bool
	in     io.Reader // the head, and then the connection
	left   int
}

func (c *carrier) newStream(conn net.Conn, head []byte) *stream {
	unhook := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	return &stream{Conn: conn, c: c, unhook: unhook, in: io.MultiReader(bytes.NewReader(head), conn), left: maxStream}
}

func (s *stream) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, fmt.Errorf("read stream: more than %d bytes", maxStream)
	}
	n, err := s.in.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *stream) Close() error {
	s.unhook()
	return s.Conn.Close()
}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.c.bytes.Add(uint64(n))
	return n, err
}

var _ memberlist.NodeAwareTransport = (*carrier)(nil)
