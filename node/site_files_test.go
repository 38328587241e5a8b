package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// siteTree writes a site with what directories hold: indexes and none, odd names and types, and dead links.
func siteTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "www")
	refs := []string{"/a.html", "a.html?x=1", "/docs", "/docs/", "/docs/b.html", "/docs?q=1", "/empty/", "/empty", "/none", "/none/", "/a.html/",
		"/odd%20name.TXT", "/%D0%B9.html", "/x.pdf", "/x.tar.gz", "/noextension", "/style.css", "/private/p.html", "/docs//b.html", "/docs/%2e/b.html",
		"/feed.xml", "/docs%2Fb.html", "/.hidden.html", "/link.html", "/dead.html", "/zero.html", "/percent%25.html", "/plus+and&amp;.html", "/page.xhtml"}
	home := ""
	for _, ref := range refs {
		home += "<a href=\"" + ref + "\">x</a>\n"
	}
	page := func(refs ...string) string {
		return "<html><body>" + strings.Repeat("<p>words ", 50) + "<a href=" + strings.Join(refs, ">x</a><a href=") + ">x</a>"
	}
	for name, text := range map[string]string{
		"index.html": home, "robots.txt": "User-agent: *\nDisallow: /private\nSitemap: /sitemap.xml\n", "a.html": page("/docs/c.html", "b2.html"),
		"b2.html": page("/"), "docs/index.html": page("b.html", "../a.html"), "docs/b.html": page("c.html"), "docs/c.html": page("/docs/deep/"),
		"docs/deep/index.html": page("../../a.html", "none.html"), "empty/x": "x", "odd name.TXT": "text", "й.html": page("/"), "x.pdf": "%PDF",
		"x.tar.gz": "\x1f\x8b", "noextension": "<a href=/never>", "style.css": "a{}", "private/p.html": page("/"), "feed.xml": "<rss></rss>",
		".hidden.html": page("/"), "zero.html": "", "percent%.html": page("/"), "plus+and&.html": page("/"), "page.xhtml": page("/from-xhtml.html"),
		"only-in-sitemap.html": page("/a.html"), "from-xhtml.html": page("/"),
	} {
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	must(t, errors.Join(os.Symlink("a.html", dir+"/link.html"), os.Symlink("nowhere", dir+"/dead.html")))
	return dir
}

// startNginx serves a directory on a port of this machine.
func startNginx(t *testing.T, dir string) (authority string, stop func()) {
	t.Helper()
	const types = "/etc/nginx/mime.types"
	path, err := exec.LookPath("nginx")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nginx")
	}
	if _, missing := os.Stat(types); err != nil || missing != nil {
		t.Skip("nginx is not installed, or without " + types + ": what it serves and what is read from disk are not compared")
	}
	free, err := lab.Addresses("127.0.0.1", 1)
	must(t, err)
	_, port, _ := net.SplitHostPort(free[0])
	work := t.TempDir()
	conf := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; master_process off;
events {}
http {
  access_log off; include %[2]s; default_type application/octet-stream;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server { listen 127.0.0.1:%[3]s; root %[4]s; }
}
`, work, types, port, dir)
	must(t, os.WriteFile(work+"/conf", []byte(conf), 0o600))
	cmd := exec.Command(path, "-p", work, "-e", work+"/error.log", "-c", work+"/conf")
	must(t, cmd.Start())
	stop = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(stop)
	for range 100 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return "a.test:" + port, stop
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(work + "/error.log")
	t.Fatalf("nginx does not answer: %s", text)
	return "", nil
}

// TestFilesAreAsThroughNginx crawls a tree through nginx, and from its directory: the same URLs, statuses, types and links.
func TestFilesAreAsThroughNginx(t *testing.T) {
	dir := siteTree(t)
	authority, stop := startNginx(t, dir)
	sitemap := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://` + authority + `/only-in-sitemap.html</loc></url></urlset>`
	must(t, os.WriteFile(dir+"/sitemap.xml", []byte(sitemap), 0o644))
	crawl := func(dial func(context.Context, string, string) (net.Conn, error), text string) map[string]string {
		t.Helper()
		c := config(t)
		c.Fetch.AllowPrefixes = []string{"127.0.0.0/8"}
		c.Fetch.DNS.Hosts = map[string][]string{"a.test": {"127.0.0.1"}}
		c.Site = siteTables(t, text)
		if end, err := run(t.Context(), t, c, node.Deps{Dial: dial}, "http://"+authority+"/"); err != nil || end.Reason != "idle" || end.Unfinished > 0 {
			t.Errorf("ended as %q with %d URLs left: %v", end.Reason, end.Unfinished, err)
		}
		found := map[string]string{}
		for _, l := range readLogs(t, filepath.Join(c.Node.Data, "logs")).fetches {
			found[l.URL] = fmt.Sprintf("%s %d %s, %d links", l.Kind, l.Status, l.Type, l.Links)
			if l.Status == 200 {
				found[l.URL] += fmt.Sprintf(", %d bytes", l.Bytes)
			}
		}
		return found
	}
	byHTTP := crawl(nil, "")
	stop()
	noDial := func(context.Context, string, string) (net.Conn, error) {
		t.Error("a server was dialled for what is on disk")
		return nil, errors.New("no network")
	}
	fromDisk := crawl(noDial, fmt.Sprintf("[[site]]\nhost = %q\nfiles = %q\n", authority, dir))
	if len(byHTTP) < 30 || byHTTP["http://"+authority+"/only-in-sitemap.html"] == "" {
		t.Errorf("through nginx %d URLs were found", len(byHTTP))
	}
	if d := cmp.Diff(byHTTP, fromDisk); d != "" {
		t.Errorf("through nginx (-) and from disk (+):\n%s", d)
	}
}

// TestFilesAreReadAtTheirHours: hours hold for files, too; gaps do not.
func TestFilesAreReadAtTheirHours(t *testing.T) {
	inBubble(t, func(w *trial) {
		dir := siteTree(t)
		w.cfg.Scope.SeedScope = "host"
		w.sites(fmt.Sprintf("[[site]]\nhost = \"a.test\"\nfiles = %q\nhours = \"01:00-02:00\"\nzone = \"UTC\"\n", dir))
		end, logs := w.run("http://a.test/")
		if end.Pages < 20 {
			t.Errorf("%d pages", end.Pages)
		}
		for _, l := range logs.fetches {
			if at := w.at(l.Time); at < time.Hour || at > time.Hour+time.Minute {
				t.Errorf("%s was read after %v", l.URL, at)
			}
		}
	})
}

// TestFilesThatAreNotHere: the site is asked for by HTTP, and that is said.
func TestFilesThatAreNotHere(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.sites("[[site]]\nhost = \"a.test\"\nfiles = \"/nowhere/at/all\"\n")
		a := w.Site("a.test", server1).Pages(2)
		_, logs := w.run("http://a.test/")
		w.same("requests", a.Paths(), "/robots.txt", "/", "/0", "/1")
		if !strings.Contains(fmt.Sprint(logs.events), "/nowhere/at/all") {
			t.Error("the log does not say that the files are missing")
		}
		if first := logs.events[0]; first.Event != runlog.EventStart {
			t.Errorf("the first event is %v", first)
		}
		if s := frontier.FileServer("http://a.test"); s != frontier.FileServer("http://a.test") || s == frontier.FileServer("https://a.test") {
			t.Error("addresses of file servers are mixed up")
		}
	})
}
