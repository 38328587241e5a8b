// Command config writes the complete default configuration of a node as a TOML file: the values of node.Default(), each
// key under the comment of its field. The comments of the code are so the documentation of the file.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"proxima/node"
)

func main() {
	out := flag.String("o", "", "file to write; default is standard output")
	flag.Parse()
	text, err := generate()
	if err != nil {
		log.Fatal(err)
	}
	if *out == "" {
		fmt.Print(text)
		return
	}
	if err := os.WriteFile(*out, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

const heading = `# The configuration of a Proxima node: every key, with its default.
# Keys that a file leaves out keep their default; flags override the file. Durations look like "250ms" or "1h30m".
# Keys marked live can change while the node runs: proxima ctl set KEY VALUE, or edit the file and run proxima ctl reload.
`

// generate makes the text. It runs in any folder of the module.
func generate() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	g := generator{root: root}
	g.b.WriteString(heading)
	if err := g.section("", reflect.ValueOf(node.Default())); err != nil {
		return "", err
	}
	return g.b.String(), nil
}

type generator struct {
	root string
	b    strings.Builder
}

// section writes the keys of a struct, then the structs in it as sections of their own.
func (g *generator) section(name string, v reflect.Value) error {
	comments, err := g.fieldComments(v.Type())
	if err != nil {
		return err
	}
	var sections []func() error
	for f, field := range v.Fields() {
		key := f.Tag.Get("toml")
		full := strings.TrimPrefix(name+"."+key, ".")
		comment := reword(comments[f.Name], f.Name, key)
		begin := func(form string) {
			g.b.WriteString("\n")
			g.comment(comment)
			fmt.Fprintf(&g.b, form, full)
		}
		kind, of := f.Type.Kind(), reflect.Invalid
		if kind == reflect.Slice {
			of = f.Type.Elem().Kind()
		}
		switch {
		case f.Anonymous:
			if err := g.section(name, field); err != nil {
				return err
			}
		case key == "" || key == "-":
		case of == reflect.Map:
			begin("#\n# [[%s]]\n")
		case of == reflect.Struct:
			sections = append(sections, func() error {
				begin("#\n# [[%s]]\n")
				return g.list(f.Type.Elem())
			})
		case kind == reflect.Map:
			sections = append(sections, func() error {
				begin("[%s]\n")
				for _, k := range field.MapKeys() {
					fmt.Fprintf(&g.b, "%q = %s\n", k.String(), value(field.MapIndex(k)))
				}
				return nil
			})
		case kind == reflect.Struct:
			sections = append(sections, func() error {
				begin("[%s]\n")
				return g.section(full, field)
			})
		case comment == "":
			return fmt.Errorf("%s.%s has no comment", v.Type(), f.Name)
		default:
			g.comment(comment)
			live := ""
			if f.Tag.Get("live") != "" {
				live = " # live"
			}
			fmt.Fprintf(&g.b, "%s = %s%s\n", key, value(field), live)
		}
	}
	for _, write := range sections {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// list writes the keys of a section that may stand many times, and stands nowhere by default: all as comments.
func (g *generator) list(t reflect.Type) error {
	comments, err := g.fieldComments(t)
	if err != nil {
		return err
	}
	for f := range t.Fields() {
		key := f.Tag.Get("toml")
		if comments[f.Name] == "" {
			return fmt.Errorf("%s.%s has no comment", t, f.Name)
		}
		g.b.WriteString("#\n")
		g.comment(reword(comments[f.Name], f.Name, key))
		fmt.Fprintf(&g.b, "# %s =\n", key)
	}
	return nil
}

func (g *generator) comment(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(&g.b, "# %s\n", strings.TrimRight(line, "\n"))
	}
}

// reword names the key where the comment names the field.
func reword(comment, field, key string) string {
	if rest, ok := strings.CutPrefix(comment, field); ok {
		return key + rest
	}
	return comment
}

func value(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return fmt.Sprintf("%q", short(d))
	}
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = value(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Float64:
		s := fmt.Sprint(v.Float())
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	}
	return fmt.Sprint(v.Interface())
}

// short is a duration without the zeros that Duration.String leaves: 10m, not 10m0s.
func short(d time.Duration) string {
	s := strings.Replace(d.String(), "m0s", "m", 1)
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// fieldComments reads the comments of a struct's fields from its source.
func (g *generator) fieldComments(t reflect.Type) (map[string]string, error) {
	dir := filepath.Join(g.root, strings.TrimPrefix(t.PkgPath(), "proxima"))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != t.Name() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						out[name.Name] = f.Doc.Text()
					}
				}
			}
			return false
		})
	}
	return out, nil
}

func moduleRoot() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	return filepath.Dir(string(file)), nil
}
