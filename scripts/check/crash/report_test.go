package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"proxima/scripts/lab"
)

// at is a moment of a test, in ms.
func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// asked is a request of a life.
func asked(path string, life, start, end int, whole bool) lab.Request {
	r := lab.Request{Path: path, Life: life, Start: at(start), End: at(end)}
	if whole {
		r.Status = 200
	}
	return r
}

func TestAccount(t *testing.T) {
	kills := []killed{{at: at(100)}, {at: at(5000)}}
	for _, c := range []struct {
		name                       string
		requests                   []lab.Request
		cut, unwritten, wrong, fly int
	}{
		{"once", []lab.Request{asked("/a", 0, 10, 20, true)}, 0, 0, 0, 0},
		{"cut by a kill", []lab.Request{asked("/a", 0, 90, 101, false), asked("/a", 1, 200, 210, true)}, 1, 0, 0, 1},
		{"answered after the kill", []lab.Request{asked("/a", 0, 90, 101, true), asked("/a", 1, 200, 210, true)}, 1, 0, 0, 1},
		{"not recorded", []lab.Request{asked("/a", 0, 90, 99, true), asked("/a", 1, 200, 210, true)}, 0, 1, 0, 0},
		{"long recorded", []lab.Request{asked("/a", 1, 200, 210, true), asked("/a", 2, 6000, 6001, true)}, 0, 1, 1, 0},
		{"twice in a life", []lab.Request{asked("/a", 0, 10, 20, true), asked("/a", 0, 30, 40, true)}, 0, 0, 1, 0},
		{"twice in the last life", []lab.Request{asked("/a", 2, 6000, 6001, true), asked("/a", 2, 6002, 6003, true)}, 0, 0, 1, 0},
	} {
		a := newAccount(c.requests, kills, time.Second)
		fly := a.inFlight[0] + a.inFlight[1]
		if a.cut != c.cut || len(a.unwritten) != c.unwritten || len(a.wrong) != c.wrong || fly != c.fly {
			t.Errorf("%s: %+v, in flight %d; want cut %d, unwritten %d, wrong %d, in flight %d",
				c.name, a, fly, c.cut, c.unwritten, c.wrong, c.fly)
		}
	}
}

func TestReadLog(t *testing.T) {
	dir := t.TempDir()
	lines := `{"v":1,"boot":1,"seq":1,"url":"http://h/a","status":200}
{"v":1,"boot":1,"seq":2,"url":"http://h/b","status":0}
{"v":1,"boot":1,"se
{"v":1,"boot":2,"seq":1,"url":"http://h/b","status":404}
{"v":1,"boot":2,"seq":3,"url":"http://h/c","status":200}
`
	if err := os.WriteFile(filepath.Join(dir, "fetch.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := readLog(dir)
	if err != nil || l.lines != 4 || l.torn != 1 || len(l.boots) != 2 || len(l.gaps) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	got := l.without([]lab.Request{{Path: "/a"}, {Path: "/b"}})
	if len(got) != 1 || got[0] != "/c: 1 lines, 0 requests" {
		t.Errorf("lines without a request: %q", got)
	}
}
