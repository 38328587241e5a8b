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
	if m := MemoryOf(os.Getpid()); m.Resident < 1<<20 || m.Peak < m.Resident/2 || m.Anonymous < 1<<20 {
		t.Errorf("%+v", m)
	}
	if m := MemoryOf(-1); m != (Memory{}) {
		t.Errorf("of no process: %+v", m)
	}
}
