// Command logs writes docs/logs.md from the one file that names events and keys, node/journal/keys.go: each group of
// constants becomes a table of its names and comments.
//
//	go run ./scripts/generate/logs -o docs/logs.md
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const heading = `# The log files of a node

Written from ` + "`node/journal/keys.go`" + ` by ` + "`go run ./scripts/generate/logs -o docs/logs.md`" + `.

One JSON object a line, in ` + "`logs`" + ` below the data directory, rotated by size: ` + "`fetch.jsonl`" + ` (one line a request),
` + "`queue.jsonl` and `load.jsonl`" + ` (every 10 s), ` + "`node.jsonl`" + ` (events; the first of a life is ` + "`start`" + ` with the
effective configuration). A line is written at once: a killed node loses none of a finished download. Within a boot, seq
counts the lines of a file from 1 without gaps.
`

func main() {
	in := flag.String("keys", "node/journal/keys.go", "file of the constants")
	out := flag.String("o", "", "file to write; default is standard output")
	flag.Parse()
	text, err := generate(*in)
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

// generate makes the document from a file of constants.
func generate(keys string) (string, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(keys), nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	// References in comments read as the words they stand for.
	words := map[string]string{}
	for _, d := range tree.Decls {
		each(d, func(v *ast.ValueSpec, text string) { words[v.Names[0].Name] = text })
	}
	var pairs []string
	for name, word := range words {
		pairs = append(pairs, name, word)
	}
	var b strings.Builder
	b.WriteString(heading)
	for _, d := range tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || !g.Lparen.IsValid() {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n| name | meaning |\n|---|---|\n", title(g.Doc.Text()))
		each(d, func(v *ast.ValueSpec, text string) {
			comment := strings.TrimSpace(v.Comment.Text())
			for i := 0; i < len(pairs); i += 2 {
				comment = replaceWord(comment, pairs[i], "`"+pairs[i+1]+"`")
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", text, strings.ReplaceAll(comment, "|", "\\|"))
		})
	}
	return b.String(), nil
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

// replaceWord replaces a word where it stands alone.
func replaceWord(s, word, with string) string {
	for at := 0; ; {
		i := strings.Index(s[at:], word)
		if i < 0 {
			return s
		}
		i += at
		end := i + len(word)
		if end == len(s) || !isLetter(s[end]) {
			s = s[:i] + with + s[end:]
			at = i + len(with)
		} else {
			at = end
		}
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
