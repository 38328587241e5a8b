package runlog

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const good = `{"v":1,"run":"r","node":"n","boot":1,"seq":1,"time":"2026-05-04T01:02:01.120Z","url":"http://a/"}`

func TestReader(t *testing.T) {
	cases := map[string]struct {
		text          string
		read, skipped int
	}{
		"nothing":            {"", 0, 0},
		"one":                {good + "\n", 1, 0},
		"no newline":         {good, 1, 0},
		"empty lines":        {"\n\n" + good + "\n\n", 1, 0},
		"torn at the end":    {good + "\n" + good[:50], 1, 1},
		"torn before":        {good[:50] + "\n" + good + "\n", 1, 1},
		"glued":              {good[:50] + good + "\n" + good + "\n", 1, 1},
		"not an object":      {"[1]\nnull\n7\n\"x\"\n" + good + "\n", 1, 4},
		"not of a run log":   {"{}\n{\"url\":\"x\"}\n" + good + "\n", 1, 2},
		"other type":         {`{"v":1,"url":7}` + "\n" + good + "\n", 1, 1},
		"zeros of a crash":   {strings.Repeat("\x00", 5000) + "\n" + good + "\n", 1, 1},
		"the longest line":   {`{"v":1,"x":"` + strings.Repeat("x", MaxLine-len(`{"v":1,"x":""}`)) + "\"}\n" + good + "\n", 2, 0},
		"a longer line":      {`{"v":1,"x":"` + strings.Repeat("x", MaxLine-len(`{"v":1,"x":"}`)) + "\"}\n" + good + "\n", 1, 1},
		"a long torn end":    {good + "\n" + strings.Repeat("x", 3*MaxLine), 1, 1},
		"longer than buffer": {`{"v":1,"x":"` + strings.Repeat("x", 100_000) + "\"}\n" + good, 2, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text))} {
				r := NewReader(src)
				n := 0
				var f Fetch
				for ; r.Next(&f) == nil; n++ {
				}
				if n != c.read || r.Skipped() != c.skipped {
					t.Errorf("%d read, %d skipped, want %d and %d", n, r.Skipped(), c.read, c.skipped)
				}
				if err := r.Next(&f); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}
				if d := cmp.Diff(Fetch{}, f); d != "" {
					t.Errorf("left over at the end: %s", d)
				}
			}
		})
	}
}

// An entry keeps nothing of the line before.
func TestReaderResets(t *testing.T) {
	r := NewReader(strings.NewReader(`{"v":1,"pending":7,"drops":{"a":1}}` + "\n" + `{"v":1,"drops":{"b":2}}` + "\n"))
	var q Queue
	must(t, errors.Join(r.Next(&q), r.Next(&q)))
	if d := cmp.Diff(Queue{Line: Line{V: 1}, Drops: map[string]int64{"b": 2}}, q); d != "" {
		t.Error(d)
	}
}

func TestReaderErrors(t *testing.T) {
	var f Fetch
	if err := NewReader(strings.NewReader(`{"v":2}`)).Next(&f); !errors.Is(err, ErrVersion) {
		t.Errorf("newer version: %v", err)
	}
	broken := errors.New("broken disk")
	r := NewReader(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(broken)))
	if err := r.Next(&f); err != nil || f.URL != "http://a/" {
		t.Errorf("%v, %+v", err, f)
	}
	if err := r.Next(&f); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
	if _, err := Files(t.TempDir()+"/missing", LogFetch); err == nil {
		t.Error("no error for a directory that is not there")
	}
}

// FuzzReader finds the good lines whatever stands between them.
func FuzzReader(f *testing.F) {
	f.Add([]byte(good[:40]))
	f.Add([]byte("\x00\n\n{}"))
	f.Add([]byte(`{"v":1,"time":"x"}`))
	f.Fuzz(func(t *testing.T, junk []byte) {
		if bytes.Contains(junk, []byte(`"v"`)) || bytes.Contains(bytes.ToLower(junk), []byte(`\u00`)) || bytes.Contains(junk, []byte(`"V"`)) {
			return // may be a line of its own
		}
		text := bytes.Join([][]byte{[]byte(good), junk, []byte(good), junk}, []byte("\n"))
		r := NewReader(bytes.NewReader(text))
		n := 0
		var line Fetch
		for ; r.Next(&line) == nil; n++ {
			if line.URL != "http://a/" {
				t.Fatalf("line %+v", line)
			}
		}
		lines := 0
		for _, l := range bytes.Split(junk, []byte("\n")) {
			if len(l) > 0 {
				lines++
			}
		}
		if n != 2 || r.Skipped() != 2*lines {
			t.Fatalf("%d read, %d skipped of %d", n, r.Skipped(), 2*lines)
		}
	})
}
