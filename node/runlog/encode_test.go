package runlog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzClip(f *testing.F) {
	for _, s := range []string{"", "plain", "ä€😀\u2028\u2029\u202a", "\xff\xc3\x28\xed\xa0\x80\ufffd"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(4, min(n, 1<<20))
		cut := clip(s, n)
		if len(cut) > n || !strings.HasPrefix(s, cut) || len(s) > n && len(cut) < n-3 || utf8.ValidString(s) && !utf8.ValidString(cut) {
			t.Errorf("%q cut to %q", s, cut)
		}
	})
}

// Durations have three decimals at most, and are always numbers.
func TestDurationsAreRounded(t *testing.T) {
	for ms, want := range map[float64]string{0: "0", -1: "-1", 0.001: "0.001", 0.0004: "0", 0.0005: "0.001", 12.5: "12.5", 99.99: "99.99",
		100.01: "100.01", 1e12 + 0.5: "1000000000000.5", math.NaN(): "0", math.Inf(-1): "0", math.Copysign(0, -1): "0", -0.0004: "0", math.MaxFloat64: "0"} {
		line := Fetch{TotalMs: ms}.bounded()
		text, err := pairs(&line)
		if err != nil || !strings.Contains(string(text), `"total_ms":`+want+`,`) {
			t.Errorf("%g: %s, %v", ms, text, err)
		}
	}
}

func TestLongStringsAreCut(t *testing.T) {
	got := Fetch{URL: strings.Repeat("u", maxURL+1), Reason: strings.Repeat("€", maxText), Type: strings.Repeat("\x80", 2*maxText)}.bounded()
	if len(got.URL) != maxURL || got.Reason != strings.Repeat("€", maxText/3) || len(got.Type) == 0 {
		t.Errorf("%d, %d and %d bytes", len(got.URL), len(got.Reason), len(got.Type))
	}
	worst := strings.Repeat("\x00", maxURL)
	got = Fetch{URL: worst, Host: worst, Server: worst, Kind: worst, Error: worst, Reason: worst, Type: worst, Protocol: worst,
		Origin: worst, Label: worst, Home: worst}.bounded()
	if text, err := pairs(&got); err != nil || len(text) > MaxLine/2 {
		t.Errorf("the longest line has %d bytes, %v", len(text), err)
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

func BenchmarkFetch(b *testing.B) {
	cfg := testConfig(b.TempDir())
	cfg.LogKeep = 1
	j, f := open(b, cfg, meta), page("http://www.example.org/a/path/of/some/length?with=a&query=string")
	b.ReportAllocs()
	for b.Loop() {
		j.Fetch(f)
	}
}
