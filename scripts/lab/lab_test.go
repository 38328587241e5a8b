package lab

import (
	"os"
	"os/exec"
	"path/filepath"
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

// TestProcessesOf: those in a folder are found, and not those of one whose name begins like it.
func TestProcessesOf(t *testing.T) {
	if StatusOf(os.Getpid()).VmRSS == 0 {
		t.Skip("no /proc tells of processes")
	}
	cmd := exec.Command("sleep", "600")
	cmd.Dir = filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(cmd.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if found := ProcessesOf(cmd.Dir); len(found) != 1 || found[0].Pid != p.Pid() || found[0].Cwd != cmd.Dir || found[0].Args[1] != "600" {
		t.Errorf("%+v", found)
	}
	if found := ProcessesOf(cmd.Dir[:len(cmd.Dir)-1]); len(found) > 0 {
		t.Errorf("of another folder: %+v", found)
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
