package ownership

import (
	"context"
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// A commit gets no answer, and then the former owner reaches neither the next one nor the home. The next owner crawls the
// host, so the former one must not.
func TestHostOfAnUnansweredCommitStaysFrozen(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(5, 1, 2, 3, 4)
		s.hand(host, 1, 3) // an owner that is not the home
		time.Sleep(5 * time.Second)
		committed := false
		s.lose(func(l letter) bool {
			committed = committed || l.res != nil && is[*wire.CommitRequest](l)
			return committed && (l.from+l.to == 3+4 || l.from == 3 && l.to == 1)
		})
		go s.node(3).own.HandOff(s.t.Context(), host, idOf(4), true, "test") //nolint:errcheck // it fails
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			var crawling []int
			for _, p := range s.all() {
				if slices.ContainsFunc(p.disk.tasks(), func(task [2]string) bool { return task[0] == host }) {
					crawling = append(crawling, p.at)
				}
			}
			if len(crawling) > 1 {
				t.Errorf("nodes %v crawl the host at once", crawling)
				break
			}
		}
		s.lose(nil)
		time.Sleep(2 * time.Minute)
		s.mustHave(host, 5, 4, 1)
	})
}

// The next owner is still busy with the first question when it is asked again. It commits, so the former owner must not crawl the host.
func TestHostStaysFrozenWhileACommitMayBeUnderWay(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(5, 1, 2, 3, 4)
		busy := true
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.CommitResponse); ok && busy {
				busy, res.Step, res.Reason = false, wire.Step_STEP_LATER, "it is busy with the host"
			}
		})
		if err := s.node(1).own.HandOff(t.Context(), host, idOf(3), true, "test"); err == nil {
			t.Error("it counts as handed over")
		}
		if role, _, err := s.node(1).disk.RoleOf(t.Context(), host); err != nil || role == frontier.Owned {
			t.Errorf("the former owner has the host as %v, %v", role, err)
		}
		time.Sleep(time.Minute)
		if owners := s.owners(host); !slices.Equal(owners, []int{3}) {
			t.Errorf("it is owned by %v", owners)
		}
	})
}

// The next owner differs when it is to commit, and then does not answer any more. It has committed nothing, so the host is crawled on.
func TestHostThatDiffersIsCrawledOn(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, asked := s.found(5, 1, 2, 3), false
		s.watch(func(l letter) {
			req, ok := l.req.(*wire.StoreRequest)
			if asked = asked || is[*wire.CommitRequest](l); ok && l.to == 3 && l.res.(*wire.StoreResponse).GetAnswers()[0].GetStep() == wire.Step_STEP_STORED && req.GetItems()[0].GetDigest() != nil {
				s.node(3).spoil(host, 1)
			}
		})
		s.lose(func(l letter) bool { return asked && l.to == 3 && !is[*wire.CommitRequest](l) })
		if err := s.node(1).own.HandOff(s.t.Context(), host, idOf(3), true, "test"); err == nil || !asked {
			t.Errorf("asked to commit, %v: %v", asked, err)
		}
		if owners := s.owners(host); !slices.Equal(owners, []int{1}) {
			t.Errorf("it is owned by %v", owners)
		}
	})
}

// A caller gives up while the answer to its hand-off comes. The role changes all the same, whatever the answer is.
func TestHandOffOfACallerThatGivesUp(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		for _, refused := range []bool{true, false} {
			ctx, cancel := context.WithCancel(s.t.Context())
			s.watch(func(l letter) {
				if is[*wire.CommitRequest](l) {
					cancel()
				}
			})
			s.node(2).own.draining.Store(refused)
			if err := s.node(1).own.HandOff(ctx, host, idOf(2), true, "test"); (err != nil) != refused || ctx.Err() == nil {
				t.Errorf("refused, %v: %v", refused, err)
			}
			if is, _, err := s.node(1).disk.RoleOf(s.t.Context(), host); err != nil || (is == frontier.Owned) != refused || is == frontier.Leaving {
				t.Errorf("refused, %v: the host is %v, %v", refused, is, err)
			}
		}
	})
}

// Each hand-off that gets no answer is asked for as often as the one before, whatever became of that.
func TestEveryCommitIsRepeatedAsOften(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.node(3).own.draining.Store(true)
		for _, least := range []int{2, 1 + maxCommits} { // the first is refused when it is repeated, the second never answered
			asked := 0
			s.lose(func(l letter) bool {
				if is[*wire.CommitRequest](l) && l.res == nil {
					asked++
				}
				return is[*wire.CommitRequest](l) && (asked < least || least > 2)
			})
			if err := s.node(1).own.HandOff(t.Context(), host, idOf(3), true, "test"); err == nil {
				t.Fatal("it counts as handed over")
			}
			time.Sleep(2 * time.Minute)
			if owners := s.owners(host); asked != least || !slices.Equal(owners, []int{1}) {
				t.Errorf("asked %d times, not %d; owned by %v", asked, least, owners)
			}
		}
	})
}
