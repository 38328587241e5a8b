package robots_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"proxima/fetch/robots"
)

// FuzzParse feeds raw bodies and paths.
func FuzzParse(f *testing.F) {
	for _, c := range cases {
		f.Add(c.file, "/a%2fb?c")
	}
	f.Add("user-agent: foobot\ncrawl-delay: 1e9\nsitemap: x\nallow: /%zz%4", "/%zz%41\x00é")
	f.Fuzz(func(t *testing.T, file, path string) {
		r := robots.Parse([]byte(file), "foobot")
		allowed := r.Allowed(path)
		if !r.Allowed("/robots.txt") {
			t.Error("/robots.txt is refused")
		}
		if d := r.CrawlDelay(); d < 0 || d > robots.MaxCrawlDelay {
			t.Errorf("delay %v", d)
		}
		if n := len(r.Sitemaps()); n > robots.MaxSitemaps {
			t.Errorf("%d sitemaps", n)
		}
		if r.Allowed(path) != allowed {
			t.Error("two answers to one question")
		}
		if len(file) > robots.MaxBytes/2 {
			return // the line ends below must not push lines over the limit
		}
		// Any line end is as good as any other.
		lines := strings.ReplaceAll(strings.ReplaceAll(file, "\r\n", "\n"), "\r", "\n")
		for _, eol := range []string{"\n", "\r", "\r\n", "\n# x\n\n"} {
			o := robots.Parse([]byte(strings.ReplaceAll(lines, "\n", eol)), "foobot")
			if o.Allowed(path) != allowed || o.CrawlDelay() != r.CrawlDelay() || len(o.Sitemaps()) != len(r.Sitemaps()) {
				t.Errorf("line end %q changes the rules", eol)
			}
		}
		// A group for another agent before the file changes nothing. (A byte order mark would no longer open the file.)
		o := robots.Parse([]byte("user-agent: other\ndisallow: /\n"+lines), "foobot")
		if !strings.HasPrefix(lines, "\xef") && o.Allowed(path) != allowed {
			t.Error("another agent's group changes the rules")
		}
	})
}

// FuzzRules builds rules and paths of a small alphabet, where matches are frequent, and compares with a matcher that
// follows the text of RFC 9309 without a thought for speed.
func FuzzRules(f *testing.F) {
	f.Add("-/a*b$ +/a*b", "/aXb")
	f.Add("-/a +/a*b -/a$b +/$ -/%62.*", "/a$b")
	f.Add("-* +/*.?(+)[] -/%2a*%24", "/*$")
	f.Add("-%b +/%b*", "%b$")
	f.Add("-/ +/%61b -/%61b/ +/ab +/%61*%62$", "/%61b")
	f.Add("-/ +/é*a -/*é/ +/%62é", "/éa")
	f.Add("-/aa +/*a -/a*a*a*a$ +a", "/aaaa")
	f.Fuzz(func(t *testing.T, spec, path string) {
		if len(spec) > 200 || len(path) > 60 {
			return
		}
		var rules []naiveRule
		var file strings.Builder
		file.WriteString("user-agent: *\n")
		for _, word := range strings.Fields(spec) {
			allow := word[0] == '+'
			pattern := project(strings.TrimLeft(word, "+-"))
			if pattern == "" || strings.Count(pattern, "*") > 8 {
				continue
			}
			rules = append(rules, naiveRule{pattern, allow})
			fmt.Fprintf(&file, "%s: %s\n", map[bool]string{true: "allow", false: "disallow"}[allow], pattern)
		}
		path = "/" + project(path)
		r := robots.Parse([]byte(file.String()), "foobot")
		if got, want := r.Allowed(path), naiveAllowed(rules, path); got != want {
			t.Errorf("Allowed(%q) = %v\n%s", path, got, file.String())
		}
		// The order of the lines means nothing.
		var turned strings.Builder
		turned.WriteString("user-agent: *\n")
		for i := len(rules) - 1; i >= 0; i-- {
			fmt.Fprintf(&turned, "%s: %s\n", map[bool]string{true: "allow", false: "disallow"}[rules[i].allow], rules[i].pattern)
		}
		if robots.Parse([]byte(turned.String()), "foobot").Allowed(path) != r.Allowed(path) {
			t.Errorf("the order matters for %q:\n%s", path, file.String())
		}
		for _, l := range rules {
			// Alone, a rule that does not tie the end covers all that begins with a path that it covers.
			alone := robots.Parse([]byte("user-agent: *\ndisallow: "+l.pattern), "foobot")
			if !strings.HasSuffix(l.pattern, "$") && !alone.Allowed(path) && alone.Allowed(path+"z/?z") {
				t.Errorf("%q covers %q but not what begins with it", l.pattern, path)
			}
			if naiveNeedless(l.pattern) {
				continue
			}
			// An Allow wins over a Disallow of the same text.
			both := robots.Parse([]byte(file.String()+"disallow: "+l.pattern+"\nallow: "+l.pattern), "foobot")
			if r.Allowed(path) && !both.Allowed(path) {
				t.Errorf("Allow %q loses to its Disallow for %q", l.pattern, path)
			}
		}
	})
}

