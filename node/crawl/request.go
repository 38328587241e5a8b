package crawl

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"proxima/fetch"
	"proxima/fetch/robots"
	"proxima/frontier"
	"proxima/node/sink"
	"proxima/node/site"
)

// get makes the request of a task. It breaks the download off when the right to ask the server ends. again says why another request may get
// the page, with a cookie that has come; it is "" if none may.
func (l *Loop) get(ctx context.Context, task *frontier.Task, url string, visit Visit) (res fetch.Result, again string) {
	if lease := task.Lease(); lease.Done() != nil || !visit.Until.IsZero() { // a node alone has a right that never ends
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(lease, cancel)()
		if !visit.Until.IsZero() {
			defer time.AfterFunc(time.Until(visit.Until), cancel).Stop()
		}
	}
	settings := l.deps.Policy.Sites.For(task.URL)
	req := l.requestFor(task, url, visit, settings)
	res = l.deps.Client.Get(ctx, req)
	return res, l.withCookie(task, &res, settings, req.Header.Get("Cookie") == "")
}

// requestFor returns the request of a task, with the settings of its site.
func (l *Loop) requestFor(task *frontier.Task, url string, visit Visit, settings *site.Settings) fetch.Request {
	req := fetch.Request{URL: url, Addr: task.Server, Fresh: visit.Fresh, Capture: l.deps.Sink != nil && l.deps.Sink.Wants(sink.WARC), Until: visit.Until}
	if files := l.deps.Policy.files(task.Host); files != nil && task.Server == frontier.FileServer(task.Host) {
		req.Files = files // no server is asked, so no lease is needed
	} else {
		req.Gate = visit.MayAsk
	}
	l.customize(&req, task, settings)
	req.IfNoneMatch, req.IfModifiedSince = l.conditions(task)
	switch task.Kind {
	case frontier.Robots:
		req.MaxBody = robots.MaxBytes + 1
	case frontier.Sitemap:
		req.MaxBody = l.deps.Sitemap.MaxBytes + 1 // shows that there is more
	}
	return req
}

// withCookie keeps the cookies of an answer as its site is set to, and returns again (get). bare says that the request had no cookie.
func (l *Loop) withCookie(task *frontier.Task, res *fetch.Result, settings *site.Settings, bare bool) (again string) {
	jar := l.jarFor(settings)
	returns := jar != nil && l.redirectsToItself(task, res)
	if settings.Cookies || returns {
		jar.Learn(task.URL, res.Header)
	}
	switch {
	case task.Kind == frontier.Robots: // it is asked for at its new place anyway
	case returns && (settings.Cookies || bare || task.Attempt == 0):
		// If one was sent, the server may only have forgotten it.
		return "redirects to itself with a cookie"
	case settings.Cookies && bare && setsCookie(res) && jar.Header(task.URL) != "":
		// The page behind it may look for the cookie, and redirect back.
		return "redirects with its first cookie"
	}
	return ""
}

// jarFor returns where the cookies of a site are, or nil if it is set to keep none. If nothing is set, only those are kept without which a
// page redirects to itself, so that nobody could have it.
func (l *Loop) jarFor(s *site.Settings) *site.Jar {
	switch {
	case s.Cookies:
		return l.jar
	case s.Chosen(site.KeyCookies):
		return nil
	}
	return l.walls
}

// customize applies the settings of a site to a request. They are found by the URL of the request: headers and cookies are not sent to
// the target of a redirect.
func (l *Loop) customize(req *fetch.Request, task *frontier.Task, s *site.Settings) {
	if s.Times != nil {
		gate := req.Gate
		req.Gate = func() error {
			if !s.Times.Open(time.Now()) {
				return fmt.Errorf("outside its hours, %s", s.Times)
			}
			if gate == nil {
				return nil
			}
			return gate()
		}
	}
	if s.Chosen(site.KeyUserAgent) {
		req.Agent = s.UserAgent
	}
	req.Header = s.Headers
	if jar := l.jarFor(s); jar != nil {
		if cookies := jar.Header(task.URL); cookies != "" {
			if req.Header = s.Headers.Clone(); req.Header == nil {
				req.Header = http.Header{}
			}
			req.Header.Set("Cookie", cookies)
		}
	}
	if task.Kind == frontier.Page && (s.MaxSize > 0 || len(s.ContentTypes) > 0) {
		req.Wanted, req.MaxWire = s.Wants, s.MaxSize
	}
}

// setsCookie reports whether an answer is a redirect with a cookie.
func setsCookie(res *fetch.Result) bool { return redirects(res) && len(res.Header["Set-Cookie"]) > 0 }

// redirectsToItself reports whether a URL is redirected to itself with a cookie. With that cookie another request may get the page.
func (l *Loop) redirectsToItself(task *frontier.Task, res *fetch.Result) bool {
	if !setsCookie(res) {
		return false
	}
	target, _ := l.deps.Policy.Rules.Resolve(task.URL, res.Location)
	return target == task.URL
}
