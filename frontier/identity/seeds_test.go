package identity

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadSeeds(t *testing.T) {
	list := "\uFEFFexample.org\n" +
		"# a comment\n" +
		"  \t \n" +
		"https://www.example.org/a?b#fragment # and why\r\n" +
		"localhost:8080/x\n" +
		"//example.com/\n" +
		"/no/host\n" +
		"mailto:someone@example.org\n" +
		"ftp://example.org/\n" +
		strings.Repeat("x", 3*maxSeedLine) + "\n" +
		"#" + strings.Repeat("x", 3*maxSeedLine) + "\n" +
		"example.org/?u=http://example.com/\n" +
		"http://example.org/a http://example.org/b\n" +
		"example.org/c\tsome words\n" +
		"example.org/d\rexample.org/e\r\n" +
		"münchen.de"
	// Reads of one byte must not matter.
	seeds, err := ReadSeeds(iotest.OneByteReader(strings.NewReader(list)))
	if err != nil {
		t.Fatal(err)
	}
	want := "[http://example.org/ https://www.example.org/a?b http://localhost:8080/x http://example.com/ " +
		"http://example.org/?u=http://example.com/ http://xn--mnchen-3ya.de/]"
	if got := fmt.Sprint(seeds.URLs); got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if len(seeds.Errors) != 7 {
		t.Fatalf("%d bad lines, want 7: %v", len(seeds.Errors), seeds.Errors)
	}
	for i, want := range []string{"line 7: ", "line 8: ", "line 9: ", "line 10: above 16384 bytes", "line 13: more than one word",
		"line 14: more than one word", "line 15: more than one word"} {
		if got := seeds.Errors[i].Error(); !strings.HasPrefix(got, want) {
			t.Errorf("error %d is %q, want %q", i, got, want)
		}
	}
}

func TestReadSeedsBoundsErrors(t *testing.T) {
	for lines, last := range map[int]string{maxSeedErrors: "line 20: parse", maxSeedErrors + 1: "and 1 more", 1000: "and 980 more"} {
		seeds, err := ReadSeeds(strings.NewReader(strings.Repeat("http://\n", lines)))
		if n := len(seeds.Errors); err != nil || n != min(lines, maxSeedErrors+1) || !strings.HasPrefix(seeds.Errors[n-1].Error(), last) {
			t.Errorf("%d lines: %v, %v", lines, seeds.Errors, err)
		}
	}
}

func TestReadSeedsGivesReaderError(t *testing.T) {
	failed := errors.New("disk on fire")
	seeds, err := ReadSeeds(io.MultiReader(strings.NewReader("example.org\nexample.com\n"), iotest.ErrReader(failed)))
	if !errors.Is(err, failed) || len(seeds.URLs) != 2 {
		t.Errorf("%d seeds, %v", len(seeds.URLs), err)
	}
}
