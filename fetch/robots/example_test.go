package robots_test

import (
	"fmt"

	"proxima/fetch/robots"
)

func ExampleParse() {
	rules := robots.Parse([]byte(`
User-agent: *
Disallow: /

User-agent: Proxima
Crawl-delay: 2
Disallow: /*.php$
Disallow: /private/
Allow: /private/open
`), "proxima")
	for _, path := range []string{"/", "/index.php", "/index.php?page=2", "/private/", "/private/open/door"} {
		fmt.Println(path, rules.Allowed(path))
	}
	fmt.Println("wait", rules.CrawlDelay())
	// Output:
	// / true
	// /index.php false
	// /index.php?page=2 true
	// /private/ false
	// /private/open/door true
	// wait 2s
}
