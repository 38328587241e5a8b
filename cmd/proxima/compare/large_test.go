package compare

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"proxima/node/runlog"
)

// probe is a context that calls a function whenever it is asked for its error, as the reading of lines does.
type probe struct {
	context.Context
	do func()
}

func (p probe) Err() error {
	p.do()
	return p.Context.Err()
}

// TestHeapHasABound: a download takes no more than its record with room to grow, and too many are an error that says so.
func TestHeapHasABound(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 40 MB of logs: not with -short")
	}
	const downloads = 72_000 // of different pages, some 620 bytes each
	w := manyNodes(1, 8, 200)
	b := newBed(t, t.TempDir(), w)
	for i := range downloads / len(b.nodes) {
		host, batch := w.Servers[i%len(w.Servers)].Hosts[0], fmt.Sprintf("%.12s-1-%d", b.nodes[0].id, i/10_000)
		for n, node := range b.nodes {
			node.fetch(10+float64(i)/50, runlog.Fetch{
				URL:     fmt.Sprintf("http://%s/a/fairly/long/path/as/they/are/on/the/web/%08d.html", host, i),
				TotalMs: 50 + float64((i*7919+n*104729)%1000), Bytes: 20_000, BodyBytes: 20_000, Protocol: "http/1.1",
				Origin: runlog.OriginAssigned, Label: w.Assigners[n%4], Batch: batch, Home: b.nodes[0].id, Epoch: 3, Links: 30})
		}
	}
	dir := b.write()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most := heap(), int64(0)
	r, err := Read(probe{t.Context(), func() { most = max(most, heap()-before) }}, []string{dir}, Options{})
	if err != nil || len(r.Assigners) != 4 || r.Assigners[0].Downloaded == 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	t.Logf("%.1f MiB alive", float64(most)/(1<<20))
	if most > downloads*100+4<<20 {
		t.Errorf("%d bytes alive with %d downloads", most, downloads)
	}
	if _, err := Read(t.Context(), []string{dir}, Options{most: 1000}); err == nil || !strings.Contains(err.Error(), "more than 1000 downloads") {
		t.Errorf("beyond the bound: %v", err)
	}
}
