package frontier

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of a host that is not on the workbench, its record says why.
func TestWhyAHostIsNotOnTheWorkbench(t *testing.T) {
	const nothing = "it is not on the workbench: it has no pending URLs"
	for _, c := range []struct {
		role    Role
		givenUp bool
		after   time.Duration
		want    string
	}{
		{Owned, false, 0, nothing},
		{Leaving, false, 0, "it is being handed over"},
		{Replica, false, 0, nothing}, // the node knows whose it is
		{Owned, true, 20 * time.Minute, "it was given up: no connection; URLs of it are dropped for another 40m0s"},
		{Owned, true, 2 * time.Hour, nothing},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			l := begin(t, "", cfg, polite, Deps{})
			l.add(pages(aHost, 0, 1)...)
			if c.givenUp {
				_, err := l.giveUp(t.Context(), aHost, "no connection", time.Now().Add(time.Hour))
				must(t, err)
			}
			l.role(aHost, c.role)
			time.Sleep(c.after)
			if s := l.Explain(aHost); s.Known || !strings.HasPrefix(s.Sentence, c.want) {
				t.Errorf("%+v: %+v", c, s)
			}
		})
	}
}
