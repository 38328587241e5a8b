package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
)

func examplePlace() place {
	return place{rev: 300, coord: ncoord.Coordinate{Vec: [4]float64{1, -2, 3.5, 0}, Height: 4, Error: 0.25},
		factors: assign.Factors{LoadMs: 12, LoadError: 0.5, BytesPerMs: 1000, BytesError: 0.25, Samples: 17}}
}

func exampleMeta() meta {
	return meta{boot: 1 << 40, settled: true, over: true, addr: "node.example.org:7947",
		location: &ncoord.Location{Lat: 51.5, Lon: -0.125}, placed: true, place: examplePlace(), stamp: math.MaxUint64,
		way: view.Way{Reach: view.Outbound, Relays: []string{strings.Repeat("0a", 16), strings.Repeat("1b", 16), strings.Repeat("2c", 16)}}}
}

func exampleState() state {
	return state{sender: strings.Repeat("ab", 16), boot: 3, nonce: math.MaxUint64, age: time.Hour, set: voters{
		origin{1 << 40, 2, strings.Repeat("cd", 16)}, 7, nil}, members: []entry{
		{id: strings.Repeat("00", 16), boot: 1, phase: dead, settled: true, voter: true, since: 1500 * time.Millisecond},
		{id: strings.Repeat("ab", 16), boot: 3, voter: true, since: time.Hour},
		{id: strings.Repeat("ff", 16), phase: left, voter: true, gave: true, over: true},
	}}
}

var unexported = cmp.AllowUnexported(meta{}, place{}, ack{}, state{}, entry{}, voters{}, origin{}, ballot{}, proposal{}, message{}, kept{})

func exampleMessage() message {
	ids := []string{strings.Repeat("00", 16), strings.Repeat("ab", 16)}
	return message{kind: messagePromise, from: ids[1], set: voters{origin{1 << 40, 2, ids[0]}, 7, nil}, ballot: ballot{3, ids[0]},
		accepted: proposal{ballot{1, ids[1]}, ids}, renounced: true}
}

func exampleKept() kept {
	l := exampleMessage()
	return kept{set: voters{l.set.origin, 7, l.accepted.ids}, promised: l.ballot, accepted: l.accepted, renounced: true,
		addrs: []string{"10.0.0.1:7", ""}}
}

// comeBack checks that values are read as they were written, whole only, and of one version only.
func comeBack[T any, P coded[T]](t *testing.T, version byte, values ...T) {
	t.Helper()
	for _, want := range values {
		b := encode[T, P](nil, want)
		got, err := decode[T, P](b, "it")
		if d := cmp.Diff(want, got, unexported); d != "" || err != nil {
			t.Errorf("%T: %s%v", want, d, err)
		}
		for n := range b {
			if _, err := decode[T, P](b[:n], "it"); err == nil {
				t.Errorf("%T cut at %d of %d was read", want, n, len(b))
			}
		}
		if b[0] != version {
			t.Errorf("%T begins with %d, not with version %d", want, b[0], version)
		}
		for _, other := range []byte{version - 1, version + 1} {
			b[0] = other
			if _, err := decode[T, P](b, "it"); err == nil {
				t.Errorf("%T of version %d was read", want, other)
			}
		}
	}
}

func TestFormatsComeBack(t *testing.T) {
	longest := exampleMeta()
	longest.boot, longest.place.rev, longest.addr = math.MaxUint64, math.MaxUint64, strings.Repeat("a", 253)+":65535"
	comeBack(t, metaVersion, exampleMeta(), meta{addr: "[::1]:1"}, meta{addr: "a:1", way: view.Way{Reach: view.Streams}}, longest)
	if n := len(encode(nil, longest)); n > memberlist.MetaMaxSize {
		t.Errorf("the longest meta has %d bytes", n)
	}
	answer := ack{boot: 7, coord: ncoord.Coordinate{Height: 1, Error: 1}, place: examplePlace()}
	comeBack(t, ackVersion, answer)
	if n := len(encode(nil, answer)); n > 96 {
		t.Errorf("an answer to a ping has %d bytes", n)
	}
	comeBack(t, stateVersion, exampleState())
	decided := exampleMessage()
	decided.kind, decided.set.ids = messageDecided, decided.accepted.ids
	comeBack(t, messageVersion, exampleMessage(), decided, message{from: decided.from})
	decided.set.ids = []string{decided.from, decided.from}
	if _, err := decode[message](encode(nil, decided), "message"); err == nil {
		t.Error("a message with a voter twice was read")
	}
	comeBack(t, keptVersion, exampleKept(), kept{addrs: []string{}})
}

