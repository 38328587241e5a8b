package crawl

import (
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch"
)

// A host that redirects whole is believed for an hour after its last redirect, for as many pages as were found at the other scheme.
func TestHostThatRedirectsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMoved(), policy(t)
		plain, secure := mustParse(t, "http://a.test/x"), mustParse(t, "https://a.test/x")
		redirects := func() { m.learn(plain, &fetch.Result{Status: 301, Location: secure.String()}, p.Rules, time.Now()) }
		spares := func(when string, want bool) {
			t.Helper()
			if to, ok := m.spare(plain); ok != want || ok && to != secure {
				t.Errorf("%s: %v, to %s", when, ok, to)
			}
		}
		for range movedAfter - 1 {
			redirects()
		}
		for range 3 {
			m.learn(secure, &fetch.Result{Status: 200}, p.Rules, time.Now())
		}
		spares("before the third redirect", false)
		redirects()
		for range 4 {
			m.learn(secure, &fetch.Result{Status: 200}, p.Rules, time.Now())
		}
		spares("with pages there", true)
		time.Sleep(movedFor)
		spares("an hour later", true)
		redirects()
		time.Sleep(movedFor)
		spares("an hour after another redirect", true)
		time.Sleep(time.Second)
		spares("later", false)
	})
}
