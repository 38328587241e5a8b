package node_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const maxLines = 500

// conventionFaults are what one file does that the project does not do.
func conventionFaults(s source) []string {
	var faults []string
	report := func(at, format string, args ...any) {
		faults = append(faults, at+": "+fmt.Sprintf(format, args...))
	}
	for _, at := range machinePath.FindAllIndex(s.text, -1) {
		if at[0] > 0 && !bytes.ContainsAny(s.text[at[0]-1:at[0]], "\n\t \"'=(:`") {
			continue // it goes on to the left: a path below another
		}
		report(fmt.Sprintf("%s:%d", s.path, 1+bytes.Count(s.text[:at[1]], []byte("\n"))), "a path of one machine")
	}
	if s.tree == nil {
		return faults
	}
	if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
		report(s.path, "%d lines, more than %d", n, maxLines)
	}
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Doc.Text() != "" && !byGoTest.MatchString(f.Name.Name) && !strings.HasPrefix(f.Doc.Text(), f.Name.Name) {
			report(s.at(d), "the comment of %s does not begin with its name", f.Name.Name)
		}
	}
	if s.isTest() {
		return faults
	}
	for _, d := range s.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				report(s.at(d), "func init")
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				if v := spec.(*ast.ValueSpec); mutable(d, v) {
					report(s.at(v), "variable %s of the package can change", v.Names[0])
				}
			}
		}
	}
	if pure(s.dir()) {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(s.at(n), "%s is pure and starts a goroutine", s.dir())
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clock[n.Sel.Name] {
					report(s.at(n), "%s is pure and reads the clock", s.dir())
				}
			}
			return true
		})
	}
	return faults
}

// machinePath finds paths of the machine that somebody worked on.
var machinePath = regexp.MustCompile(`/(work|root|home/\w+)/`)

// byGoTest finds the functions that "go test" calls. Their comments are sentences of their own.
var byGoTest = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)

var clock = map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTicker": true, "NewTimer": true}

// mutable says whether a variable of a package is, by its form, made to change: a map, a channel, a pointer, or
// nothing yet. Only what the linker embeds begins as nothing.
func mutable(d *ast.GenDecl, v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" {
		return false // an assertion of types
	}
	if len(v.Values) == 0 {
		for _, doc := range []*ast.CommentGroup{d.Doc, v.Doc} {
			if doc != nil && strings.HasPrefix(doc.List[len(doc.List)-1].Text, "//go:embed ") {
				return false
			}
		}
		return true
	}
	for _, x := range v.Values {
		switch x := x.(type) {
		case *ast.CompositeLit:
			switch kind := x.Type.(type) {
			case *ast.MapType:
				return true
			case *ast.SelectorExpr: // sync.Mutex{}, atomic.Int64{}, http.Client{}
				if p, ok := kind.X.(*ast.Ident); ok && (p.Name == "sync" || p.Name == "atomic" || p.Name == "http") {
					return true
				}
			}
		case *ast.UnaryExpr:
			if lit, ok := x.X.(*ast.CompositeLit); ok && x.Op == token.AND && !errorType(lit.Type) {
				return true
			}
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.Ident); ok && (f.Name == "make" || f.Name == "new") {
				return true
			}
		}
	}
	return false
}

// errorType says whether a type is, by its name, that of an error: those are compared by their pointers.
func errorType(x ast.Expr) bool {
	name, ok := x.(*ast.Ident)
	return ok && (strings.HasSuffix(strings.ToLower(name.Name), "error") || name.Name == "failure")
}

