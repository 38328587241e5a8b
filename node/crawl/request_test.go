package crawl

import (
	"errors"
	"testing"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/site"
)

// Outside its hours nobody has the right to ask a site, whatever the lease says; within them the lease decides.
func TestHoursAreAskedBeforeARequest(t *testing.T) {
	l := newGathering(t)
	other := "00:00-24:00 " + time.Now().UTC().AddDate(0, 0, 3).Weekday().String()
	for _, c := range []struct {
		hours  string
		lease  error
		passes bool
	}{{"00:00-24:00", nil, true}, {"00:00-24:00", errors.New("no lease"), false}, {other, nil, false}} {
		h, err := site.ParseHours([]string{c.hours}, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		req := fetch.Request{Gate: func() error { return c.lease }}
		l.customize(&req, &frontier.Task{}, &site.Settings{Hours: h})
		if err := req.Gate(); (err == nil) != c.passes {
			t.Errorf("hours %s, lease %v: %v", c.hours, c.lease, err)
		}
	}
}
