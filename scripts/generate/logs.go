package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

const logsHeading = `# The log files of a node

Generated from ` + "`node/runlog`" + ` by ` + "`go run ./scripts/generate`" + `.

A node writes one JSON object per line into files in ` + "`logs`" + ` below its data directory and rotates them by size. ` + "`fetch.jsonl`" + `
has one line per request, ` + "`queue.jsonl` and `load.jsonl`" + ` one every 10 s, ` + "`node.jsonl`" + ` the events; the first event of each boot is
` + "`start`" + ` with the effective configuration. Lines are written at once, so a killed node loses none.
While the directory of the logs hangs, all downloads wait, even if the data directory is on another disk that works. Lines
that a disk refuses are lost and counted. Within a boot, seq counts the lines of a log from 1 without gaps. Files may be moved or deleted
while the node runs: ten seconds later it writes to a new one, and the room of a deleted one is free.
`

// logs makes the page of the log files from package runlog: each type of a line (lines.go) becomes a table of its keys, and each group of
// constants (keys.go) one of its names, with their comments.
func logs() (string, error) {
	var decls []ast.Decl
	for _, name := range []string{"lines.go", "keys.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), "node/runlog/"+name, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		decls = append(decls, tree.Decls...)
	}
	// References in comments read as the words they stand for.
	words, word := map[string]string{}, regexp.MustCompile(`\w+`)
	for _, d := range decls {
		each(d, func(v *ast.ValueSpec, text string) { words[v.Names[0].Name] = text })
	}
	var b strings.Builder
	b.WriteString(logsHeading)
	row := func(name string, comment *ast.CommentGroup) {
		text := word.ReplaceAllStringFunc(strings.TrimSpace(comment.Text()), func(name string) string {
			if text, ok := words[name]; ok {
				return "`" + text + "`"
			}
			return name
		})
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(text, "|", "\\|"))
	}
	for _, d := range decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		if t, line := lineOf(g); line != nil {
			fmt.Fprintf(&b, "\n## %s\n%s\n| key | meaning |\n|---|---|\n", t, g.Doc.Text())
			for _, f := range line.Fields.List {
				if f.Tag != nil {
					tag, _ := strconv.Unquote(f.Tag.Value)
					row(reflect.StructTag(tag).Get("json"), f.Comment)
				}
			}
		} else if g.Tok == token.CONST && g.Lparen.IsValid() {
			fmt.Fprintf(&b, "\n## %s\n| name | meaning |\n|---|---|\n", title(g.Doc.Text()))
			each(d, func(v *ast.ValueSpec, text string) { row(text, v.Comment) })
		}
	}
	return b.String(), nil
}

// lineOf is the type of a line that is written as it is declared, with where it stands; nil is none.
func lineOf(g *ast.GenDecl) (name string, line *ast.StructType) {
	if g.Tok != token.TYPE {
		return "", nil
	}
	t := g.Specs[0].(*ast.TypeSpec)
	switch name = t.Name.Name; name {
	case "Event": // its keys are constants
		return "", nil
	case "Line":
		name = "Every line"
	default:
		name = strings.ToLower(name) + ".jsonl"
	}
	line, _ = t.Type.(*ast.StructType)
	return name, line
}

// title is the comment of a group: its first sentence the heading, the rest a paragraph.
func title(doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	head, rest, _ := strings.Cut(doc, ". ")
	if rest == "" {
		return strings.TrimSuffix(head, ".") + "\n"
	}
	return head + "\n" + rest + "\n"
}

// each calls f for the string constants of a group.
func each(d ast.Decl, f func(v *ast.ValueSpec, text string)) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.CONST {
		return
	}
	for _, s := range g.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				f(v, text)
			}
		}
	}
}
