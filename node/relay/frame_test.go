package relay

import (
	"bytes"
	"testing"
)

func FuzzFrame(f *testing.F) {
	f.Add(frame{kind: framePing}.append(nil))
	f.Add(frame{kind: framePacket, id: token(), payload: []byte("words")}.append(nil))
	f.Add(frame{kind: frameCall, id: token(), payload: []byte{1}}.append(nil))
	f.Add(frame{kind: frameCheck, id: token()}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := got.append(nil); !bytes.Equal(again, b[:len(again)]) {
			t.Errorf("%x is read as %+v, which is written as %x", b, got, again)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{role: roleLink}.append(nil))
	f.Add(hello{role: roleCall, kind: Gossip, id: token()}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readHello(bytes.NewReader(b))
		if err == nil && !bytes.Equal(got.append(nil), b[:helloSize]) {
			t.Errorf("%x is read as %+v", b, got)
		}
	})
}

func FuzzKnock(f *testing.F) {
	f.Add(append([]byte(knock), make([]byte, 16)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		nonce, ok := nonceOf(b)
		if ok && !bytes.Equal(append([]byte(knock), nonce[:]...), b) {
			t.Errorf("%x has nonce %x", b, nonce)
		}
	})
}
