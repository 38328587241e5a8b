package relay

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// id is a node's id, the token of a call, or a nonce.
type id [16]byte

func (i id) String() string { return hex.EncodeToString(i[:]) }

func parseID(s string) (i id, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(i) {
		return i, fmt.Errorf("%.40q is not a node's id", s)
	}
	return id(b), nil
}

// Roles: what a connection is for.
const (
	roleLink   = 1 // frames, both ways
	roleCall   = 2 // a connection to the node with the id, perhaps the one dialled
	roleAnswer = 3 // the connection that the call with this token asked for
	roleKnock  = 4 // nothing: the nonce shows that this node can be dialled
)

// Kind is the use of a carried connection.
type Kind uint8

// Kinds of connections.
const (
	Calls  Kind = 0
	Gossip Kind = 1
)

const version = 1

// hello is the first message of the dialling side.
type hello struct {
	role byte
	kind Kind
	id   id
}

const helloSize = 3 + 16

func (h hello) append(b []byte) []byte {
	return append(append(b, version, h.role, byte(h.kind)), h.id[:]...)
}

func readHello(r io.Reader) (h hello, err error) {
	var b [helloSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, fmt.Errorf("read hello: %w", err)
	}
	h = hello{role: b[1], kind: Kind(b[2]), id: id(b[3:])}
	switch {
	case b[0] != version:
		return hello{}, fmt.Errorf("read hello: unknown version %d", b[0])
	case h.role < roleLink || h.role > roleKnock || h.kind > Gossip:
		return hello{}, fmt.Errorf("read hello: unknown role %d or kind %d", h.role, h.kind)
	}
	return h, nil
}

// Types of frames.
const (
	framePing    = 1 // keeps the link alive
	framePacket  = 2 // a packet for the node with the id
	frameCarried = 3 // a packet from the node with the id for the receiver
	frameCall    = 4 // somebody wants a connection to the receiver: the id is a token, the payload the kind
	frameCheck   = 5 // asks the receiver to try to reach the sender; the id is a nonce
)

// maxPayload bounds packets. Those of the gossip have 1,400 bytes plus encryption.
const maxPayload = 2048

// frame is one message of a link.
type frame struct {
	kind    byte
	id      id
	payload []byte
}

const frameHead = 1 + 16 + 2

func (f frame) append(b []byte) []byte {
	b = append(append(b, f.kind), f.id[:]...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(f.payload))), f.payload...)
}

func readFrame(r io.Reader) (f frame, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	size := int(binary.BigEndian.Uint16(head[17:]))
	f = frame{kind: head[0], id: id(head[1:17])}
	switch {
	case f.kind < framePing || f.kind > frameCheck:
		return frame{}, fmt.Errorf("read frame: unknown type %d", f.kind)
	case size > maxPayload || size > 0 && (f.kind == framePing || f.kind == frameCheck) || f.kind == frameCall && size != 1:
		return frame{}, fmt.Errorf("read frame: %d bytes in one of type %d", size, f.kind)
	case size == 0:
		return f, nil
	}
	f.payload = make([]byte, size)
	if _, err = io.ReadFull(r, f.payload); err != nil {
		return frame{}, err
	}
	if f.kind == frameCall && Kind(f.payload[0]) > Gossip {
		return frame{}, errors.New("read frame: unknown kind of call")
	}
	return f, nil
}

// knock starts the packet, followed by a nonce, that shows that packets get through. No gossip packet of a named run,
// nor an encrypted one, starts like this.
const knock = "\xffproxima knock "

// nonceOf returns the nonce of a knock.
func nonceOf(packet []byte) (nonce id, ok bool) {
	if len(packet) != len(knock)+len(nonce) || string(packet[:len(knock)]) != knock {
		return nonce, false
	}
	return id(packet[len(knock):]), true
}
