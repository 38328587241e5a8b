package frontier

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestKill9 kills a process in the midst of changes. Whatever it had been told to be done is on disk.
func TestKill9(t *testing.T) {
	if dir := os.Getenv("FRONTIER_KILL_DIR"); dir != "" {
		toBeKilled(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	said := 0
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill9$")
		cmd.Env = append(os.Environ(), "FRONTIER_KILL_DIR="+dir, "FRONTIER_KILL_FROM="+strconv.Itoa(said))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < 40+17*round && lines.Scan(); {
			if i, ok := strings.CutPrefix(lines.Text(), "done "); ok {
				if said, err = strconv.Atoi(i); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		cmd.Process.Kill()
		cmd.Wait()

		cfg, polite := testConfig()
		l := begin(t, dir, cfg, polite, Deps{})
		shelf := l.Shelf('t')
		for i := 1; i <= said; i++ {
			host := fmt.Sprintf("http://h%d.test", i)
			l.roleIs(host, Role(i%int(roles)), true)
			d := l.digest(host)
			if d.Accepted != 31 || d.Done != 11 || d.Pages != 10 || d != l.scanned(host) {
				t.Errorf("%s after the kill: %+v", host, d)
			}
			if v, err := shelf.Get([]byte(host)); string(v) != host || err != nil {
				t.Errorf("the shelf has %q for %s, %v", v, host, err)
			}
		}
		l.stop()
		if said == 0 {
			t.Fatal("the process has done nothing")
		}
	}
	t.Logf("%d steps in four lives", said)
}

func toBeKilled(t *testing.T, dir string) {
	cfg, polite := testConfig()
	l := begin(t, dir, cfg, polite, Deps{})
	from, err := strconv.Atoi(os.Getenv("FRONTIER_KILL_FROM"))
	must(t, err)
	shelf := l.Shelf('t')
	for i := from + 1; ; i++ {
		host := fmt.Sprintf("http://h%d.test", i)
		must(t, l.Remove(context.Background(), host)) // what the last life left half done
		l.add(pages(host, 0, 30)...)
		l.role(host, Replica)
		var c Chunk
		for k := range 10 {
			c.Done = append(c.Done, page(host, 2*k).URL.Hash())
			c.Pages = append(c.Pages, PageRecord{Path: page(host, 2*k).URL.Path, Seen: time.Now(), Due: time.Now().Add(time.Duration(i+k) * time.Hour)})
		}
		l.imported(host, Chunk{Done: append(c.Done, 5), Pages: c.Pages, State: &HostState{SinceRequest: -1}})
		l.role(host, Role(i%int(roles)))
		must(t, shelf.Put([]byte(host), []byte(host)))
		fmt.Printf("done %d\n", i)
	}
}

// After a crash amid the drop of a large host nothing says of a block that is gone which of its URLs are done. A later block may get its
// number.
func TestCrashAmidADrop(t *testing.T) {
	dir := t.TempDir()
	cfg, polite := ownServers(testConfig())
	const host = "http://h1.test"
	synctest.Test(t, func(t *testing.T) {
		l, arm := breaking(t, dir, cfg, polite, false)
		l.add(page(host, 0)) // from here on the host is owned
		for i := range maxAtomicKeys {
			l.imported(host, Chunk{Pending: []PendingURL{{Path: fmt.Sprintf("/old/%d", i)}}})
		}
		l.add(pages(host, 1, 2)...)
		err := l.ledger.do(t.Context(), alone, func(b *batch) error {
			p := &pending{entry: entry{hash: page(host, 1).URL.Hash()}, ref: &blockRef{seq: l.ledger.seq, n: 2}}
			return l.ledger.decideFinish(b, &taskEnd{host: host, pending: p})
		})
		must(t, err)
		synctest.Wait()
		arm(1)
		if _, err := l.DropHost(t.Context(), host, "test"); !errors.Is(err, errBroken) {
			t.Fatalf("the host is dropped with %v", err)
		}
		if err := l.ends(); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := crawling(t, dir, cfg, polite)
		if s := l.Status(); s.Pending != 2 {
			t.Errorf("of %d blocks 2 are left, with %d pending URLs", maxAtomicKeys+2, s.Pending)
		}
		l.add(pages(host, 3, 2)...)
		if got := l.work(1 << 20); len(got) != 4 {
			t.Errorf("of 2 old and 2 new pages only %q are downloaded", got)
		}
		if s := l.Status(); s.Pending != 0 {
			t.Errorf("%d URLs are pending at the end", s.Pending)
		}
	})
}

// After a crash amid the removal of a host with many pages they can come again, and each is there once.
func TestCrashAmidARemoval(t *testing.T) {
	dir := t.TempDir()
	cfg, polite := recrawlConfig()
	const host = "http://h1.test"
	var c Chunk
	seen := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, link := range pages(host, 0, 2*maxAtomicKeys) {
		c.Pages = append(c.Pages, PageRecord{Path: link.URL.Path, Seen: seen, Due: seen.Add(time.Hour)})
	}
	synctest.Test(t, func(t *testing.T) {
		l, arm := breaking(t, dir, cfg, polite, false)
		l.imported(host, c)
		arm(2)
		if err := l.Remove(t.Context(), host); !errors.Is(err, errBroken) {
			t.Fatalf("the host is removed with %v", err)
		}
		if err := l.ends(); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, dir, cfg, polite, Deps{})
		if d := l.digest(host); d.Pages == 0 || d.Pages == uint64(len(c.Pages)) || d != l.scanned(host) {
			t.Errorf("left is %+v, on disk %+v", d, l.scanned(host))
		}
		l.imported(host, c)
		if d := l.digest(host); d.Pages != uint64(len(c.Pages)) || d != l.scanned(host) {
			t.Errorf("of %d pages there are %+v, on disk %+v", len(c.Pages), d, l.scanned(host))
		}
	})
}
