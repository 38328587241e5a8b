package page_test

import (
	"fmt"

	"proxima/fetch/page"
)

func ExampleConfig_Parse() {
	parser := page.Default()
	p := parser.Parse([]byte(`<!DOCTYPE html>
<base href="/docs/">
<meta name="robots" content="noindex">
<a href="intro.html?a=1&amp;b=2">Introduction</a>
<a href="http://ads.example/" rel="nofollow">Advertisement</a>
<a href="mailto:someone@example.org">Mail</a>`), "text/html; charset=utf-8", nil)
	fmt.Println(p.Charset, p.Base, p.NoIndex)
	for _, l := range p.Links {
		fmt.Printf("%s %v\n", l.Ref, l.NoFollow)
	}
	// Output:
	// utf-8 /docs/ true
	// intro.html?a=1&b=2 false
	// http://ads.example/ true
}
