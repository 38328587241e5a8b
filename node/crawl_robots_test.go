package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestRobotsOfEachOrigin: http and https, and each port, have a robots.txt of their own, asked for once.
func TestRobotsOfEachOrigin(t *testing.T) {
	inBubble(t, func(w *trial) {
		rules := func(path string) http.HandlerFunc { return Text("text/plain", "User-agent: *\nDisallow: "+path) }
		a := w.Site("a.test", server1).Handle("/robots.txt", byScheme(rules("/private"), rules("/secret"))).Page("/open").Page("/private").Page("/secret").
			Page("/", "/open", "/private", "/secret", "https://a.test/private", "https://a.test/secret", "http://a.test:8080/private")
		port := w.Site("a.test:8080", server1).Robots("User-agent: other", "Disallow: /").Page("/private")
		end, logs := w.run("http://a.test/")
		w.same("requests", urls(a.Visits()), "http://a.test/robots.txt", "http://a.test/", "http://a.test/open", "http://a.test/secret",
			"https://a.test/robots.txt", "https://a.test/private")
		w.same("requests at the other port", port.Paths(), "/robots.txt", "/private")
		w.dropped(end, "robots.txt disallows", 2)
		if n := logs.queue.Drops["robots.txt disallows"]; n != 2 {
			t.Errorf("the log of the queues counts %d disallowed pages, want 2", n)
		}
	})
}

// TestRobotsForTheUserAgent: the product of the user agent, not this program's name, is whom the rules of a site concern.
func TestRobotsForTheUserAgent(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Fetch.UserAgent = "Finder/2.1"
		a := w.Site("a.test", server1).Robots("User-agent: finder", "Disallow: /not", "User-agent: proxima", "Disallow: /").
			Handle("/", Text("text/html", `<meta name="finder" content="nofollow"><a href="/hidden">x</a>`)).Page("/not").Page("/hidden")
		w.run("http://a.test/", "http://a.test/not")
		w.same("requests", a.Paths(), "/robots.txt", "/")
	})
}

// TestRobotsThatIsNone: whose robots.txt is not there, or redirects without end, may be asked for everything.
func TestRobotsThatIsNone(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"itself":       Status(301, "Location", "/robots.txt"),
		"another host": Status(301, "Location", "http://b.test/rules"),
		"no URL":       Status(301, "Location", "http://["),
		"empty":        Status(301, "Location", ""),
		"other scheme": Status(301, "Location", "ftp://a.test/robots.txt"),
	}
	for _, status := range []int{200, 204, 400, 401, 403, 404, 410} {
		answers[fmt.Sprint(status)] = Status(status)
	}
	for name, answer := range answers {
		each(t, name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Handle("/robots.txt", answer).Pages(2)
			b := w.Site("b.test", server2).Redirect("/rules", "http://a.test/robots.txt")
			w.run("http://a.test/")
			w.same("pages", urls(pages(a.Visits())), at(plainA, "/", "/0", "/1")...)
			want := 1
			if name == "itself" || name == "another host" {
				want = 6 // RFC 9309: five redirects are followed
			}
			if n := a.Count("/robots.txt") + len(b.Visits()); n != want {
				t.Errorf("%d requests for the robots.txt, want %d", n, want)
			}
		})
	}
}

// TestRobotsUnreachable: while a robots.txt cannot be had the host waits, longer each time, and then goes on.
func TestRobotsUnreachable(t *testing.T) {
	for name, failure := range map[string]http.HandlerFunc{
		"503": Status(503), "500": Status(500), "429": Status(429), "broken off": Broken,
	} {
		each(t, name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Handle("/robots.txt", Turns(failure, failure,
				Text("text/plain", "User-agent: *\nDisallow: /1"))).Pages(3)
			w.cfg.Crawl.Patience = 5 * time.Minute
			end, _ := w.run("http://a.test/")
			w.same("requests", a.Paths(), "/robots.txt", "/robots.txt", "/robots.txt", "/", "/0", "/2")
			w.spans("gaps", gaps(a.Visits()), jittered(30*time.Second), jittered(time.Minute),
				exactly(2*time.Second), exactly(2*time.Second), exactly(2*time.Second))
			w.dropped(end, "robots.txt disallows", 1)
		})
	}
}

// TestRobotsRedirected: a robots.txt at another host's server is had there, under that server's politeness.
func TestRobotsRedirected(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Redirect("/robots.txt", "http://b.test/rules.txt").Pages(3)
		b := w.Site("b.test", server2).Pages(20).Took(time.Second).
			Handle("/rules.txt", Text("text/plain", "User-agent: *\nDisallow: /1"))
		end, _ := w.run("http://b.test/", "http://a.test/")
		w.same("requests", a.Paths(), "/robots.txt", "/", "/0", "/2")
		w.same("requests there", b.Paths(), append(numbered(20), "/robots.txt", "/rules.txt", "/")...)
		w.dropped(end, "robots.txt disallows", 1)
		rules := slices.IndexFunc(b.Visits(), func(v Visit) bool { return v.Path == "/rules.txt" })
		if first := pages(a.Visits())[0]; !first.Start.After(b.Visits()[rules].End) {
			t.Error("a page was asked for before the robots.txt was read")
		}
	})
}

// TestRobotsAtBlockedHost: where the rules of a host must not be asked for, its pages must not be either.
func TestRobotsAtBlockedHost(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Redirect("/robots.txt", "http://b.test/rules").Pages(1)
		b := w.Site("b.test", server2).Handle("/rules", Status(200))
		w.blocklist("b.test\n")
		end, logs := w.run("http://a.test/")
		w.same("requests", a.Paths(), "/robots.txt")
		w.same("requests there", b.Paths())
		if got := logs.about("host_dropped", "http://a.test"); len(got) != 1 {
			t.Errorf("the host was dropped for %q, want one reason", got)
		}
		if end.Frontier.Dropped != 1 {
			t.Errorf("%d URLs dropped, want 1", end.Frontier.Dropped)
		}
	})
}
