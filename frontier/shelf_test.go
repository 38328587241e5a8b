package frontier

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestShelf(t *testing.T) {
	cfg, polite := testConfig()
	dir := t.TempDir()
	l := begin(t, dir, cfg, polite, Deps{})
	a, b := l.Shelf('a'), l.Shelf('b')
	if v, err := a.Get([]byte("k")); v != nil || err != nil {
		t.Errorf("absent: %q, %v", v, err)
	}
	must(t, a.Put([]byte("k"), []byte("1")))
	must(t, b.Put([]byte("k"), []byte("2")))
	must(t, a.Put([]byte("empty"), nil))
	must(t, a.Delete([]byte("never there")))
	if v, err := a.Get([]byte("empty")); v == nil || len(v) != 0 || err != nil {
		t.Errorf("empty value: %v, %v", v, err)
	}
	large := bytes.Repeat([]byte("x"), 200<<10)
	must(t, a.Batch(func(set func(k, v []byte), del func(k []byte)) {
		key, value := []byte("p/0"), []byte("0") // they are copied
		for ; value[0] < '5'; value[0], key[2] = value[0]+1, key[2]+1 {
			set(key, value)
		}
		set([]byte("large"), large)
		del([]byte("p/3"))
		del([]byte("k"))
	}))
	// Too much for one transaction changes nothing.
	if err := a.Batch(func(set func(k, v []byte), del func(k []byte)) {
		del([]byte("large"))
		for i := range 20_000 {
			set(fmt.Appendf(nil, "p/9%d", i), large[:200])
		}
	}); err == nil {
		t.Error("4 MiB of small values in one batch of a store with a memtable of 4 MiB")
	}
	check := func(l *life) {
		t.Helper()
		a, b := l.Shelf('a'), l.Shelf('b')
		var got []string
		var kept [][]byte
		must(t, a.Scan([]byte("p/"), func(k, v []byte) error {
			kept = append(kept, k, v)
			return a.Put(k, v) // a table may be changed while it is read
		}))
		if s := bytes.Join(kept, []byte(" ")); string(s) != "p/0 0 p/1 1 p/2 2 p/4 4" {
			t.Errorf("scan: %s", s)
		}
		n := 0
		must(t, a.ScanAfter(nil, func([]byte, []byte) error { n++; return nil }))
		if n != 6 {
			t.Errorf("a scan of the whole table visits %d keys", n)
		}
		for after, want := range map[string]string{"": "p/0 p/1 p/2 p/4", "p/1": "p/2 p/4", "p/3": "p/4", "p/4": ""} {
			got = nil
			must(t, a.ScanAfter([]byte(after), func(k, _ []byte) error {
				if strings.HasPrefix(string(k), "p/") {
					got = append(got, string(k))
				}
				return nil
			}))
			if s := strings.Join(got, " "); s != want {
				t.Errorf("scan after %q: %s", after, s)
			}
		}
		if v, err := b.Get([]byte("k")); string(v) != "2" || err != nil {
			t.Errorf("the other table: %q, %v", v, err)
		}
		if v, err := a.Get([]byte("large")); !bytes.Equal(v, large) || err != nil {
			t.Errorf("large value: %d bytes, %v", len(v), err)
		}
	}
	check(l)
	many := l.Shelf('c')
	must(t, many.Batch(func(set func(k, v []byte), del func(k []byte)) {
		for i := range 100 {
			set(fmt.Appendf(nil, "%02d", i), fmt.Append(nil, i))
		}
	}))
	var kept []string
	var keys, values [][]byte // what a scan gives is the caller's
	must(t, many.Scan(nil, func(k, v []byte) error {
		kept, keys, values = append(kept, string(k)+string(v)), append(keys, k), append(values, v)
		return nil
	}))
	for i := range kept {
		if now := string(keys[i]) + string(values[i]); now != kept[i] || len(kept) != 100 {
			t.Errorf("a scan of %d rows gave %q, which then became %q", len(kept), kept[i], now)
		}
	}
	stop := errors.New("enough")
	if err := a.Scan(nil, func(k, v []byte) error { return stop }); err != stop {
		t.Errorf("scan ended with %v", err)
	}
	l.stop()
	check(begin(t, dir, cfg, polite, Deps{}))
}
