package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/runlog"
)

// A peer's entry counts only as this node would have written it: else two nodes would add up other digests of the same.
func TestParseBlock(t *testing.T) {
	good := Block{On: "a.test", Version: 3, By: "ann", Node: "n", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Why: "<b>"}
	if b, err := parseBlock(good.entry()); err != nil || b != good {
		t.Fatalf("%v, %v", b, err)
	}
	for _, c := range [][2]string{
		{`"a.test"`, `"A.test"`}, {`"a.test"`, `"*"`}, {`"version":3`, `"version":0`}, {`"version":3`, `"version":9007199254740993`},
		{`"version":3`, `"version":-1`}, {`"version":3`, `"version":3,"more":1`}, {`"version":3`, `"version": 3`}, {`04:05Z`, `04:05+01:00`},
		{`\u003cb\u003e`, `<b>`}, {`\u003cb\u003e`, `\u001b[31m`}, {`{`, `[`}, {`"n"`, `"` + strings.Repeat("n", 101) + `"`},
	} {
		entry := strings.Replace(good.entry(), c[0], c[1], 1)
		if entry == good.entry() {
			t.Errorf("%s is not there", c[0])
		}
		if b, err := parseBlock(entry); err == nil {
			t.Errorf("%s: taken as %v", entry, b)
		}
	}
}

// Of two blocks all nodes choose the same one.
func TestNewerBlock(t *testing.T) {
	low, high := Block{On: "a", Version: 2, Why: "z"}, Block{On: "a", Version: 3, Why: "a"}
	if low.newer(high) || !high.newer(low) || high.newer(high) {
		t.Error("not the higher version holds")
	}
	at := high
	at.Why = "b"
	if high.newer(at) == at.newer(high) {
		t.Error("of one version both hold, or none")
	}
}

// Which hosts were sent where is remembered for an hour.
func TestSentHostsAreForgotten(t *testing.T) {
	s, now := newSentHosts(), time.Now()
	s.Add([2]string{"a", "n"}, now)
	s.Add([2]string{"b", "n"}, now.Add(time.Minute))
	if later := now.Add(sendAgainAfter); s.lately("a", "n", later) || !s.lately("b", "n", later) || s.lately("b", "m", now) {
		t.Errorf("it remembers %v", s.Keys())
	}
}

// TestRefusedSeedsAreNotKept: the next start would fail because of seeds that the scope does not take, as when there are too many.
func TestRefusedSeedsAreNotKept(t *testing.T) {
	scope := identity.Default()
	scope.SeedScope = identity.ScopeHost
	rules, err := identity.New(scope, nil)
	must(t, err)
	s := &told{node: &Node{rules: rules, cfg: Config{Node: Identity{Data: t.TempDir()}}}, changed: bell.New(), file: crawlFile{V: crawlFileVersion}}
	good, wrong := identity.URL{Host: "http://a.test", Path: "/"}, identity.URL{Host: "http://B.test", Path: "/"}
	must(t, s.seed([]identity.URL{good}))
	if err := s.seed([]identity.URL{wrong}); err == nil {
		t.Fatal("the scope takes any name")
	}
	good.Path = "/more" // it widens nothing
	must(t, s.seed([]identity.URL{good}))
	kept, err := readCrawlFile(s.node.cfg.Node.Data)
	if got := fmt.Sprint(kept.Seeds); err != nil || got != "[http://a.test/ http://a.test/more]" {
		t.Errorf("%s are kept: %v", got, err)
	}
}

// fullTold returns what a node knows that was told of so many blocks and directories in its earlier lives.
func fullTold(t *testing.T, blocks, files int) *told {
	rules, err := identity.New(identity.Default(), []identity.URL{{Host: "http://a.test", Path: "/"}})
	must(t, err)
	n := &Node{rules: rules, blocked: bell.New(), cfg: Config{Node: Identity{Data: t.TempDir()}}}
	n.runlog, err = runlog.Open(runlog.Config{Logs: t.TempDir(), LogFileBytes: 1 << 30}, runlog.Meta{}, runlog.Deps{Now: time.Now})
	must(t, err)
	t.Cleanup(func() { n.runlog.Close() })
	n.blocklist, err = blocklist.New(blocklist.Default(), blocklist.Deps{})
	must(t, err)
	n.operator = newOperator(n, nil)
	var had crawlFile
	for i := range blocks {
		had.Blocks = append(had.Blocks, Block{On: fmt.Sprintf("h%d.test", i), Version: 1, At: time.Unix(0, 0).UTC()})
	}
	for i := range files {
		had.Files = append(had.Files, filesOf("here", fmt.Sprintf("%05d", i)))
	}
	n.told, err = newTold(n, had)
	must(t, err)
	return n.told
}

