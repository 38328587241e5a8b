package crawl

import (
	"net/http"
	"testing"
	"time"

	"proxima/fetch"
	"proxima/frontier"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		class   fetch.Class
		status  int
		after   string
		sent    bool
		ending  frontier.Ending
		trouble frontier.Trouble
		retry   time.Duration
	}{
		{name: "page", status: 200, ending: frontier.Done},
		{name: "redirect", status: 301, ending: frontier.Done},
		{name: "missing", status: 404, ending: frontier.Failed},
		{name: "no longer waiting", status: 408, ending: frontier.Again, trouble: frontier.Broken},
		{name: "broken program", status: 500, ending: frontier.Again, trouble: frontier.Broken},
		{name: "too many", status: 429, after: "120", ending: frontier.Again, trouble: frontier.Busy, retry: 2 * time.Minute},
		{name: "busy until", status: 503, after: "Sun, 01 Mar 2026 12:05:00 GMT", ending: frontier.Again, trouble: frontier.Busy, retry: 5 * time.Minute},
		{name: "in the past", status: 503, after: "Sun, 01 Mar 2020 12:05:00 GMT", ending: frontier.Again, trouble: frontier.Busy},
		{name: "nonsense", status: 503, after: "soon", ending: frontier.Again, trouble: frontier.Busy},
		{name: "refused", class: fetch.Refused, ending: frontier.Again, trouble: frontier.Unreachable},
		{name: "no route", class: fetch.Unreachable, ending: frontier.Again, trouble: frontier.Unreachable},
		{name: "certificate", class: fetch.TLS, ending: frontier.Again, trouble: frontier.Unreachable},
		{name: "certificate of ours, for one page", class: fetch.TLS, sent: true, ending: frontier.Again, trouble: frontier.Broken},
		{name: "breaks off in the handshake", class: fetch.EOF, ending: frontier.Again, trouble: frontier.Unreachable},
		{name: "reset as it connects", class: fetch.Reset, ending: frontier.Again, trouble: frontier.Unreachable},
		{name: "breaks off before its head", class: fetch.EOF, sent: true, ending: frontier.Again, trouble: frontier.Broken},
		{name: "reset before its head", class: fetch.Reset, sent: true, ending: frontier.Again, trouble: frontier.Broken},
		{name: "silent", class: fetch.TimeoutHeader, ending: frontier.Again, trouble: frontier.Broken},
		{name: "drip", class: fetch.TooSlow, status: 200, ending: frontier.Again, trouble: frontier.Broken},
		{name: "breaks off", class: fetch.EOF, status: 200, ending: frontier.Again, trouble: frontier.Broken},
		{name: "bomb", class: fetch.Bomb, status: 200, ending: frontier.Failed},
		{name: "too many, body broken", class: fetch.Decode, status: 429, after: "120", ending: frontier.Again, trouble: frontier.Busy, retry: 2 * time.Minute},
		{name: "busy, body breaks off", class: fetch.EOF, status: 503, ending: frontier.Again, trouble: frontier.Busy},
		{name: "redirect, body broken", class: fetch.Decode, status: 301, ending: frontier.Done},
		{name: "missing, body breaks off", class: fetch.EOF, status: 404, ending: frontier.Failed},
		{name: "broken program, body broken", class: fetch.Bomb, status: 500, ending: frontier.Again, trouble: frontier.Broken},
		{name: "stopped in the body", class: fetch.Canceled, status: 301, ending: frontier.Again, trouble: frontier.Interrupted},
		{name: "no HTTP", class: fetch.Protocol, ending: frontier.Failed},
		{name: "forbidden", class: fetch.ForbiddenAddress, ending: frontier.Again, trouble: frontier.Forbidden},
		{name: "forbidden port", class: fetch.ForbiddenPort, ending: frontier.Again, trouble: frontier.Forbidden},
		{name: "nobody", class: fetch.NoIdentity, ending: frontier.Again, trouble: frontier.Forbidden},
		{name: "stopped", class: fetch.Canceled, ending: frontier.Again, trouble: frontier.Interrupted},
		{name: "no right", class: fetch.NoRight, ending: frontier.Again, trouble: frontier.Interrupted},
		{name: "no right for another try", class: fetch.NoRight, sent: true, ending: frontier.Again, trouble: frontier.Interrupted},
	} {
		res := &fetch.Result{Class: c.class, Sent: c.sent, Status: c.status, Header: http.Header{}, Timing: fetch.Timing{Total: time.Second}}
		if c.after != "" {
			res.Header.Set("Retry-After", c.after)
		}
		out := judge(res, now)
		if out.Ending != c.ending || out.Trouble != c.trouble || out.RetryAfter != c.retry {
			t.Errorf("%s: ending %v, trouble %v, retry after %v", c.name, out.Ending, out.Trouble, out.RetryAfter)
		}
		if says := c.trouble != frontier.Interrupted && c.trouble != frontier.Forbidden; says != (out.Elapsed == time.Second) {
			t.Errorf("%s: it took %v", c.name, out.Elapsed)
		}
		if asked := c.trouble != frontier.Forbidden && (c.class != fetch.NoRight || c.sent); out.Asked != asked {
			t.Errorf("%s: its server was asked: %v", c.name, out.Asked)
		}
		if c.ending != frontier.Done && out.Reason == "" {
			t.Errorf("%s: no reason", c.name)
		}
	}
}

