package robots_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"proxima/fetch/robots"
	"proxima/scripts/measured"
)

// corpusField is a field of the corpus, which is text of protocol buffers: a name, and strings that belong together or a word.
var corpusField = regexp.MustCompile(`(?m)^ *(\w+): *(".*"(?:\n *".*")*|[A-Z]+)$`)

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(measured.File(t, "robots"), "*.textproto"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("the folder of measured data has no *.textproto in robots")
	}
	met, named := 0, 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		named += strings.Count(string(text), "expected_outcome:")
		last := map[string]string{} // by name; the outcome comes behind what it is of
		for _, m := range corpusField.FindAllStringSubmatch(string(text), -1) {
			last[m[1]] = ""
			for part := range strings.Lines(m[2]) {
				if part = strings.TrimSpace(part); part[0] == '"' {
					if part, err = strconv.Unquote(part); err != nil {
						t.Fatalf("parse %s: %v", name, err)
					}
				}
				last[m[1]] += part
			}
			if m[1] != "expected_outcome" {
				continue
			}
			url, agent, want := last["testurl"], last["useragent"], last["expected_outcome"] == "ALLOWED"
			if got := robots.Parse([]byte(last["robotstxt"]), agent).Allowed(pathOf(url)); got != want {
				t.Errorf("%s: Allowed(%q) for %q = %v\n%s", filepath.Base(name), url, agent, got, last["robotstxt"])
				continue
			}
			met++
		}
	}
	if t.Logf("%d files: %d expectations met", len(files), met); met != named || met == 0 {
		t.Errorf("%d expectations in the corpus", named)
	}
}

// pathOf cuts scheme and authority off a URL and changes nothing else.
func pathOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			return rest[i:]
		}
		return ""
	}
	return url
}
