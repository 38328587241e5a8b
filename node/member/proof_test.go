package member

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/lobby"
)

// sealed is a stream as memberlist sends it.
func sealed(t *testing.T, key []byte, label string, plain []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	must(t, err)
	gcm, err := cipher.NewGCM(block)
	must(t, err)
	auth := binary.BigEndian.AppendUint32([]byte{markEncrypted}, uint32(cryptHead+len(plain)+cryptTag))
	var b []byte
	if label != "" {
		b = append([]byte{244, byte(len(label))}, label...)
	}
	b = append(b, auth...)
	b = append(b, make([]byte, cryptHead)...)
	b[len(b)-cryptHead] = cryptVersion
	return gcm.Seal(b, make([]byte, 12), plain, append(auth, label...))
}

func TestStreamsProveThemselves(t *testing.T) {
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	ping := append([]byte{markPing}, make([]byte, 50)...)
	large := append([]byte{markPushPull}, make([]byte, 900<<10)...)
	for _, c := range []struct {
		name string
		said []byte
		err  string // "": it is a member's
	}{
		{"a ping", sealed(t, first, "run", ping), ""},
		{"a large state", sealed(t, first, "run", large), ""},
		{"a long message of a voter", sealed(t, first, "run", append([]byte{markUser}, large...)), ""},
		{"with the second key", sealed(t, second, "run", large), ""},
		{"another key", sealed(t, bytes.Repeat([]byte{3}, 32), "run", ping), "does not know the secret"},
		{"another run", sealed(t, first, "nur", ping), "another run"},
		{"no run", sealed(t, first, "", ping), "another run"},
		{"changed", append(sealed(t, first, "run", ping)[:60], make([]byte, 60)...), "does not know the secret"},
		{"a compressed message", sealed(t, first, "run", []byte{9, 1, 2, 3}), "kind 9"},
		{"a message of the dead", sealed(t, first, "run", []byte{5, 1, 2, 3}), "kind 5"},
		{"not encrypted", append([]byte("\xf4\x03run"), ping...), "not encrypted"},
		{"too large", append([]byte("\xf4\x03run\x0a"), 0, 0x10, 0, 1), "announces 1048577 bytes"},
		{"all that can be announced", append([]byte("\xf4\x03run\x0a"), 255, 255, 255, 255), "announces 4294967295"},
		{"too small", append([]byte("\xf4\x03run\x0a"), 0, 0, 0, 29), "announces 29 bytes"},
		{"cut short", sealed(t, first, "run", large)[:100<<10], "read 102400 of"},
		{"another kind of encryption", bytes.Replace(sealed(t, first, "run", ping), []byte{0, 80, cryptVersion}, []byte{0, 80, 2}, 1), "unknown version 2"},
		{"nothing", nil, "read header: EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &prover{label: "run", keys: func() [][]byte { return [][]byte{first, second} },
				lobby: lobby.New(unproven, ofMember, nil)}
			here, there := net.Pipe()
			go func() {
				_, _ = there.Write(c.said)
				_ = there.Close()
			}()
			got, err := p.prove(p.lobby.Enter(here))
			_ = here.Close()
			switch {
			case c.err == "" && (err != nil || !bytes.Equal(got, c.said)):
				t.Errorf("%d of %d bytes, %v", len(got), len(c.said), err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%v, want %q", err, c.err)
			}
			if n, taken := p.lobby.Len(); n != 0 || taken != 0 {
				t.Errorf("%d are left in the lobby, with %d places", n, taken)
			}
		})
	}
}

// A stream that says nothing for long has not proved itself.
func TestSilentStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prover{lobby: lobby.New(1, 0, nil)}
		here, _ := net.Pipe()
		begin := time.Now()
		if _, err := p.prove(p.lobby.Enter(here)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != proofTime {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// A message cannot be opened with a key that is none.
func TestKeysThatAreNone(t *testing.T) {
	p := &prover{keys: func() [][]byte { return [][]byte{{1}} }}
	if err := p.open(append([]byte{cryptVersion}, make([]byte, 40)...), nil); err == nil || !strings.Contains(err.Error(), "use key") {
		t.Error(err)
	}
}

// A stream that has not proved itself takes a place for each begun 64 KiB that it has said, not for what it announces.
func TestUnprovenStreamsTakePlacesAsTheySpeak(t *testing.T) {
	if unproven != 128 || placeSize != 64<<10 {
		t.Errorf("%d places of %d bytes", unproven, placeSize)
	}
	for _, c := range []struct{ announced, said, places int }{
		{1, 1, 1},
		{placeSize, placeSize, 1},
		{placeSize + 1, placeSize + 1, 2},
		{2 * placeSize, 2 * placeSize, 2},
		{5*placeSize + 1, 5*placeSize + 1, 6},
		{maxStream, maxStream, maxStream / placeSize},
		{maxStream, 0, 1},
		{maxStream, placeSize - 1, 1},
		{maxStream, 3 * placeSize, 4},
	} {
		l := lobby.New(unproven, unproven, nil)
		here, there := net.Pipe()
		go func() {
			_, _ = there.Write(make([]byte, c.said))
			_ = there.Close()
		}()
		got, err := grow(l.Enter(here), nil, c.announced)
		if _, taken := l.Len(); taken != c.places || len(got) != c.said && c.said == c.announced || (err == nil) != (c.said == c.announced) {
			t.Errorf("%d of %d bytes took %d places, want %d: %v", c.said, c.announced, taken, c.places, err)
		}
		_ = here.Close()
	}
}

// The largest state of the largest overlay fits into a stream: 150 bytes are more than msgpack needs for the names of the
// fields, the address, the life and the versions of a member.
func TestTheLargestStateFits(t *testing.T) {
	s := state{sender: nodeID(1), boot: math.MaxUint64, age: maxAge}
	for i := range maxEntries {
		s.members = append(s.members, entry{id: fmt.Sprintf("%032x", i), boot: math.MaxUint64, since: maxAge})
	}
	size := len(encode(nil, s)) + maxEntries*(memberlist.MetaMaxSize+idLen+150)
	if size > maxStream {
		t.Errorf("%d bytes, more than %d", size, maxStream)
	}
}
