package peer

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxParts bounds the messages and list elements in one message, twice what any configuration sends. An empty part
// takes two bytes on the wire and a hundred in memory: 8 MiB of them, compressed to 2 kB, would take 440 MB.
const maxParts = 100_000

var errParts = fmt.Errorf("it has more than %d parts", maxParts)

// codec is connect's codec for protobuf, except that it refuses messages with too many parts before it allocates them.
type codec struct{}

func (codec) Name() string { return "proto" }

func (c codec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

func (codec) MarshalAppend(b []byte, m any) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m.(proto.Message))
}

func (codec) Unmarshal(b []byte, m any) error {
	p := m.(proto.Message)
	// A short message has few parts and needs no count.
	if left := maxParts; len(b) > 2*maxParts {
		if err := count(p.ProtoReflect().Descriptor(), b, &left); err != nil {
			return fmt.Errorf("decode %T: %w", m, err)
		}
	}
	return proto.Unmarshal(b, p)
}

// count subtracts the parts of an encoded message from left, and fails when that gets negative.
func count(of protoreflect.MessageDescriptor, b []byte, left *int) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return protowire.ParseError(n)
		}
		value, b = value[:n], value[n:]
		field := of.Fields().ByNumber(number)
		if field == nil {
			continue // unknown fields stay encoded
		}
		switch message := field.Message(); {
		case message != nil && kind == protowire.BytesType:
			*left--
			inner, _ := protowire.ConsumeBytes(value)
			if err := count(message, inner, left); err != nil {
				return err
			}
		case field.IsList() && kind == protowire.BytesType && field.IsPacked():
			*left -= n // each number takes a byte at least
		case field.IsList():
			*left--
		}
		if *left < 0 {
			return errParts
		}
	}
	return nil
}
