package text

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTwoVersions compares what fingerprints say of real pages with what a plain comparison says, for two folders with the same
// pages at two times, such as the documentation of two releases:
//
//	PAGES_BEFORE=DIR PAGES_AFTER=DIR go test -run TwoVersions -v ./fetch/text
func TestTwoVersions(t *testing.T) {
	before, after := os.Getenv("PAGES_BEFORE"), os.Getenv("PAGES_AFTER")
	if before == "" || after == "" {
		t.Skip("PAGES_BEFORE and PAGES_AFTER name no folders")
	}
	var pages, differ, changed, missed, alarms, size int
	var took time.Duration
	err := fs.WalkDir(os.DirFS(before), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		a, err := os.ReadFile(before + "/" + name)
		b, gone := os.ReadFile(after + "/" + name)
		if err != nil || gone != nil {
			return err
		}
		start := time.Now()
		x, y := Extract(a, "utf-8", false), Extract(b, "utf-8", false)
		took += time.Since(start)
		pages, size = pages+2, size+len(a)+len(b)
		if string(a) != string(b) {
			differ++
		}
		seen, plain := y.Fingerprint.Changed(x.Fingerprint), plainText(a) != plainText(b)
		switch {
		case seen && plain:
			changed++
		case plain:
			missed++
			t.Logf("only the plain comparison sees a change: %s", name)
		case seen:
			alarms++
			t.Logf("only the fingerprint sees a change: %s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages twice, %d MB, %v a page; %d differ in a byte, %d in their text by both; %d by the plain comparison alone, %d by the fingerprint alone",
		pages/2, size>>20, took/time.Duration(max(pages, 1)), differ, changed, missed, alarms)
}

// plainText is the text between tags from the main element on, with all numbers alike.
func plainText(page []byte) string {
	text := string(page)
	if i := strings.Index(text, "<main"); i >= 0 {
		text = text[i:]
	}
	text = regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>|<[^>]*>`).ReplaceAllString(text, " ")
	return regexp.MustCompile(`[0-9]+`).ReplaceAllString(strings.Join(strings.Fields(text), " "), "0")
}
