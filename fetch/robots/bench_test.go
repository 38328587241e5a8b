package robots_test

import (
	"fmt"
	"strings"
	"testing"

	"proxima/fetch/robots"
)

const benchPath = "/catalog/category/view/some-long-article-title-here/id/12345.html?page=2&utm_source=newsletter"

// benchFiles are files of many rules: usual ones, one whose regexps all run, and ones made to be slow.
var benchFiles = []struct{ name, file, path string }{
	{"usual 30", usual(27, 3), benchPath},
	{"wildcards 40", usual(0, 40), benchPath},
	{"texts 5000", usual(5000, 0), benchPath},
	{"mixed 5000", usual(4700, 300), benchPath},
	{"mixed 5000, a wildcard matches", usual(4700, 300), benchPath + "&sort7=x"},
	{"wildcards 5000", usual(0, 5000), benchPath},
	{"hostile: shortest rules", fill("disallow:/%x\n"), benchPath},
	{"hostile: shortest wildcards", fill("disallow:*%x\n"), "/" + strings.Repeat("g", robots.MaxPathBytes-1)},
	{"hostile: needless escapes", fill("allow:*%%61%x\n"), "/" + strings.Repeat("g", robots.MaxPathBytes-1)},
	{"hostile: stars", "user-agent:*\nallow:/a*b\ndisallow: /" + strings.Repeat("*a", robots.MaxBytes/2), "/" + strings.Repeat("a", robots.MaxPathBytes-2) + "b"},
	{"hostile: regexps", fill("disallow:/*a*a*a*a*a*a*a*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab%x\n"), "/" + strings.Repeat("a", robots.MaxPathBytes-1)},
	{"hostile: regexps, all run", "user-agent:*\ndisallow:*aaa\n" + fill("disallow:/*a*a*a*a*a*a*a*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab%x\n"), "/" + strings.Repeat("a", 1000)},
}

// usual returns a file of the given number of rules without and with a wildcard.
func usual(texts, wildcards int) string {
	var b strings.Builder
	b.WriteString("user-agent: *\n")
	for i := range texts {
		fmt.Fprintf(&b, "disallow: /section%d/private/\n", i)
	}
	for i := range wildcards {
		fmt.Fprintf(&b, "disallow: /*&sort%d=\n", i)
	}
	return b.String()
}

// fill returns a file of as many rules as MaxBytes holds.
func fill(format string) string {
	var b strings.Builder
	b.WriteString("user-agent:*\n")
	for i := 0; b.Len() < robots.MaxBytes-100; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func BenchmarkAllowed(b *testing.B) {
	for _, c := range benchFiles {
		b.Run(c.name, func(b *testing.B) {
			r := robots.Parse([]byte(c.file), "proxima")
			b.ReportAllocs()
			for b.Loop() {
				r.Allowed(c.path)
			}
		})
	}
}
