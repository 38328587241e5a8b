package crawl

import (
	"fmt"
	"net/http"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/site"
)

// customize makes the request of a task as the site that is asked wants it. What is sent is found by the URL asked for: so
// nothing goes along to where a host redirects.
func (l *Loop) customize(req *fetch.Request, task *frontier.Task, s *site.Settings) {
	if s.Hours != nil {
		gate := req.Gate
		req.Gate = func() error {
			if !s.Hours.Open(time.Now()) {
				return fmt.Errorf("outside its hours, %s", s.Hours)
			}
			if gate == nil {
				return nil
			}
			return gate()
		}
	}
	if s.Chosen(site.UserAgent) {
		req.Agent = s.UserAgent
	}
	req.Header = s.Headers
	if s.Cookies {
		if cookies := l.jar.Header(task.URL); cookies != "" {
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

// agent is the product that the rules of a host are read for.
func (l *Loop) agent(host string) string {
	if product := l.deps.Sites.ForHost(host).Product(); product != "" {
		return product
	}
	return l.deps.Agent
}

// files is the directory that a host is read from, nil where it is asked for.
func (l *Loop) files(host string) *fetch.Files {
	if len(l.deps.Files) == 0 {
		return nil
	}
	return l.deps.Files[l.deps.Sites.ForHost(host).Files]
}

// Admit says why a link does not belong to the crawl, "" where it does: the rules of the crawl, and those of its site. What a
// site leaves out is pages: its sitemaps are read.
func (l *Loop) Admit(link frontier.Link) string {
	s := l.deps.Sites.For(link.URL)
	if reason := l.deps.Rules.AdmitWithin(link.URL, int(link.Depth), int(link.Hops), s.Depth); reason != identity.Accepted {
		return reason.String()
	}
	if link.Sitemap {
		return ""
	}
	return s.Refuse(link.URL)
}