// TestConventions holds each file to the conventions and to the order of the packages. It keeps the folders that a stranger meets first few, each
// package with a comment, and the libraries on which the project is built.
func TestConventions(t *testing.T) {
	documented, used := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		for _, fault := range append(conventionFaults(s), importFaults(s)...) {
			t.Error(fault)
		}
		switch top, _, below := strings.Cut(s.path, "/"); top {
		case "cmd", "node", "ncoord", "frontier", "assign", "fetch", "scripts", "docs":
			if !below {
				t.Errorf("%s is no folder", top)
			}
		case "go.mod", "go.sum", "LICENSE", "README.md", "data": // data is fetched, not kept
		default:
			if !strings.HasPrefix(top, ".") {
				t.Errorf("%s: %s does not belong at the top", s.path, top)
			}
		}
		if s.tree == nil || s.isTest() {
			continue
		}
		for _, i := range s.tree.Imports {
			used[strings.Trim(i.Path.Value, `"`)] = true
		}
		want := "Package " + s.tree.Name.Name + " "
		if s.tree.Name.Name == "main" {
			want = "Command "
		}
		documented[s.dir()] = documented[s.dir()] || strings.HasPrefix(s.tree.Doc.Text(), want)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file opens with a comment \"Package ...\" (\"Command ...\" for a program)", dir)
		}
	}
	for _, library := range []string{
		"github.com/hashicorp/memberlist", "github.com/dgraph-io/badger/v4", "github.com/PuerkitoBio/goquery",
		"github.com/temoto/robotstxt", "github.com/oschwald/geoip2-golang/v2",
	} {
		if !used[library] {
			t.Errorf("nothing imports %s", library)
		}
	}
}

func TestConventionFaultsAreFound(t *testing.T) {
	long := "package made\n" + strings.Repeat("\n", maxLines)
	for _, c := range []struct {
		name, file, text string
		want             bool
	}{
		{"init", "fetch/made.go", "package made\nfunc init() {}", true},
		{"method init", "fetch/made.go", "package made\nfunc (t T) init() {}\ntype T int", false},
		{"path of a machine", "fetch/made.go", "package made\nvar p = \"/" + "root/x\"", true},
		{"path below another", "fetch/made.go", "package made\nvar p = \"a/" + "root/x\"", false},
		{"map", "fetch/made.go", "package made\nvar m = map[string]int{}", true},
		{"make", "fetch/made.go", "package made\nvar (\n\tm = make(chan int)\n)", true},
		{"new", "fetch/made.go", "package made\nvar n = new(int)", true},
		{"pointer", "fetch/made.go", "package made\nvar p = &T{}\ntype T struct{}", true},
		{"nothing yet", "fetch/made.go", "package made\nvar n int", true},
		{"mutex", "fetch/made.go", "package made\nimport \"sync\"\nvar mu = sync.Mutex{}", true},
		{"embedded", "fetch/made.go", "package made\nimport _ \"embed\"\n//go:embed x\nvar x string", false},
		{"error", "fetch/made.go", "package made\nimport \"errors\"\nvar e = errors.New(\"e\")", false},
		{"pointer to an error", "fetch/made.go", "package made\nvar e = &failure{}\ntype failure struct{}", false},
		{"table", "fetch/made.go", "package made\nvar t = []string{\"a\"}", false},
		{"assertion", "fetch/made.go", "package made\nvar _ I = (*T)(nil)\ntype I any\ntype T int", false},
		{"in a test", "fetch/made_test.go", "package made\nvar m = map[string]int{}", false},
		{"goroutine in a pure room", "assign/made.go", "package made\nfunc f() { go f() }", true},
		{"clock in a pure room", "ncoord/made.go", "package made\nimport \"time\"\nvar t = time.Now()", true},
		{"duration in a pure room", "ncoord/made.go", "package made\nimport \"time\"\nconst t = time.Second", false},
		{"path", "fetch/made.go", "package made\nconst p = \"" + "/ro" + "ot/x\"", true},
		{"path in a test", "fetch/made_test.go", "package made\n// see " + "/wo" + "rk/x", true},
		{"path of a URL", "fetch/made.go", "package made\nconst p = \"http://example.org" + "/wo" + "rk/x\"", false},
		{"comment with an old name", "fetch/made_test.go", "package made\n// g does it.\nfunc f() {}", true},
		{"comment", "fetch/made.go", "package made\n// f does it.\nfunc f() {}", false},
		{"comment of a test", "fetch/made_test.go", "package made\n// Nothing is lost.\nfunc TestF() {}", false},
		{"long", "fetch/made.go", long, true},
		{"long enough", "fetch/made.go", long[:len(long)-1], false},
	} {
		if got := conventionFaults(parsed(t, c.file, c.text)); (len(got) > 0) != c.want {
			t.Errorf("%s: %q, want a fault: %v", c.name, got, c.want)
		}
	}
}

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
