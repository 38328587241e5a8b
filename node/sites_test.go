package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proxima/frontier/identity"
)

func TestSiteErrorsNameFileLineAndKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[[site]]\nhost = \"a.org\"\ngap = 5\n", `f.toml:3: site[0].gap: want a duration`},
		{"[[site]]\nhost = \"a.org\"\n\n[[site]]\nhost = \"b.org\"\ngap = \"-1s\"\n", "f.toml:6: site[1].gap: -1s is not between"},
		{"[[site]]\nhost = \"a.org\"\ngab = \"5s\"\n", "f.toml:3: site[0].gab: unknown key"},
		{"[[site]]\nhost = \"a.org\"\nmin_gap = \"5s\"\n", "f.toml:3: site[0].min_gap: unknown key (there is politeness.min_gap)"},
		{"[politeness]\nhours = \"09:00-10:00\"\n", "f.toml:2: politeness.hours: unknown key (there is site.hours)"},
		{"[[site]]\ngap = \"5s\"\n", "f.toml:1: site[0]: a site needs a host, a domain or a prefix"},
		{"[[site]]\nhost = [\"a.org\", \"b c\"]\n", `f.toml:2: site[0].host[1]: "b c" is no host`},
		{"[[site]]\nhost = 5\n", "f.toml:2: site[0].host: want a text in quotes"},
		{"[[site]]\nhost = [\"a.org\", 5]\n", "f.toml:2: site[0].host: want a text in quotes"},
		{"[[site]]\nhost = \"a.org\"\nhours = \"9-17\"\n", "f.toml:3: site[0].hours: \"9-17\": no range"},
		{"[[site]]\nhost = \"a.org\"\nzone = \"Nicosia\"\n", "f.toml:3: site[0].zone: \"Nicosia\" is no time zone"},
		{"[[site]]\nhost = \"a.org\"\nheaders = { Host = \"b.org\" }\n", "f.toml:3: site[0].headers: Host is not for a site to set"},
		{"[[site]]\nhost = \"a.org\"\n[site.headers]\nX-A = 1\n", "f.toml:4: site[0].headers.X-A: want a text"},
		{"[[site]]\nhost = \"a.org\"\n[site.headers]\nconnection = \"close\"\n", "f.toml:3: site[0].headers: connection is not"},
		{"[[site]]\nprefix = \"a.org/docs/\"\ngap = \"5s\"\n", "f.toml:3: site[0].gap: it holds for a host as a whole"},
		{"[[site]]\nhost = \"a.org\"\npath = \"/x\"\nfiles = \"/srv\"\n", "f.toml:4: site[0].files: it holds for a host as a whole"},
		{"[[site]]\nhost = \"a.org\"\nexclude = [\"/a\", \"b\"]\n", "f.toml:3: site[0].exclude[1]: \"b\" begins with neither"},
		{"[[site]]\nhost = \"a.org\"\nexclude = \"/ä\"\n", "f.toml:3: site[0].exclude[0]: \"/ä\" holds what URLs hold as %XX only"},
		{"[[site]]\nhost = \"a.org\"\ncontent_types = [\"html\"]\n", "f.toml:3: site[0].content_types: \"html\" is no media type"},
		{"[[site]]\nhost = \"a.org\"\nskip_extensions = [\"tar.gz\"]\n", "f.toml:3: site[0].skip_extensions: \"tar.gz\" is no extension"},
		{"[[site]]\nhost = \"a.org\"\nuser_agent = \"a b\"\n", "f.toml:3: site[0].user_agent: \"a b\": want a product token"},
		{"[[site]]\nhost = \"a.org\"\ndepth = 255\n", "f.toml:3: site[0].depth: 255 is not between"},
		{"[[site]]\nhost = \"a.org\"\nbudget = -1\n", "f.toml:3: site[0].budget: -1 is not between"},
		{"[[site]]\nhost = \"a.org\"\npriority = 1e9\n", "f.toml:3: site[0].priority: want a whole number"},
		{"[[site]]\nhost = \"a.org\"\nrecrawl_min = \"1s\"\n", "f.toml:3: site[0].recrawl_min: 1s is not between"},
		{"[[site]]\nhost = \"a.org\"\nrecrawl_min = \"2h\"\nrecrawl_max = \"1h\"\n", "f.toml:4: site[0].recrawl_max: 1h0m0s is less than"},
		{"[site]\nhost = \"a.org\"\n", "f.toml:1: site: want sections in two brackets: [[site]]"},
		{"[scope]\nskip_extensions = [\"a/b\"]\n", "f.toml:2: scope.skip_extensions: \"a/b\" is no extension"},
		{"[fetch]\ncontent_types = [\"*/*\"]\n", "f.toml:2: fetch.content_types: \"*/*\" is no media type"},
		{"[fetch]\nmax_size = -1\n", "f.toml:2: fetch.max_size"},
	} {
		_, err := Parse("f.toml", c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestExplainSaysWhereValuesComeFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.toml")
	text := `[politeness]
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
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string][]string{
		"http://www.example.org/a": {
			`gap = "10s"  # ` + path + `:10, [[site]] 2: host www.example.org`,
			`depth = 7  # ` + path + `:6, [[site]] 1: domain example.org`,
			`headers.X-One = "1"  # ` + path + `:7, [[site]] 1: domain example.org`,
			`headers.X-Two = "3"  # ` + path + `:12, [[site]] 2: host www.example.org`,
			`budget = 200000  # default of frontier.max_host_urls`,
			`cookies = false  # default` + "\n",
		},
		"http://elsewhere.net/": {
			`gap = "3s"  # ` + path + `:2, politeness.min_gap`,
		},
	} {
		u, err := identity.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Explain(path, u)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s: no %q in\n%s", url, line, got)
			}
		}
	}
}

func TestSitesAreTextAgain(t *testing.T) {
	c, err := Parse("f.toml", "[[site]]\nhost = \"a.org\"\ngap = \"5s\"\nhours = []\n[[site]]\ndomain = \"b.org\"\n[site.headers]\nAuthorization = \"Bearer hunter2\"\n")
	if err != nil {
		t.Fatal(err)
	}
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