// A robots.txt that is not there, or elsewhere, is that though the body of the answer is broken. Its host would otherwise never be crawled.
func TestRobotsTxtWithABrokenBody(t *testing.T) {
	l := newReading(t)
	for status, want := range map[int]frontier.Ending{200: frontier.Again, 301: frontier.Done, 404: frontier.Done, 503: frontier.Again, 0: frontier.Again} {
		task := &frontier.Task{Kind: frontier.Robots, Host: "http://a.test", URL: mustParse(t, "http://a.test/robots.txt")}
		res := &fetch.Result{Class: fetch.Decode, Status: status, Header: http.Header{"Retry-After": {"60"}}}
		if status == 301 {
			res.Location = "/robots"
		}
		out := judge(res, time.Now())
		l.reader.read(task, res, &out, l.reader.gather())
		if out.Ending != want || (out.Trouble == frontier.Busy) != (want == frontier.Again) || out.RetryAfter != time.Minute ||
			(out.Robots != nil) != (want == frontier.Done) {
			t.Errorf("%d: %+v", status, out)
		}
	}
}

// A host that asks for a certificate once it knows what is wanted cannot be reached, if that was its robots.txt.
func TestRobotsTxtWithoutACertificate(t *testing.T) {
	l := newReading(t)
	task := &frontier.Task{Kind: frontier.Robots, Host: "https://a.test", URL: mustParse(t, "https://a.test/robots.txt")}
	res := &fetch.Result{Class: fetch.TLS, Sent: true}
	out := judge(res, time.Now())
	l.reader.read(task, res, &out, l.reader.gather())
	if out.Ending != frontier.Again || out.Trouble != frontier.Unreachable || out.Robots != nil {
		t.Errorf("%+v", out)
	}
}

// A proxy that changes pages answers 203. They are pages like any other.
func TestVisitThroughAProxy(t *testing.T) {
	l := newReading(t)
	for status, want := range map[int]bool{200: true, 203: true, 202: false, 206: false} {
		r := l.readPage(t, "http://a.test/", "", "<p>some words")
		r.res.Status = status
		if v, _ := l.visited(r.task, r.res, &r.out, r.gather, time.Now()); (v != nil) != want {
			t.Errorf("%d: %+v", status, v)
		}
	}
}

// After a change of the scope a page is had whole, so that its links are read. "Not modified" is no answer to that, and says nothing of it.
func TestNotModifiedWithoutACondition(t *testing.T) {
	l := newReading(t)
	for seen, want := range map[time.Time]bool{time.Unix(99, 0): false, time.Unix(100, 0): true} {
		l.deps.ScopeSince = time.Unix(100, 0)
		r := l.readPage(t, "http://a.test/", "", "")
		r.task.Page = &frontier.PageRecord{Seen: seen, Digest: 1, ETag: `"1"`}
		r.res.Status = http.StatusNotModified
		asked := l.requestFor(r.task, "http://a.test/", Visit{}, l.deps.Policy.Sites.For(r.task.URL)).IfNoneMatch != ""
		v, _ := l.visited(r.task, r.res, &r.out, r.gather, time.Now())
		if asked != want || (v != nil) != want || (r.out.Ending == frontier.Failed) == want {
			t.Errorf("seen at %v: asked with a condition: %v, %+v, %+v", seen, asked, v, r.out)
		}
	}
}

// A number too large for us is the largest we know (RFC 9111, section 1.2.2).
func TestFreshFor(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "no-store": 0, "public, Max-Age=60": time.Minute, `max-age="60"`: time.Minute, "max-age=-1": 0, "max-age=x": 0,
		"max-age=86401": 86401 * time.Second, "max-age=2147483648": (1<<31 - 1) * time.Second, "max-age=99999999999999999999999": (1<<31 - 1) * time.Second} {
		if got := freshFor(http.Header{"Cache-Control": {value}}); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// Servers that know no time say 1970, and clocks run ahead: on such a condition a server could answer "not modified" for ever.
func TestModifiedOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{"": {}, "yesterday": {}, "Thu, 01 Jan 1970 00:00:00 GMT": {}, "Thu, 01 Jan 1970 00:00:01 GMT": time.Unix(1, 0),
		"Sun, 01 Mar 2026 12:00:00 GMT": now, "Sun, 01 Mar 2026 12:00:01 GMT": {}} {
		if got := modifiedOf(http.Header{"Last-Modified": {value}}, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
