package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// large writes the logs of a comparison with that many downloads, some 620 bytes each, all of different pages.
func large(t testing.TB, dir string, downloads int) (bytes int64) {
	t.Helper()
	w := manyNodes(1, 8, 200)
	b := newBed(t, dir, w)
	pages := downloads / len(b.nodes)
	for i := range pages {
		server := w.Servers[i%len(w.Servers)]
		for n, node := range b.nodes {
			second := 10 + float64(i)/50
			f := runlog.Fetch{URL: fmt.Sprintf("http://%s/a/fairly/long/path/as/they/are/on/the/web/%08d.html", server.Hosts[0], i),
				Host:   server.Hosts[0],
				Server: server.Addr.String(), TotalMs: 50 + float64((i*7919+n*104729)%1000), Bytes: 20_000, BodyBytes: 20_000, Protocol: "http/1.1",
				Origin: runlog.OriginAssigned, Label: w.Assigners[n%4], Batch: fmt.Sprintf("%.12s-1-%d", b.nodes[0].id,
					i/10_000), Home: b.nodes[0].id, Epoch: 3, Links: 30}
			node.fetch(second, f)
		}
	}
	b.write()
	err := filepath.WalkDir(filepath.Join(dir, rundir.NodesFolder), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			bytes += info.Size()
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// probe is a context that calls a function whenever it is asked for its error, as the reading of lines does.
type probe struct {
	context.Context
	do func()
}

func (p probe) Err() error {
	p.do()
	return p.Context.Err()
}

// liveHeap reads logs and returns the most that was alive on the heap meanwhile, over what was before.
func liveHeap(t testing.TB, dir string) (most int64) {
	t.Helper()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	r, err := Read(probe{t.Context(), func() { most = max(most, heap()-before) }}, []string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Assigners) != 4 || r.Assigners[0].Downloaded == 0 {
		t.Fatalf("%+v", r.Assigners)
	}
	return most
}

// TestHeapHasABound: a download takes no more than its record with room to grow, and too many are an error that says so.
func TestHeapHasABound(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 40 MB of logs: not with -short")
	}
	const downloads = 72_000
	dir := filepath.Join(t.TempDir(), "big")
	size := large(t, dir, downloads)
	heap := liveHeap(t, dir)
	t.Logf("%d MB of logs: %.1f MiB alive", size>>20, float64(heap)/(1<<20))
	if heap > downloads*100+4<<20 {
		t.Errorf("%d bytes alive with %d downloads", heap, downloads)
	}
	if _, err := Read(t.Context(), []string{dir}, Options{most: 1000}); err == nil || !strings.Contains(err.Error(), "more than 1000 downloads") {
		t.Errorf("beyond the bound: %v", err)
	}
}

// BenchmarkRead reads 200 MB of logs. It says how much was alive on the heap, and the most that the process had.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	size := large(b, dir, 336_000)
	for b.Loop() {
		began := time.Now()
		if _, err := Read(context.Background(), []string{dir}, Options{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/1e6/time.Since(began).Seconds(), "MB/s")
	}
	b.ReportMetric(float64(liveHeap(b, dir))/(1<<20), "MiB-alive")
	b.ReportMetric(float64(size)/1e6, "MB")
}
