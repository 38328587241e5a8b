package peer

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"proxima/frontier/identity"
	"proxima/node/wire"
)

const (
	// maxEpoch is the largest valid epoch. Epochs grow by ones, so a larger one is wrong, and might wrap.
	maxEpoch = 1 << 62
	// maxTally bounds counts, so that sums do not wrap.
	maxTally = 1 << 52
	// maxLevel is the highest level of a backoff; rooms keep it in a byte.
	maxLevel = math.MaxUint8
	// maxPath is the length of the longest path of a URL, as in identities.
	maxPath = 8 << 10
)

// check returns what is wrong with a value.
type check func(protoreflect.Value) error

// forms holds what fields must look like beyond their protobuf type: hosts, epochs, ids, addresses, durations. This is
// the only check of form; rooms check what a message means. Fields with the same name have the same form in all
// messages.
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

// check returns an error that names the first field without its form.
func (f forms) check(m proto.Message) error {
	if at, err := f.fault(m.ProtoReflect()); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// fault returns the path of the first field without its form, and what is wrong with it.
func (f forms) fault(m protoreflect.Message) (at string, err error) {
	for _, fd := range f[m.Descriptor().FullName()] {
		name := string(fd.is.Name())
		if fd.is.IsList() {
			list := m.Get(fd.is).List()
			for i := range list.Len() {
				if at, err := f.faultOf(fd, list.Get(i)); err != nil {
					return fmt.Sprintf("%s[%d]%s", name, i, at), err
				}
			}
			continue
		}
		if fd.check == nil && !m.Has(fd.is) {
			continue // an absent message
		}
		if at, err := f.faultOf(fd, m.Get(fd.is)); err != nil {
			return name + at, err
		}
	}
	return "", nil
}

func (f forms) faultOf(fd field, v protoreflect.Value) (at string, err error) {
	if fd.check != nil {
		return "", fd.check(v)
	}
	at, err = f.fault(v.Message())
	return "." + at, err
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
