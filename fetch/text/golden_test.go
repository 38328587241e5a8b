package text

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	play "proxima/node/golden"
)

var update = flag.Bool("update", false, "write the scenarios of testdata/golden anew")

// TestGolden reads the pages of testdata/golden. Before each divider stands a page, after it what Extract finds. Nodes keep
// fingerprints on disk: if the fingerprint of the same text changed, every page would count as changed.
//
//	go test -run Golden ./fetch/text -update
func TestGolden(t *testing.T) {
	play.Play(t, "testdata/golden/*.txt", *update, func(_ *testing.T, pages [][]string) (printed []string) {
		for _, lines := range pages {
			d := Extract([]byte(strings.Join(lines, "\n")), "utf-8", false)
			printed = append(printed, fmt.Sprintf("title %q, language %q, %d words, fingerprint %016x %016x\n%s", d.Title,
				d.Language, d.Words, d.Fingerprint.Digest, d.Fingerprint.Simhash, d.Text))
		}
		return printed
	})
}

func TestOfBytes(t *testing.T) {
	if f := OfBytes([]byte("a")); f.Digest == 0 || f.Simhash == 0 || notZero(0) != 1 || notZero(7) != 7 {
		t.Errorf("%+v", f)
	}
}

// TestClean cuts long texts between characters.
func TestClean(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{" a  b ", 3, "a b"}, {"abcd", 3, "abc"}, {"ééé", 4, "éé"}, {"ééé", 5, "éé"}, {"ééé", 1, ""}, {"a\xff", 9, "a\ufffd"}, {strings.Repeat(" ", 7) + "ab", 2, "a"}} {
		if got := clean([]byte(c.text), c.most); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
