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
	must(t, err)
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
	must(t, err)
	got, err := os.ReadFile(filepath.Join(dir, file))
	must(t, err)
	if !bytes.Equal(version.ReplaceAll(got, nil), version.ReplaceAll(want, nil)) {
		t.Errorf("%s is not what overlay.proto says: run go generate in node/wire", file)
	}
}

// Every field of the protocol is explained: by a comment of its message, or in its documentation. So is every call.
func TestProtocolIsExplained(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		must(t, err)
		return string(text)
	}
	proto, doc := read("..", "wire", "overlay.proto"), read("..", "..", "docs", "protocol.md")
	for _, call := range regexp.MustCompile(`rpc (\w+)\(`).FindAllStringSubmatch(proto, -1) {
		if !strings.Contains(doc, "\n| "+call[1]+" | ") {
			t.Errorf("docs/protocol.md does not have the call %s", call[1])
		}
	}
	fields := 0
	for _, m := range regexp.MustCompile(`((?://.*\n)*)message (\w+) \{\n((?:.+\n)*?)\}`).FindAllStringSubmatch(proto, -1) {
		comments := strings.Join(regexp.MustCompile(`//.*`).FindAllString(m[1]+m[3], -1), " ")
		for _, f := range regexp.MustCompile(`(//.*\n)?  (?:repeated )?[\w.]+ (\w+) = \d+;`).FindAllStringSubmatch(m[3], -1) {
			fields++
			in := func(text, before, after string) bool {
				return regexp.MustCompile(before + regexp.QuoteMeta(f[2]) + after).MatchString(text)
			}
			if f[1] == "" && f[2] != "header" && !in(comments, `\b`, `\b`) && !in(doc, "`", "`") && !in(doc, `\| `, ` \| `) {
				t.Errorf("nothing says what %s.%s is", m[2], f[2])
			}
		}
	}
	if fields < 100 {
		t.Errorf("%d fields: the test does not read the proto file", fields)
	}
}
