package frontier

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
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
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	shelf := l.Shelf('t')
	for i := from + 1; ; i++ {
		host := fmt.Sprintf("http://h%d.test", i)
		if err := l.Remove(context.Background(), host); err != nil { // what the last life left half done
			t.Fatal(err)
		}
		l.add(pages(host, 0, 30)...)
		l.role(host, Replica)
		var c Chunk
		for k := range 10 {
			c.Done = append(c.Done, page(host, 2*k).URL.Hash())
			c.Pages = append(c.Pages, PageRecord{Path: page(host, 2*k).URL.Path, Seen: time.Now(), Due: time.Now().Add(time.Duration(i+k) * time.Hour)})
		}
		l.imported(host, Chunk{Done: append(c.Done, 5), Pages: c.Pages, State: &HostState{SinceRequest: -1}})
		l.role(host, Role(i%int(roles)))
		if err := shelf.Put([]byte(host), []byte(host)); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("done %d\n", i)
	}
}
