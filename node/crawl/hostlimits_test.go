package crawl

import (
	"context"
	"fmt"
	"testing"

	"proxima/frontier"
)

// Only the hosts and domains asked about last are counted. A host that is met anew has the pages that were requested before, and those that are
// asked about all the time keep their counts.
func TestCountsOfHostsAreBounded(t *testing.T) {
	page := func(host string) *frontier.Task { return &frontier.Task{Kind: frontier.Page, Host: host} }
	before := map[string]int64{}
	l := newHostLimits(Config{MaxHostPages: 2, MaxDomainPages: 3}, func(_ context.Context, host string) (int64, error) { return before[host], nil })
	l.hosts.Resize(10)
	l.domains.Resize(10)
	admit := func(host string, want string) {
		t.Helper()
		if got, err := l.admit(t.Context(), page(host), 1); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", host, got, err, want)
		}
		if got, err := l.admit(t.Context(), page(host), 0); want != "" && (err != nil || got != want) {
			t.Errorf("%s for another node: %q, %v; want %q", host, got, err, want)
		}
	}
	const hostFull, domainFull = "limit: 2 pages a host", "limit: 3 pages a domain"
	for range 2 {
		admit("http://once.test", "")
		admit("http://a.used.test", "")
	}
	admit("http://b.used.test", "")
	before["http://once.test"] = 2 // they have ended
	for i := range 30 {
		admit(fmt.Sprintf("http://%d.test", i), "")
		admit("http://a.used.test", hostFull)
		admit("http://b.used.test", domainFull)
	}
	if n, m := l.hosts.Len(), l.domains.Len(); n != 10 || m != 10 {
		t.Errorf("%d hosts and %d domains are counted, want 10", n, m)
	}
	l.count(page("http://once.test"), -1) // it was forgotten meanwhile
	admit("http://once.test", hostFull)
	l.count(page("http://a.used.test"), -1)
	admit("http://a.used.test", "")
	admit("http://a.used.test", hostFull)
	admit("http://anew.test", "")
	l.forget("http://anew.test")
	if got, err := l.admit(t.Context(), page("http://anew.test"), 0); got != "" || err != nil {
		t.Errorf("met anew: %q, %v", got, err)
	}
	l.count(page("http://anew.test"), -1) // it was under way when its host was met anew
	admit("http://anew.test", "")
	admit("http://anew.test", "")
	admit("http://anew.test", hostFull)
	l.forget("http://a.used.test") // it has left
	l.count(page("http://a.used.test"), 1)
	admit("http://a.used.test", domainFull)
}
