package peer

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"proxima/frontier/identity"
	"proxima/node/wire"
)

const (
	// maxEpoch is the largest valid epoch. Epochs grow by ones, so a larger one is wrong, and might wrap.
	maxEpoch = 1 << 62
	// maxTally bounds counts, so that sums do not wrap.
	maxTally = 1 << 52
	// maxLevel is the highest level of a backoff, which receivers keep in a byte.
	maxLevel = math.MaxUint8
	// maxPath is the length of the longest path of a URL, as in identities.
	maxPath = 8 << 10
)

// check returns what is wrong with a value.
type check func(protoreflect.Value) error

// forms holds what fields must look like beyond their protobuf type: hosts, epochs, ids, addresses, durations. Who carries a
// message out checks what it means, and relies on its form. Fields with the same name have the same form in all messages.
type forms map[protoreflect.FullName][]field

type field struct {
	is    protoreflect.FieldDescriptor
	check check // nil for a message whose fields have forms
}

// newForms finds the fields with a form in all messages of the protocol.
func newForms() forms {
	f := forms{}
	all := wire.File_overlay_proto.Messages()
	for i := range all.Len() {
		f.add(all.Get(i))
	}
	return f
}

// add collects the fields of a message type that have a form, and reports whether there are any. No message contains
// itself.
func (f forms) add(of protoreflect.MessageDescriptor) bool {
	if fields, ok := f[of.FullName()]; ok {
		return len(fields) > 0
	}
	var fields []field
	for i := range of.Fields().Len() {
		fd := of.Fields().Get(i)
		c := formOf(fd)
		if c != nil || fd.Message() != nil && f.add(fd.Message()) {
			fields = append(fields, field{fd, c})
		}
	}
	f[of.FullName()] = fields
	return len(fields) > 0
}

// check returns an error that begins with the path of the first field without its form.
func (f forms) check(m protoreflect.Message) error {
	for _, fd := range f[m.Descriptor().FullName()] {
		switch v := m.Get(fd.is); {
		case fd.is.IsList():
			for i := range v.List().Len() {
				if err := f.checkValue(fd, v.List().Get(i)); err != nil {
					return fmt.Errorf("%s[%d]%w", fd.is.Name(), i, err)
				}
			}
		case fd.check != nil || m.Has(fd.is): // a message may be absent
			if err := f.checkValue(fd, v); err != nil {
				return fmt.Errorf("%s%w", fd.is.Name(), err)
			}
		}
	}
	return nil
}

// checkValue is check for one value of a field. Its error continues the path.
func (f forms) checkValue(fd field, v protoreflect.Value) error {
	if fd.check != nil {
		if err := fd.check(v); err != nil {
			return fmt.Errorf(": %w", err)
		}
		return nil
	}
	if err := f.check(v.Message()); err != nil {
		return fmt.Errorf(".%w", err)
	}
	return nil
}

// formOf returns the form of a field, nil if it has none.
func formOf(fd protoreflect.FieldDescriptor) check {
	name := string(fd.Name())
	switch fd.Kind() {
	case protoreflect.StringKind:
		switch name {
		case "host", "later", "contested":
			return func(v protoreflect.Value) error { return identity.CheckHost(v.String()) }
		case "home", "owner", "holder", "successor", "sender":
			return func(v protoreflect.Value) error {
				if v.String() == "" {
					return nil
				}
				return checkID(v.String())
			}
		case "path":
			return func(v protoreflect.Value) error { return checkPath(v.String()) }
		}
	case protoreflect.BytesKind:
		if name == "server" {
			return func(v protoreflect.Value) error {
				if n := len(v.Bytes()); n != 4 && n != 16 {
					return fmt.Errorf("an address of %d bytes", n)
				}
				return nil
			}
		}
	case protoreflect.Uint64Kind:
		switch name {
		case "epoch":
			return atMost(maxEpoch)
		case "count", "accepted", "done", "failed", "dropped", "drops", "granted", "given_back", "bytes", "version":
			return atMost(maxTally)
		}
	case protoreflect.Uint32Kind:
		if name == "level" {
			return atMost(maxLevel)
		}
	case protoreflect.Int64Kind:
		switch {
		case strings.HasSuffix(name, "_ms"):
			return durationOf(time.Millisecond)
		case strings.HasSuffix(name, "_us"):
			return durationOf(time.Microsecond)
		}
	}
	return nil
}

func atMost(most uint64) check {
	return func(v protoreflect.Value) error {
		if n := v.Uint(); n > most {
			return fmt.Errorf("%d is above %d", n, most)
		}
		return nil
	}
}

// durationOf refuses numbers that would overflow a time.Duration.
func durationOf(unit time.Duration) check {
	most := int64(math.MaxInt64 / unit)
	return func(v protoreflect.Value) error {
		if n := v.Int(); n > most || n < -most {
			return fmt.Errorf("%d is no duration", n)
		}
		return nil
	}
}

func checkPath(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("a path of %d bytes, more than %d", len(path), maxPath)
	}
	if path == "" || path[0] != '/' {
		return fmt.Errorf("path %.40q does not begin with a slash", path)
	}
	for i := range len(path) {
		if path[i] <= ' ' || path[i] > '~' {
			return fmt.Errorf("path %.40q has byte %#x", path, path[i])
		}
	}
	return nil
}
