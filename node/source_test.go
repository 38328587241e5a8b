package node_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// A source is one file of the project, as the tests of its order read it.
type source struct {
	path string // from the root of the module, with slashes
	text []byte
	tree *ast.File // nil where it is not Go
	set  *token.FileSet
}

// parsed is a Go source of its own, for the tests of the rules themselves.
func parsed(t *testing.T, path, text string) source {
	t.Helper()
	s := source{path: path, text: []byte(text), set: token.NewFileSet()}
	var err error
	if s.tree, err = parser.ParseFile(s.set, path, text, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// dir is the package's folder: "fetch/page".
func (s source) dir() string { return path.Dir(s.path) }

func (s source) at(n ast.Node) string { return s.set.Position(n.Pos()).String() }

// sources reads every text file of the project. What is hidden, downloaded or built is not the project's; .ci is.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			name := d.Name()
			if p != "." && strings.HasPrefix(name, ".") && name != ".ci" || name == "node_modules" || p == "scripts/bench/build" || name == "proxima-data" {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || p == ".git": // of a worktree it is a file
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		switch {
		case bytes.Contains(text[:min(len(text), 4096)], []byte("\n// Code generated ")):
			// It follows its generator's conventions.
		case filepath.Ext(p) == ".go":
			all = append(all, parsed(t, p, string(text)))
		case !bytes.ContainsRune(text, 0):
			all = append(all, source{path: p, text: text})
		}
		return nil
	})
	must(t, err)
	if len(all) < 100 {
		t.Fatalf("%d files: the walk did not find the project", len(all))
	}
	return all
}
