// Package golden plays scenarios of text files in tests, and compares what happens with what the files say.
//
// A file is a row of blocks. A block is some steps, one a line, then "----", then what is printed when they are played, up
// to an empty line. Lines that begin with "#" are for the reader.
package golden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// divider stands between the steps of a block and what they print.
const divider = "----"

// Play plays each file that a pattern names as a test of its own. play gets the steps of all blocks and returns what each
// block prints. With update the files are written anew instead of compared.
func Play(t *testing.T, pattern string, update bool, play func(t *testing.T, blocks [][]string) (printed []string)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios at %s: %v", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			heads, wanted := split(string(text))
			blocks := make([][]string, len(heads))
			for i, head := range heads {
				blocks[i] = steps(head)
			}
			printed := play(t, blocks)
			var out strings.Builder
			for i, head := range heads {
				if got := strings.TrimSpace(printed[i]); got != wanted[i] && !update {
					t.Errorf("after\n%s\nwas printed\n%s\nnot\n%s", strings.Join(blocks[i], "\n"), got, wanted[i])
				}
				if out.WriteString(head + divider + "\n" + strings.TrimSpace(printed[i]) + "\n"); i+1 < len(heads) {
					out.WriteString("\n")
				}
			}
			if update && !t.Failed() {
				if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// split cuts a file into what stands before each divider, and what is wanted after it.
func split(text string) (heads, wanted []string) {
	for text = strings.TrimSpace(text) + "\n"; strings.Contains(text, divider+"\n"); {
		head, rest, _ := strings.Cut(text, divider+"\n")
		want, next, _ := strings.Cut("\n"+rest, "\n\n") // what is wanted may be nothing
		heads, wanted = append(heads, strings.TrimLeft(head, "\n")), append(wanted, strings.TrimSpace(want))
		text = next
	}
	return heads, wanted
}

// steps are the lines of a head that are none for the reader.
func steps(head string) []string {
	lines := strings.Split(head, "\n")
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") })
}
