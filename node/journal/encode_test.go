package journal

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// standard encodes as encoding/json does without escapes for HTML.
func standard(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "ä€😀\u2028\u2029\u202a", "\xff\xc3\x28\xed\xa0\x80\ufffd", "<a>&amp;"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		if got, want := appendString(nil, s), standard(t, s); !bytes.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		n = max(4, min(n, 1<<20))
		cut := clip(s, n)
		if len(cut) > n || !strings.HasPrefix(s, cut) || len(s) > n && len(cut) < n-3 || utf8.ValidString(s) && !utf8.ValidString(cut) {
			t.Errorf("%q cut to %q", s, cut)
		}
	})
}

func FuzzMs(f *testing.F) {
	for _, ms := range []float64{0, 1, -1, 0.001, 0.0004, -0.0004, 0.0005, 12.5, 99.99, 100.1, 100.01, 1e12 + 0.5, 1e300, -1e300, math.NaN(), math.Inf(-1), 9007199254740.99} {
		f.Add(ms)
	}
	f.Fuzz(func(t *testing.T, ms float64) {
		text := appendMs(nil, ms)
		var got float64
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%g: %s: %v", ms, text, err)
		}
		switch {
		case math.IsNaN(ms) || math.IsInf(ms, 0):
			if got != 0 {
				t.Errorf("%g: %s", ms, text)
			}
		case math.Abs(ms) > 1e12:
			if math.Abs(got/ms-1) > 1e-15 {
				t.Errorf("%g: %s", ms, text)
			}
		default:
			// strconv rounds the exact binary value, we the product: they may differ by one unit where it is half way.
			want, err := strconv.ParseFloat(strconv.FormatFloat(ms, 'f', 3, 64), 64)
			if err != nil || math.Abs(got-want) > 0.00101+math.Abs(ms)*1e-15 || math.Abs(got-ms) > 0.000501+math.Abs(ms)*1e-15 {
				t.Errorf("%g: %s, want %g", ms, text, want)
			}
			if _, decimals, _ := strings.Cut(string(text), "."); len(decimals) > 3 || strings.HasSuffix(decimals, "0") {
				t.Errorf("%g: %s", ms, text)
			}
		}
	})
}

// FuzzFetch fills the struct from the fuzzer's bytes and compares the line with what encoding/json makes of it.
func FuzzFetch(f *testing.F) {
	f.Add("http://a/?q=<>&\u2028\"", "\xff\x00", int64(-1), uint64(math.MaxUint64), 12.345, true)
	f.Add("", "", int64(0), uint64(0), 0.0, false)
	f.Fuzz(func(t *testing.T, url, text string, n int64, u uint64, ms float64, fresh bool) {
		if math.IsNaN(ms) || math.Abs(ms) > 1e9 {
			ms = 0
		}
		ms = math.Round(ms*1000) / 1000
		var line Fetch
		v := reflect.ValueOf(&line).Elem()
		for i := range v.NumField() {
			switch field := v.Field(i); field.Kind() {
			case reflect.String:
				field.SetString(text)
			case reflect.Int, reflect.Int64:
				field.SetInt(n + int64(i))
			case reflect.Uint64:
				field.SetUint(u - uint64(i))
			case reflect.Float64:
				field.SetFloat(math.Round((ms+float64(i))*1000) / 1000)
			case reflect.Bool:
				field.SetBool(fresh)
			}
		}
		line.URL = url
		if len(url) > maxURL || len(text) > maxText {
			return
		}
		zero := standard(t, Line{})
		got := append(line.append(bytes.Clone(zero[:len(zero)-1])), '}')
		var ours, theirs Fetch
		if err := json.Unmarshal(got, &ours); err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		want := standard(t, line)
		if err := json.Unmarshal(want, &theirs); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(theirs, ours); d != "" {
			t.Fatal(d)
		}
		// The same keys in the same order, each once.
		if a, b := keysOf(t, got), keysOf(t, want); !cmp.Equal(a, b) {
			t.Fatal(cmp.Diff(b, a))
		}
	})
}

// keysOf lists the keys of an object of scalars.
func keysOf(t *testing.T, b []byte) (keys []string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	for i := 0; dec.More() || i == 0; i++ {
		token, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			keys = append(keys, token.(string))
		}
	}
	return keys
}

func TestLongStringsAreCut(t *testing.T) {
	f := Fetch{URL: strings.Repeat("u", maxURL+1), Reason: strings.Repeat("€", maxText), Type: strings.Repeat("\x80", 2*maxText)}
	var got Fetch
	if err := json.Unmarshal(append(f.append([]byte(`{"v":1`)), '}'), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.URL) != maxURL || got.Reason != strings.Repeat("€", maxText/3) || len(got.Type) == 0 {
		t.Errorf("%d, %d and %d bytes", len(got.URL), len(got.Reason), len(got.Type))
	}
	worst := strings.Repeat("\x00", maxURL)
	f = Fetch{URL: worst, Host: worst, Server: worst, Kind: worst, Error: worst, Reason: worst, Type: worst, Protocol: worst,
		Origin: worst, Label: worst, Home: worst}
	if n := len(f.append(nil)); n > MaxLine/2 {
		t.Errorf("the longest line has %d bytes", n)
	}
}

// No two constants of a kind are the same.
func TestKeys(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys, events := map[string]bool{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for prefix, set := range map[string]map[string]bool{"Key": keys, "Event": events} {
				if strings.HasPrefix(name.Name, prefix) {
					if set[value] {
						t.Errorf("%s: %q stands there twice", name.Name, value)
					}
					set[value] = true
				}
			}
		}
		return true
	})
	if len(events) < 10 {
		t.Errorf("found %d events only", len(events))
	}
}

func TestStampWritesTheTimeOfEachLine(t *testing.T) {
	var s stamp
	day := day.In(time.FixedZone("east", 3600))
	for _, step := range []time.Duration{0, 0, time.Nanosecond, 999_999 * time.Nanosecond, 7 * time.Millisecond, 42 * time.Millisecond,
		949 * time.Millisecond, time.Millisecond, time.Second, -time.Second, 24 * time.Hour, -1e9 * time.Second} {
		day = day.Add(step)
		if got, want := string(s.append(nil, day)), day.UTC().Format(`"2006-01-02T15:04:05.000Z"`); got != want {
			t.Errorf("%v behind the line before: %s, want %s", step, got, want)
		}
	}
	if got, want := string(new(stamp).append(nil, time.Unix(0, 0))), `"1970-01-01T00:00:00.000Z"`; got != want {
		t.Errorf("the first second: %s, want %s", got, want)
	}
}

func BenchmarkFetch(b *testing.B) {
	f := page("http://www.example.org/a/path/of/some/length?with=a&query=string")
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, 4096)
		b.ReportAllocs()
		var s stamp
		for b.Loop() {
			buf = f.append(s.append(buf[:0], day))
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		b.ReportAllocs()
		for b.Loop() {
			buf.Reset()
			if err := enc.Encode(f); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("to disk", func(b *testing.B) {
		cfg := testConfig(b.TempDir())
		cfg.LogKeep = 1
		j := open(b, cfg, meta)
		b.ReportAllocs()
		for b.Loop() {
			j.Fetch(f)
		}
	})
}
