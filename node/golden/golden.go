// Package golden plays scenarios from text files in tests, and compares the results with the files.
//
// A file is a sequence of blocks. A block is some steps, one per line, then "----", then what they print, up to an
// empty line. Lines that begin with "#" are comments.
package golden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// divider separates the steps of a block from what they print.
const divider = "----"

// Play plays each file that matches a pattern as a subtest. play gets the steps of all blocks and returns what each
// block prints. Where chance chooses what is printed, it may look at what each block is to print, to know when everything
// has come. With update, Play rewrites the files instead of comparing.
func Play(t *testing.T, pattern string, update bool, play func(t *testing.T, blocks [][]string, wanted []string) (printed []string)) {
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
			printed := play(t, blocks, wanted)
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

// split returns what stands before each divider, and the wanted output after it.
func split(text string) (heads, wanted []string) {
	for text = strings.TrimSpace(text) + "\n"; strings.Contains(text, divider+"\n"); {
		head, rest, _ := strings.Cut(text, divider+"\n")
		want, next, _ := strings.Cut("\n"+rest, "\n\n") // the wanted output may be empty
		heads, wanted = append(heads, strings.TrimLeft(head, "\n")), append(wanted, strings.TrimSpace(want))
		text = next
	}
	return heads, wanted
}

// steps returns the lines of a head without comments and empty lines.
func steps(head string) []string {
	lines := strings.Split(head, "\n")
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") })
}