// Nodes of one version read what others wrote: bytes that change need a new version.
func TestFormatsStay(t *testing.T) {
	self, others := exampleMeta(), exampleState()
	self.stamp, others.nonce = 1, 2
	for _, c := range []struct {
		what    string
		b       []byte
		version byte
		sum     string
	}{
		{"meta", encode(nil, self), 5, "6d7baec9d2133ef3"},
		{"ack", encode(nil, ack{boot: 7, coord: ncoord.Coordinate{Height: 1, Error: 1}, place: examplePlace()}), 1, "092d79438120f86a"},
		{"state", encode(nil, others), 2, "2051049271b43602"},
		{"message", encode(nil, exampleMessage()), 2, "b6ca2cfadcd3b6b4"},
		{"kept", encode(nil, exampleKept()), 1, "dea5f93ff7f9e158"},
	} {
		if sum := fmt.Sprintf("%x", sha256.Sum256(c.b))[:16]; c.b[0] != c.version || sum != c.sum {
			t.Errorf("version %d of %s is %s, and was %s in version %d", c.b[0], c.what, sum, c.sum, c.version)
		}
	}
}

func TestDecodersRefuse(t *testing.T) {
	with := func(change func(*meta)) []byte {
		m := exampleMeta()
		change(&m)
		return encode(nil, m)
	}
	whole := encode(nil, exampleMeta())
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"an unknown flag":  append([]byte{metaVersion, whole[1] | 0x40}, whole[2:]...),
		"the last flag":    append([]byte{metaVersion, whole[1] | 0x80}, whole[2:]...),
		"a byte too many":  append(bytes.Clone(whole), 0),
		"too long":         bytes.Repeat([]byte{1}, 600),
		"no machine":       with(func(m *meta) { m.addr = "0.0.0.0:1" }),
		"long addr":        with(func(m *meta) { m.addr = strings.Repeat("a", 300) + ":1" }),
		"off Earth":        with(func(m *meta) { m.location.Lat = 91 }),
		"NaN on Earth":     with(func(m *meta) { m.location.Lon = math.NaN() }),
		"wild coordinate":  with(func(m *meta) { m.place.coord.Vec[0] = math.Inf(1) }),
		"negative error":   with(func(m *meta) { m.place.coord.Error = -1 }),
		"negative factors": with(func(m *meta) { m.place.factors.LoadMs = -1 }),
		"a relay too many": with(func(m *meta) { m.way.Relays = append(m.way.Relays, strings.Repeat("3d", 16)) }),
		"two ways":         append([]byte{metaVersion, 1<<4 | 1<<5}, encode(nil, meta{addr: "a:1"})[2:]...),
	} {
		if _, err := readMeta(b, true); err == nil {
			t.Errorf("meta with %s was read", name)
		}
	}
	s := exampleState()
	s.members[0], s.members[1] = s.members[1], s.members[0]
	if _, err := decode[state](encode(nil, s), "state"); err == nil {
		t.Error("a state out of order was read")
	}
	for _, c := range []struct {
		age time.Duration
		ids []string
		ok  bool
	}{{maxAge, nil, true}, {maxAge + time.Millisecond, nil, true}, {-time.Second, nil, true}, {0, []string{s.sender}, false}} {
		s := exampleState()
		s.age, s.set.ids = c.age, c.ids
		if got, err := decode[state](encode(nil, s), "state"); (err == nil) != c.ok || c.ok && got.age != max(0, min(c.age, maxAge)) {
			t.Errorf("a state of age %v with voters %v is read as of age %v, %v", c.age, c.ids, got.age, err)
		}
	}
	s = exampleState()
	s.age = maxAge
	age := func(ms time.Duration) []byte { return binary.AppendUvarint(nil, uint64(ms)) }
	older := bytes.Replace(encode(nil, s), age(maxAge/time.Millisecond), age(maxAge/time.Millisecond+1), 1)
	if _, err := decode[state](older, "state"); err == nil || !strings.Contains(err.Error(), "ms, more than") {
		t.Errorf("a state that is too old: %v", err)
	}
	answer := encode(nil, ack{place: examplePlace()})
	whole = append([]byte{ackVersion, 0, 0}, answer[3+answer[2]:]...)
	if _, err := decode[ack](whole, "ack"); err == nil {
		t.Error("an answer to a ping without a coordinate was read")
	}
	for kind, ok := range map[int]bool{messageKinds - 1: true, messageKinds: false} {
		if _, err := decode[message](encode(nil, message{kind: kind, from: s.sender}), "message"); (err == nil) != ok {
			t.Errorf("a message of kind %d: %v", kind, err)
		}
	}
	both := encode(nil, exampleState())
	both[len(both)-3] |= 3
	if _, err := decode[state](both, "state"); err == nil {
		t.Error("a state with an unknown phase was read")
	}
	for n, ok := range map[int]bool{maxEntries: true, maxEntries + 1: false} {
		s := state{sender: nodeID(1)}
		for i := range n {
			s.members = append(s.members, entry{id: nodeID(i)})
		}
		if _, err := decode[state](encode(nil, s), "state"); (err == nil) != ok {
			t.Errorf("a state with %d members: %v", n, err)
		}
	}
	long := encode(nil, message{from: s.sender}) // it ends with the number of ids, 0
	if _, err := decode[message](append(long[:len(long)-1], 0x80, 0), "message"); err == nil {
		t.Error("a number with a digit too many was read")
	}
	// A count that promises more than there is must not be believed.
	short := encode(nil, state{sender: strings.Repeat("ab", 16)})
	short = append(short[:len(short)-1], 0xff, 0x7f)
	if _, err := decode[state](short, "state"); err == nil {
		t.Error("a state without its members was read")
	}
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		strings.Repeat("09af", 8): true, strings.Repeat("a", 31): false, strings.Repeat("a", 33): false,
		strings.Repeat("a", 31) + "/": false, strings.Repeat("a", 31) + ":": false, strings.Repeat("a", 31) + "`": false,
		strings.Repeat("a", 31) + "g": false,
	} {
		if validID(id) != want {
			t.Errorf("%q is an id: %v", id, !want)
		}
	}
}

