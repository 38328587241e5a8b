package peer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The generated code is what the proto file says: the command that makes it is read from package wire and run again.
func TestGeneratedCodeIsFresh(t *testing.T) {
	for _, tool := range []string{"protoc", "sh", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("MISSING: %s, the generated code was not compared", tool)
		}
	}
	dir := filepath.Join("..", "wire")
	doc, err := os.ReadFile(filepath.Join(dir, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^//go:generate sh -c "(.*)"$`).FindSubmatch(doc)
	if line == nil {
		t.Fatal("package wire does not say how it is generated")
	}
	tools := exec.Command("go", "tool", "-modfile=../../scripts/tools/go.mod", "-n", "protoc-gen-go")
	tools.Dir = dir
	if out, err := tools.CombinedOutput(); err != nil {
		t.Skipf("MISSING: the modules of scripts/tools (%v), the generated code was not compared\n%s", err, out)
	}
	made := t.TempDir()
	command := strings.ReplaceAll(string(line[1]), "source_relative:.", "source_relative:"+filepath.ToSlash(made))
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	// Which protoc a machine has is its own business.
	version := regexp.MustCompile(`(?m)^// \tprotoc .*$`)
	const file = "overlay.pb.go"
	want, err := os.ReadFile(filepath.Join(made, file))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(version.ReplaceAll(got, nil), version.ReplaceAll(want, nil)) {
		t.Errorf("%s is not what overlay.proto says: run go generate in node/wire", file)
	}
}
