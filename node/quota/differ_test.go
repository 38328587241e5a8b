package quota

import (
	"context"
	"strings"
	"testing"
)

// The limit was raised at all nodes but one. Whoever keeps the book, that node alone ends at the old limit, and the others go on to the new one.
func TestRaisedLimitHoldsAtThoseThatHaveIt(t *testing.T) {
	for old := range 3 {
		calmly(t, 3, Limits{MaxPages: 600}, func(ctx context.Context, t *testing.T, w *world) {
			w.nodes[old].limits.MaxPages = 300
			w.startAll(ctx, 6000)
			w.pass(60)
			w.mu.Lock()
			ended, keeper := w.nodes[old].ended, w.nodes[old].view.Drawn("quota")
			w.mu.Unlock()
			if keeper == w.nodes[old].id {
				if ended != "max_pages" || w.asked != 300 {
					t.Errorf("the node with the old limit, which keeps the book, ended by %q after %d pages", ended, w.asked)
				}
				w.nodes[old].stop()
				w.pass(60)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.asked != 600 {
				t.Errorf("node %d has the old limit: %d pages are asked for", old, w.asked)
			}
			for i, f := range w.nodes {
				told := strings.Join(f.warned, "; ")
				if i != old && f.ended != "max_pages" || (i == old || f.id == keeper || keeper == w.nodes[old].id) != strings.Contains(told, "has other limits than this node") {
					t.Errorf("node %d has the old limit: node %d ended by %q, and warned %q", old, i, f.ended, told)
				}
			}
		})
	}
}

// A node without any limit tells its operator that others have some. If it were to keep the book, nobody is granted pages, and all say where to look.
func TestNodeWithoutTheLimitOfOthers(t *testing.T) {
	for at := range 3 {
		calmly(t, 3, Limits{MaxPages: 600}, func(ctx context.Context, t *testing.T, w *world) {
			w.nodes[at].limits = Limits{}
			w.startAll(ctx, 100)
			w.pass(60)
			for i, f := range w.nodes {
				w.mu.Lock()
				keeper, warned, may := f.view.Drawn("quota"), f.warned, f.may
				w.mu.Unlock()
				why, want := f.quota.Why(), ""
				switch {
				case i == at:
					want = "has other limits than this node"
				case keeper == w.nodes[at].id:
					want = keeper + ", which keeps the book, grants nothing"
				}
				if !strings.Contains(why, want) || want == "" && (why != "" || may == 0) || len(warned) == 0 && keeper == w.nodes[at].id {
					t.Errorf("node %d has no limit: node %d says %q, warned %q, and may ask for %d pages", at, i, why, warned, may)
				}
			}
		})
	}
}
