package runlog

import (
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzClip(f *testing.F) {
	for _, s := range []string{"", "plain", "ä€😀\u2028\u2029\u202a", "\xff\xc3\x28\xed\xa0\x80\ufffd"} {
		f.Add(s, 3)
		f.Add(s, 8) // in a character of four bytes
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(4, min(n, 1<<20))
		cut := clip(s, n)
		if len(cut) > n || !strings.HasPrefix(s, cut) || len(s) > n && len(cut) < n-3 || utf8.ValidString(s) && !utf8.ValidString(cut) {
			t.Errorf("%q cut to %q", s, cut)
		}
	})
}

// bounded is the slow version of what Fetch.pairs does beside encoding.
func bounded(f Fetch) Fetch {
	url := clip(f.URL, maxURL)
	fields := reflect.ValueOf(&f).Elem()
	for i := range fields.NumField() {
		switch v := fields.Field(i); v.Kind() {
		case reflect.String:
			v.SetString(clip(v.String(), maxText))
		case reflect.Float64:
			ms := math.Round(v.Float()*1000) / 1000
			if math.IsNaN(ms) || math.IsInf(ms, 0) {
				ms = 0
			}
			v.SetFloat(ms)
		}
	}
	f.URL = url
	return f
}

// A fetch line reads as if encoding/json had written it.
func FuzzFetchLine(f *testing.F) {
	long := strings.Repeat("\x00", maxURL+1)
	f.Add("http://example.org/", "refused", 12.5, int64(200), true)
	f.Add("ä€😀\u2028\u2029\u202a\x7f<&>\"\\\t", "\xff\xc3\x28\xed\xa0\x80\ufffd", 0.0005, int64(math.MinInt64), false)
	f.Add(long, long, math.NaN(), int64(math.MaxInt64), true)
	f.Add("", "", math.Copysign(0, -1), int64(0), false)
	f.Add("", "", -99999.99, int64(0), false)
	f.Add("", strings.Repeat("€", maxText), 0.0004, int64(0), false)
	f.Add(strings.Repeat("ä", maxURL), strings.Repeat("\x80", 2*maxText), 1e12+0.5, int64(0), false)
	f.Fuzz(func(t *testing.T, url, text string, ms float64, n int64, flag bool) {
		if math.Abs(ms) > 1e18 { // encoding/json writes an exponent there
			ms = math.Inf(1)
		}
		line := Fetch{}
		fields := reflect.ValueOf(&line).Elem()
		for i := 1; i < fields.NumField(); i++ {
			switch v := fields.Field(i); v.Kind() {
			case reflect.String:
				v.SetString(text)
			case reflect.Float64:
				v.SetFloat(ms)
			case reflect.Bool:
				v.SetBool(flag)
			case reflect.Uint64:
				v.SetUint(uint64(n))
			default:
				v.SetInt(n)
			}
		}
		line.URL = url
		slow := bounded(line)
		want, err := pairs(&slow)
		got := line.pairs(nil)
		if err != nil || strings.ReplaceAll(string(want), ":-0,", ":0,") != string(got) {
			t.Errorf("%s\nbut encoding/json, %v:\n%s", got, err, want)
		}
	})
}

func TestTheLongestLineFits(t *testing.T) {
	worst := strings.Repeat("\x00", maxURL)
	line := Fetch{URL: worst, Host: worst, Server: worst, Kind: worst, Error: worst, Reason: worst, Type: worst, Protocol: worst,
		Origin: worst, Label: worst, Home: worst}
	if text := line.pairs(nil); len(text) > MaxLine/2 {
		t.Errorf("the longest line has %d bytes", len(text))
	}
}

// No two constants of a kind are the same.
func TestKeys(t *testing.T) {
	source, err := os.ReadFile("keys.go")
	must(t, err)
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Key|Event)\w+ += ("[^"]+")`).FindAllStringSubmatch(string(source), -1) {
		kind := m[1] + " " + m[2]
		if seen[kind] {
			t.Errorf("%s stands there twice", kind)
		}
		seen[kind] = true
	}
	if len(seen) < 40 {
		t.Errorf("found %d only", len(seen))
	}
}

func BenchmarkFetch(b *testing.B) {
	cfg := testConfig(b.TempDir())
	cfg.LogKeep = 1
	j, f := open(b, cfg, meta), page("http://www.example.org/a/path/of/some/length?with=a&query=string")
	b.ReportAllocs()
	for b.Loop() {
		j.Fetch(f)
	}
}

// What it saves to append plain values instead of calling encoding/json.
func BenchmarkEncode(b *testing.B) {
	f := page("http://www.example.org/a/path/of/some/length?with=a&query=string")
	b.Run("append", func(b *testing.B) {
		var room [1 << 10]byte
		for b.Loop() {
			f.pairs(room[:0])
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			line := bounded(*f)
			if _, err := pairs(&line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
