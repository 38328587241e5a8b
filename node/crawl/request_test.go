package crawl

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/site"
)

// Outside its hours nobody has the right to ask a site, whatever the lease says; within them the lease decides.
func TestHoursAreAskedBeforeARequest(t *testing.T) {
	l := newReading(t)
	other := "00:00-24:00 " + time.Now().UTC().AddDate(0, 0, 3).Weekday().String()
	for _, c := range []struct {
		hours  string
		lease  error
		passes bool
	}{{"00:00-24:00", nil, true}, {"00:00-24:00", errors.New("no lease"), false}, {other, nil, false}} {
		h, err := site.ParseHours([]string{c.hours}, "UTC")
		must(t, err)
		req := fetch.Request{Gate: func() error { return c.lease }}
		l.customize(&req, &frontier.Task{}, &site.Settings{Times: h})
		if err := req.Gate(); (err == nil) != c.passes {
			t.Errorf("hours %s, lease %v: %v", c.hours, c.lease, err)
		}
	}
}

// A page that redirects to itself until it gets its cookie is asked again, where cookies are kept, and then read.
func TestPageBehindACookie(t *testing.T) {
	for cookies, want := range map[bool]string{true: "/robots.txt /page /page /x", false: "/robots.txt /page"} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{html: `<a href="/x">x</a>`, wall: true}
			b := newBed(t, w)
			var err error
			b.deps.Policy.Sites, err = site.New(nil, site.Settings{Cookies: cookies})
			must(t, err)
			b.crawl(func() { time.Sleep(10 * time.Minute) })
			if got := w.requests(); got != want {
				t.Errorf("cookies %v: asked for %q, want %q", cookies, got, want)
			}
		})
	}
}
