package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgressTakesOneRow: a terminal erases its row and cuts the progress line off, and wraps what is said afterwards.
func TestProgressTakesOneRow(t *testing.T) {
	var out strings.Builder
	p := New(&out)
	p.terminal = true
	p.Renew(func() string { p.Say("zero"); return "one" })
	p.Say("two")
	if want := "\r\x1b[Kzero\n\r\x1b[K\x1b[?7lone\x1b[?7h\r\x1b[Ktwo\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestProgressWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := New(&out)
		p.Prefix = "set 1: "
		for range 25 {
			time.Sleep(time.Second)
			p.Renew(func() string { return "so far" })
		}
		p.Say("the %s", "end")
		if want := "set 1: so far\nset 1: so far\nset 1: the end\n"; out.String() != want {
			t.Errorf("%q, want %q", &out, want)
		}
	})
}
