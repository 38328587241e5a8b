package robots_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"proxima/fetch/robots"
	"proxima/internal/measured"
)

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(measured.File(t, "robots"), "*.textproto"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("the folder of measured data has no *.textproto in robots")
	}
	met := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		root, err := parseTextproto(string(text))
		if err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
		if len(root.all("tests")) == 0 {
			t.Errorf("%s holds no tests", name)
		}
		for i, test := range root.all("tests") {
			body := test.one("robotstxt")
			if len(test.all("test_expectations")) == 0 {
				t.Errorf("%s: test %d holds no expectations", name, i+1)
			}
			for k, want := range test.all("test_expectations") {
				key := fmt.Sprintf("%s/%d/%d", filepath.Base(name), i+1, k+1)
				outcome := want.one("expected_outcome")
				if outcome != "ALLOWED" && outcome != "DISALLOWED" {
					t.Fatalf("%s: outcome %q", key, outcome)
				}
				url, agent := want.one("testurl"), want.one("useragent")
				if got := robots.Parse([]byte(body), agent).Allowed(pathOf(url)); got != (outcome == "ALLOWED") {
					t.Errorf("%s: Allowed(%q) for %q = %v\n%s\n%s", key, url, agent, got, body, want.one("additional_explanation"))
					continue
				}
				met++
			}
		}
	}
	t.Logf("%d files: %d expectations met", len(files), met)
}

// pathOf cuts scheme and authority off a URL and changes nothing else.
func pathOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			return rest[i:]
		}
		return ""
	}
	return url
}

// message is a parsed message of the protocol buffers text format: scalars are strings, messages are *message.
type message map[string][]any

func (m message) all(field string) (out []message) {
	for _, v := range m[field] {
		if sub, ok := v.(message); ok {
			out = append(out, sub)
		}
	}
	return out
}

func (m message) one(field string) string {
	for _, v := range m[field] {
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// parseTextproto reads as much of the text format as the corpus uses: fields, lists, messages, identifiers, adjacent strings.
func parseTextproto(text string) (message, error) {
	p := &textproto{rest: text}
	m, err := p.fields("")
	if err == nil && p.next() != "" {
		err = fmt.Errorf("text after the message: %.40q", p.rest)
	}
	return m, err
}

type textproto struct{ rest string }

// next returns the next token without taking it, "" at the end.
func (p *textproto) next() string {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t\r\n,")
		if !strings.HasPrefix(p.rest, "#") {
			break
		}
		_, p.rest, _ = strings.Cut(p.rest, "\n")
	}
	if p.rest == "" {
		return ""
	}
	end := 1
	switch c := p.rest[0]; {
	case c == '"':
		for end < len(p.rest) && p.rest[end] != '"' {
			if p.rest[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(p.rest))
	case strings.IndexByte("{}[]:", c) < 0:
		if i := strings.IndexAny(p.rest, " \t\r\n,:{}[]\"#"); i > 0 {
			end = i
		} else {
			end = len(p.rest)
		}
	}
	return p.rest[:end]
}

func (p *textproto) take() string {
	token := p.next()
	p.rest = p.rest[len(token):]
	return token
}

func (p *textproto) fields(end string) (message, error) {
	m := message{}
	for p.next() != end {
		name := p.take()
		if name == "" {
			return nil, fmt.Errorf("message without end")
		}
		if p.next() == ":" {
			p.take()
		}
		if p.next() != "[" {
			v, err := p.value()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m[name] = append(m[name], v)
			continue
		}
		for p.take(); p.next() != "]"; {
			v, err := p.value()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m[name] = append(m[name], v)
		}
		p.take()
	}
	p.take()
	return m, nil
}

func (p *textproto) value() (any, error) {
	switch token := p.next(); {
	case token == "{":
		p.take()
		return p.fields("}")
	case strings.HasPrefix(token, `"`):
		var s string
		for strings.HasPrefix(p.next(), `"`) {
			part, err := strconv.Unquote(p.take())
			if err != nil {
				return nil, err
			}
			s += part
		}
		return s, nil
	case token == "" || strings.Contains("}[]:", token):
		return nil, fmt.Errorf("value wanted, got %q", token)
	default:
		return p.take(), nil
	}
}
