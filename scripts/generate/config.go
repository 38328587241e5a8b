package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"proxima/node"
)

const configHeading = `# The configuration of a Proxima node: every key, with its default.
# Keys that a file leaves out keep their default; flags override the file. Durations look like "250ms" or "1h30m".
# Keys marked live can change while the node runs: proxima ctl set KEY VALUE, or edit the file and run proxima ctl reload.
`

// config makes the complete default configuration of a node as a TOML file: the values of node.Default(), each key under the comment of its
// field. The comments of the code are so the documentation of the file.
func config() (string, error) {
	var g generator
	g.WriteString(configHeading)
	err := g.section("", reflect.ValueOf(node.Default()))
	return g.String(), err
}

type generator struct{ strings.Builder }

// section writes the keys of a struct, then the structs in it as sections of their own.
func (g *generator) section(name string, v reflect.Value) error {
	comments, err := fieldComments(v.Type())
	if err != nil {
		return err
	}
	var sections []func() error
	for f, field := range v.Fields() {
		key := f.Tag.Get("toml")
		full := strings.TrimPrefix(name+"."+key, ".")
		comment := reword(comments[f.Name], f.Name, key)
		begin := func(form string) {
			g.WriteString("\n")
			g.comment(comment)
			fmt.Fprintf(g, form, full)
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
					fmt.Fprintf(g, "%q = %s\n", k.String(), value(field.MapIndex(k)))
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
			fmt.Fprintf(g, "%s = %s%s\n", key, value(field), live)
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
	comments, err := fieldComments(t)
	if err != nil {
		return err
	}
	for f := range t.Fields() {
		key := f.Tag.Get("toml")
		if comments[f.Name] == "" {
			return fmt.Errorf("%s.%s has no comment", t, f.Name)
		}
		g.WriteString("#\n")
		g.comment(reword(comments[f.Name], f.Name, key))
		fmt.Fprintf(g, "# %s =\n", key)
	}
	return nil
}

func (g *generator) comment(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(g, "# %s\n", strings.TrimRight(line, "\n"))
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
	if v.Kind() == reflect.Slice {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = value(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, _ := toml.Marshal(map[string]any{"v": v.Interface()}) // a default can be written
	return strings.TrimSpace(strings.TrimPrefix(string(text), "v = "))
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
func fieldComments(t reflect.Type) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(t.PkgPath(), "proxima/"), "*.go"))
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
