package main

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFilesAreFresh(t *testing.T) {
	t.Chdir("../..")
	for file, generate := range files() {
		want, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if d := cmp.Diff(want, string(got)); err != nil || d != "" {
			t.Errorf("%s is stale, run go generate ./node (-generated +file): %v\n%s", file, err, d)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0s",
		250 * time.Millisecond:  "250ms",
		10 * time.Second:        "10s",
		10 * time.Minute:        "10m",
		90 * time.Second:        "1m30s",
		24 * time.Hour:          "24h",
		90 * time.Minute:        "1h30m",
		time.Hour + time.Second: "1h0m1s",
	} {
		got := short(d)
		if got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(got); err != nil || back != d {
			t.Errorf("%q is read back as %v, %v; want %v", got, back, err, d)
		}
	}
}