// fuzz decodes what may be damaged or made up. What is read means the same when it is written and read again, and bear checks that it does no
// harm.
func fuzz[T any, P coded[T]](f *testing.F, bear func(t *testing.T, v T, b []byte), seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode[T, P](b, "it")
		if err != nil {
			return
		}
		again, err := decode[T, P](encode[T, P](nil, v), "it")
		if d := cmp.Diff(v, again, unexported); d != "" || err != nil {
			t.Error(d, err)
		}
		bear(t, v, b)
	})
}

// FuzzKept reads what a node kept of its votes, from its disk.
func FuzzKept(f *testing.F) {
	fuzz(f, func(*testing.T, kept, []byte) {},
		encode(nil, exampleKept()), encode(nil, kept{}), []byte{}, []byte{keptVersion}, []byte{keptVersion + 1, 0})
}

func FuzzMessage(f *testing.F) {
	fuzz(f, func(_ *testing.T, m message, _ []byte) {
		now := time.Unix(1_000_000, 0)
		table := newTable(Default(), nodeID(0), 1, false, now)
		table.read(m, now)
		table.update(now)
		table.decide(now.Add(time.Hour), 0)
	}, encode(nil, exampleMessage()))
}

func FuzzMeta(f *testing.F) {
	fuzz(f, func(t *testing.T, m meta, b []byte) {
		if m.placed && m.place.coord.Check() != nil {
			t.Errorf("read %+v", m)
		}
		if _, err := readMeta(b, true); (err == nil) != (checkAddr(m.addr, true) == nil) {
			t.Errorf("at %s: %v", m.addr, err)
		}
	}, encode(nil, exampleMeta()), encode(nil, meta{addr: "a:1"}))
}

func FuzzAck(f *testing.F) {
	fuzz(f, func(t *testing.T, a ack, _ []byte) {
		if a.coord.Check() != nil || a.place.coord.Check() != nil || a.place.factors.Check() != nil {
			t.Errorf("read %+v", a)
		}
	}, encode(nil, ack{boot: 1, coord: ncoord.Coordinate{Error: 1}, place: examplePlace()}))
}

func FuzzState(f *testing.F) {
	fuzz(f, func(t *testing.T, s state, b []byte) {
		if again := encode(nil, s); !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
		now := time.Unix(1_000_000, 0)
		table := newTable(Default(), nodeID(0), 1, false, now)
		table.merge(s, now)
		table.update(now)
		table.update(now.Add(time.Hour))
		if len(table.settled) == 0 || !table.majority && table.whyMinority(now) == "" {
			t.Errorf("settled %v, majority %v %q", table.settled, table.majority, table.whyMinority(now))
		}
	}, encode(nil, exampleState()))
}
