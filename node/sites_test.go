package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proxima/frontier/identity"
)

func TestExplainSaysWhereValuesComeFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.toml")
	text := "\uFEFF" + `scope = { max_depth = 5 }
[politeness]
min_gap = "3s"
[[site]]
domain = "example.org"
gap = "5s"
depth = 7
headers = { X-One = "1", X-Two = "2" }
[[site]]
host = "www.example.org"
gap = "10s"
[site.headers]
X-Two = "3"
[[site]]
host = "other.org"
gap = "1s"
`
	must(t, os.WriteFile(path, []byte(text), 0o600))
	for url, want := range map[string][]string{
		"http://www.example.org/a": {
			`gap = "10s"  # ` + path + `:11, [[site]] 2: host www.example.org`,
			`depth = 7  # ` + path + `:7, [[site]] 1: domain example.org`,
			`headers.X-One = "1"  # ` + path + `:8, [[site]] 1: domain example.org`,
			`headers.X-Two = "3"  # ` + path + `:13, [[site]] 2: host www.example.org`,
			`budget = 200000  # default of frontier.max_host_urls`,
			`cookies = false  # default` + "\n",
		},
		"http://elsewhere.net/": {
			`gap = "3s"  # ` + path + `:3, politeness.min_gap`,
			"headers = {}  # default\ninclude = []  # default\n",
			`depth = 5  # ` + path + `:1, scope.max_depth`,
		},
	} {
		u, err := identity.Parse(url)
		must(t, err)
		got, err := Explain(path, u)
		must(t, err)
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s: no %q in\n%s", url, line, got)
			}
		}
	}
}

func TestSitesAreTextAgain(t *testing.T) {
	c, err := Parse("f.toml", "[[site]]\nhost = \"a.org\"\ngap = \"5s\"\nhours = []\n[[site]]\ndomain = \"b.org\"\n[site.headers]\nAuthorization = \"Bearer hunter2\"\n")
	must(t, err)
	again, err := Parse("g.toml", c.Text())
	if err != nil {
		t.Fatalf("%v in\n%s", err, c.Text())
	}
	if again.Text() != c.Text() || again.Site[0].Hours == nil || *again.Site[0].Gap != *c.Site[0].Gap {
		t.Errorf("it reads as\n%s", again.Text())
	}
	if public := c.Public(); strings.Contains(public, "hunter2") || !strings.Contains(public, "Authorization") {
		t.Errorf("what is logged is\n%s", public)
	}
	if !strings.Contains(c.Text(), "hunter2") {
		t.Error("Public has changed the configuration")
	}
}
