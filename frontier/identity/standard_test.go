package identity

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStandard runs the web platform's own cases, which the parser's module carries: what the standard refuses must be
// refused, and what it takes must be taken alike or refused for a reason of ours.
func TestStandard(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nlnwa/whatwg-url").Output()
	if err != nil {
		t.Skipf("cannot find the module of the parser: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "urltestdata.json"))
	if err != nil {
		t.Skipf("the module of the parser has no cases: %v", err)
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(data, &lines); err != nil {
		t.Fatal(err)
	}
	ran, accepted := 0, 0
	for _, line := range lines {
		var c struct {
			Input, Base, Href, Search, Hash string
			Failure                         bool
		}
		// Lines of text are comments.
		if json.Unmarshal(line, &c) != nil {
			continue
		}
		var base URL
		if c.Base != "" {
			if base, err = Parse(c.Base); err != nil {
				// Not a page that we could be on.
				continue
			}
		}
		ran++
		u, reason := resolve(base, c.Input)
		if reason == Accepted {
			accepted++
			checkIdentity(t, u)
		}
		want := strings.TrimSuffix(strings.TrimSuffix(c.Href, c.Hash), "#")
		if c.Search == "" {
			want = strings.TrimSuffix(want, "?")
		}
		switch {
		case c.Failure && reason == Accepted:
			t.Errorf("%q on %q is %s, should be refused", c.Input, c.Base, u)
		case !c.Failure && reason == Malformed:
			t.Errorf("%q on %q is malformed, should be %s", c.Input, c.Base, want)
		// The dot after a name, which we drop, is the first before a slash.
		case reason == Accepted && u.String() != want && u.String() != strings.Replace(want, "./", "/", 1):
			t.Errorf("%q on %q is %s, should be %s", c.Input, c.Base, u, want)
		}
	}
	if ran < 300 || accepted < 100 {
		t.Errorf("only %d cases ran, %d of them accepted", ran, accepted)
	}
	t.Logf("%d cases, %d accepted", ran, accepted)
}