// project maps any text to an alphabet in which patterns and paths meet.
func project(s string) string {
	const alphabet = "aab/.$*?+%"
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case strings.IndexByte(alphabet+"([)]{|}^\\", c) >= 0:
			b.WriteByte(c)
		case c < 0x20:
			b.WriteString([]string{"%61", "%2A", "%24", "%2f", "%C3%a9", "é", "%5"}[int(c)%7])
		default:
			b.WriteByte(alphabet[int(c)%len(alphabet)])
		}
	}
	return b.String()
}

type naiveRule struct {
	pattern string
	allow   bool
}

// naiveAllowed is RFC 9309 section 2.2.2 word by word: of the rules that match, the one with the most octets; Allow among
// equals. To this comes what the package says of needless escapes in an Allow, and of raw octets in a path: the answer must
// be the same for octets that no rule holds.
func naiveAllowed(rules []naiveRule, path string) bool {
	decoded, written := naiveTokens(path, false, false), naiveTokens(path, false, true)
	raw := strings.ContainsFunc(path, func(c rune) bool { return c >= 0x80 })
	return naiveVerdict(rules, decoded, written) && (!raw || naiveVerdict(rules, written, nil))
}

// naiveVerdict tells what the rules say to a path; written is the path as spelt, nil where needless escapes do not matter.
func naiveVerdict(rules []naiveRule, path, written []string) bool {
	best, verdict := -1, true
	for _, l := range rules {
		pattern := naivePattern(l.pattern, false)
		octets := 0
		for i, token := range pattern {
			if token != "*" || pattern[i-min(i, 1)] != "*" || i == 0 {
				octets += len(token)
			}
		}
		if l.allow && written != nil && naiveNeedless(l.pattern) && !naiveMatch(naivePattern(l.pattern, true), written) {
			continue
		}
		if naiveMatch(pattern, path) && (octets > best || octets == best && l.allow) {
			best, verdict = octets, l.allow
		}
	}
	return verdict
}

// naivePattern spells a rule, less the wildcards at its end.
func naivePattern(rule string, written bool) []string {
	pattern := naiveTokens(rule, true, written)
	for len(pattern) > 0 && pattern[len(pattern)-1] == "*" {
		pattern = pattern[:len(pattern)-1]
	}
	if len(pattern) == 0 || pattern[0] != "*" && pattern[0] != "/" {
		pattern = append([]string{"/"}, pattern...)
	}
	return pattern
}

// naiveNeedless reports whether a rule holds escapes of unreserved octets.
func naiveNeedless(rule string) bool {
	return len(naiveTokens(rule, true, true)) != len(naiveTokens(rule, true, false))
}

func naiveMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return true
	case pattern[0] == "*":
		return naiveMatch(pattern[1:], path) || len(path) > 0 && naiveMatch(pattern, path[1:])
	case pattern[0] == "$":
		return len(path) == 0
	}
	return len(path) > 0 && pattern[0] == path[0] && naiveMatch(pattern[1:], path[1:])
}

// naiveTokens spells one octet a token. "*" and a "$" mean the special characters; the literal ones are spelt %2A and %24.
// Written, escapes of unreserved octets stay, and raw octets beyond ASCII in a path are "raw", which no rule holds.
func naiveTokens(s string, pattern, written bool) (tokens []string) {
	for i := 0; i < len(s); i++ {
		c, escaped := s[i], false
		if c == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c, i, escaped = byte(n), i+2, true
			}
		}
		unreserved := strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", c) >= 0
		switch {
		case written && !pattern && !escaped && c >= 0x80:
			tokens = append(tokens, "raw")
		case unreserved && !(escaped && written):
			tokens = append(tokens, string(c))
		case pattern && !escaped && (c == '*' || c == '$' && i == len(s)-1):
			tokens = append(tokens, string(c))
		case escaped || c >= 0x80 || strings.IndexByte("*${|}^\\", c) >= 0:
			for _, octet := range fmt.Sprintf("%%%02X", c) {
				tokens = append(tokens, string(octet))
			}
		default:
			tokens = append(tokens, string(c))
		}
	}
	return tokens
}
