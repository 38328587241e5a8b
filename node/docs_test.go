package node_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The pages that lead through the project name files, folders and things in the code that are there.
func TestDocsNameWhatIsThere(t *testing.T) {
	all := sources(t)
	files, words := map[string]bool{"docs": true}, map[string]bool{}
	for _, s := range all {
		for p := s.path; p != "."; p = path.Dir(p) {
			files[p] = true
		}
		text := s.path + string(s.text)
		if strings.HasSuffix(s.path, ".md") {
			text = ""
		}
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return r != '_' && (r > 'z' || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		}) {
			words[word] = true
		}
	}
	for _, s := range all {
		dir := path.Dir(s.path)
		if !strings.HasSuffix(s.path, ".md") || dir != "docs" && dir != "." && !strings.HasPrefix(dir, "scripts") {
			continue
		}
		for _, link := range regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`).FindAllSubmatch(s.text, -1) {
			if to := path.Join(dir, string(link[1])); !files[to] && !regexp.MustCompile(`\.(svg|png)$`).MatchString(to) {
				t.Errorf("%s leads to %s, which is not there", s.path, to)
			}
		}
		if slices.Contains([]string{"docs/CHANGELOG.md", "docs/measurements.md", "docs/metrics.md"}, s.path) {
			continue // they name what was there, and what is put together
		}
		for _, name := range regexp.MustCompile("`(?:\\w+\\.)*([A-Za-z]\\w{2,})`").FindAllStringSubmatch(string(s.text), -1) {
			if !words[name[1]] && name[1] != strings.ToUpper(name[1]) {
				t.Errorf("%s names %s, which is not there", s.path, name[0])
			}
		}
	}
}

// The description of the log names all classes of errors, and all reasons why a host waits.
func TestLogsNameErrorsAndWaits(t *testing.T) {
	text := map[string]string{}
	for _, s := range sources(t) {
		text[s.path] = string(s.text)
	}
	for _, c := range []struct{ key, file, words string }{
		{"error", "fetch/class.go", ` Class += "(\w+)"`},
		{"waits", "frontier/status.go", `return "([a-z ]+)", `},
	} {
		line := regexp.MustCompile("(?m)^\\| `" + c.key + "` .*").FindString(text["docs/logs.md"])
		found := regexp.MustCompile(c.words).FindAllStringSubmatch(text[c.file], -1)
		if len(found) < 10 {
			t.Errorf("%s has %d words", c.file, len(found))
		}
		for _, m := range found {
			if !strings.Contains(line, m[1]) && !slices.Contains([]string{"fetching", "idle", "ready"}, m[1]) { // these do not wait
				t.Errorf("docs/logs.md: %s lacks %q", c.key, m[1])
			}
		}
	}
}
