package frontier

import (
	"testing"
	"testing/synctest"
	"time"
)

// A wait that an operator ended does not come back with a copy of the host that is older than that, nor does a copy keep it when it hears
// of that. What the host was told since counts.
func TestARetryHoldsOverAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		cfg.Shared = true
		owner, replica := begin(t, "", cfg, polite, Deps{}), begin(t, "", cfg, polite, Deps{})
		told := Chunk{State: &HostState{SinceRequest: time.Second, Wait: time.Hour, Level: 3}}
		unite := func(from, to *life) {
			t.Helper()
			s, err := from.StateOf(t.Context(), host)
			must(t, err)
			to.imported(host, Chunk{State: s})
		}
		waits := func(want time.Duration, level uint8) {
			t.Helper()
			for who, l := range map[string]*life{"the owner": owner, "the replica": replica} {
				if s, err := l.StateOf(t.Context(), host); err != nil || s.Wait != want || s.Level != level {
					t.Errorf("%s waits %v at level %d, want %v at %d: %v", who, s.Wait, s.Level, want, level, err)
				}
			}
		}
		owner.imported(host, told)
		owner.role(host, Owned)
		unite(owner, replica)
		waits(time.Hour, 3)
		must(t, owner.Retry(t.Context(), host))
		unite(replica, owner)
		unite(owner, replica)
		waits(0, 0)
		told.State.Retries, told.State.Wait, told.State.Level = 1, time.Minute, 1
		replica.imported(host, told)
		unite(replica, owner)
		waits(time.Minute, 1)
	})
}
