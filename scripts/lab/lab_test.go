package lab

import (
	"os"
	"strings"
	"testing"
)

// TestShow: one criterion that fails is enough.
func TestShow(t *testing.T) {
	var out strings.Builder
	if !Show(&out, []Verdict{{Name: "a", OK: true}}) || !strings.HasSuffix(out.String(), "\nPASS\n") {
		t.Errorf("%s", &out)
	}
	out.Reset()
	faults := make([]string, maxShown+5)
	if Show(&out, []Verdict{{Name: "a", OK: true}, {Name: "b", Faults: faults}}) || !strings.Contains(out.String(), "b: and 5 more\nFAIL\n") {
		t.Errorf("%s", &out)
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	if s := StatusOf(os.Getpid()); s.VmRSS < 1<<20 || s.VmHWM < s.VmRSS/2 || s.RssAnon < 1<<20 {
		t.Errorf("%+v", s)
	}
	if s := StatusOf(-1); s.VmRSS+s.VmHWM+s.RssAnon > 0 {
		t.Errorf("of no process: %+v", s)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want string
	}{{nil, "0"}, {[]float64{3}, "3"}, {[]float64{4, 1}, "2 [1–4]"}, {[]float64{9, 1, 5}, "5 [1–9]"}} {
		if got := Spread(c.in, "%.0f"); got != c.want {
			t.Errorf("%v: %q, not %q", c.in, got, c.want)
		}
	}
}
