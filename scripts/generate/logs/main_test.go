package main

import (
	"os"
	"testing"
)

func TestDocumentIsFresh(t *testing.T) {
	t.Chdir("../../..")
	want, err := text()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/logs.md is stale: go run ./scripts/generate/logs -o docs/logs.md")
	}
}