// TestSidesNearTheBoundUnite: a node that is told more than it may tell itself takes it. It would refuse all calls of the peer otherwise.
func TestSidesNearTheBoundUnite(t *testing.T) {
	s := fullTold(t, mostBlocks, mostFiles)
	there := s.file.Blocks[0]
	there.On = "there.test"
	must(t, s.Unite([]string{there.entry(), filesOf("there", "dir")}, 1))
	if !s.Knows(1) || s.blockLocked(there.On) != there || len(s.whoHas("dir", []string{"there"})) != 1 {
		t.Error("the node does not know what it was told")
	}
	if err := s.has("here", []string{"more"}); err == nil {
		t.Error("the node tells of even more directories")
	}
	b := Block{On: "more.test", Version: 1}
	if err := s.addLocked([]Block{b}, nil, 1); err == nil {
		t.Error("the node blocks even more hosts")
	}
}

// TestWhatIsFullHindersNothingElse: with as many directories as there may be, hosts are still blocked, and with as many blocks a node still
// tells of its directories. Blocks can be ended.
func TestWhatIsFullHindersNothingElse(t *testing.T) {
	s := fullTold(t, 1, toldMost*mostFiles)
	b := Block{On: "there.test", Version: 1, At: time.Unix(0, 0).UTC()}
	if err := s.Unite([]string{b.entry(), filesOf("there", "dir")}, 1); err == nil || s.Knows(1) || s.blockLocked(b.On) != b {
		t.Errorf("a host is not blocked where there are too many directories: %v", err)
	}
	b.On = "other.test"
	must(t, s.addLocked([]Block{b}, nil, 1))
	if !rang(s.node.blocked) {
		t.Error("nobody drops what is blocked")
	}

	s = fullTold(t, toldMost*mostBlocks, 0)
	must(t, s.has("here", []string{"dir"}))
	must(t, s.Unite([]string{filesOf("there", "dir")}, 1))
	if len(s.whoHas("dir", []string{"here", "there"})) != 2 {
		t.Error("a directory is not known where there are too many blocks")
	}
	if rang(s.node.blocked) {
		t.Error("all hosts are looked through for what is blocked, because of directories")
	}
	if _, changed, err := s.node.operator.Block("h0.test", "operator", "", true); !changed || err != nil {
		t.Errorf("a block does not end: %v", err)
	}
}

func rang(b bell.Bell) bool {
	select {
	case <-b:
		return true
	default:
		return false
	}
}

// TestWhatIsToldIsBounded: however much peers tell, a node remembers so many digests of sets, and of directories of nodes. It refuses a set
// with more directories as a whole.
func TestWhatIsToldIsBounded(t *testing.T) {
	rules, err := identity.New(identity.Default(), []identity.URL{{Host: "http://a.test", Path: "/"}})
	must(t, err)
	s := &told{node: &Node{rules: rules}, covered: newCovered()}
	const most = 10_000
	for i := range uint64(most + 1) {
		must(t, s.Unite(nil, i+1))
	}
	if !s.Knows(most+1) || s.covered.Len() > most {
		t.Errorf("%d digests, with the last one: %v", s.covered.Len(), s.Knows(most+1))
	}
	s.mu.Lock()
	if !s.Knows(most) || s.Knows(1<<40) { // whoever calls does not wait for a slow disk
		t.Error("it is not known what was told while crawl.json is written")
	}
	s.mu.Unlock()
	var files []string
	for i := range 2*most + 1 {
		files = append(files, filesOf("a", fmt.Sprint("dir", i)))
	}
	if err := s.Unite(files, 1<<40); err == nil || len(s.file.Files) > 0 || s.Knows(1<<40) {
		t.Errorf("%d directories are remembered: %v", len(s.file.Files), err)
	}
}
