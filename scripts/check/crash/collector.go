package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/sink"
	"proxima/scripts/archive"
	"proxima/scripts/lab"
)

// collector receives packages and fails in every way it can.
type collector struct {
	dir, addr string

	// mu guards what follows.
	mu     sync.Mutex
	random *rand.Rand
	deaths int
	paused map[int]bool          // the lives that had to wait for it
	did    map[archive.Fault]int // PUTs by what it did to them
}

func newCollector(dir string, seed uint64) (*collector, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	addrs, err := lab.Addresses(subnet+"1", 1)
	if err != nil {
		return nil, err
	}
	return &collector{dir: dir, addr: addrs[0], random: rand.New(rand.NewPCG(seed, 1)), did: map[archive.Fault]int{}, paused: map[int]bool{}}, nil
}

func (c *collector) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// live starts and stops the collector until the context ends.
func (c *collector) live(ctx context.Context) error {
	for {
		l, err := net.Listen("tcp", c.addr)
		if err != nil {
			return fmt.Errorf("serve collector: %w", err)
		}
		server := &http.Server{Handler: &archive.Collector{Dir: c.dir, Fault: c.fault}, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(l) //nolint:errcheck // it ends with Close
		_ = bell.Sleep(ctx, time.Duration(500+c.draw(3000))*time.Millisecond)
		if err := server.Close(); err != nil { // breaks connections in the middle of transfers
			return fmt.Errorf("stop collector: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		c.deaths++
		c.mu.Unlock()
		_ = bell.Sleep(ctx, time.Duration(100+c.draw(1000))*time.Millisecond)
	}
}

// fault draws what happens to a request. Only PUTs go wrong.
func (c *collector) fault(r *http.Request) archive.Fault {
	if r.Method == http.MethodHead {
		return ""
	}
	d := archive.Fault("kept")
	if bad := []archive.Fault{archive.AnswerLost, archive.Half, archive.Refused, archive.Dropped}; c.draw(8) == 0 {
		d = bad[c.draw(len(bad))]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did[d]++
	return d
}

// watch notes whether the node waits for the collector.
func (c *collector) watch(of *crawl) {
	if used(filepath.Join(of.node.Data(), "sink")) > 1<<20/2 {
		c.paused[of.node.Life] = true
	}
}

const sinkConfig = `[sink]
url = "http://%s/in"
formats = ["warc", "pages"]
size_bytes = 131072
age = "2s"
disk_bytes = 1048576
`

// used is the size of the files in a directory.
func used(dir string) (n int64) {
	entries, _ := os.ReadDir(dir) // it may not be there yet
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// judge checks that each page is in exactly one package of each format.
func (c *collector) judge(ctx context.Context, of *crawl) (list []lab.Verdict, err error) {
	all, err := archive.Read(c.dir)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d lives waited for the collector, which died %d times; PUTs: %v\n", len(c.paused), c.deaths, c.did)
	want := of.site.Pages() // each format must have
	for _, format := range slices.Sorted(maps.Keys(all)) {
		packed, urls := all[format], len(want)
		if format == sink.WARC { // it has robots.txt, too
			urls++
		}
		v := lab.Verdict{Name: "packages of format " + format, Found: fmt.Sprintf("%d with %d records of %d URLs", len(packed.Manifests), packed.Records,
			len(packed.URLs)), Bound: fmt.Sprintf("a record for each of %d URLs", urls)}
		for _, page := range want {
			if n := packed.URLs["http://"+page]; n != 1 {
				v.Faults = append(v.Faults, fmt.Sprintf("%s is in %d packages", page, n))
			}
		}
		v.OK = len(v.Faults) == 0 && len(packed.URLs) == urls && packed.Records == urls
		list = append(list, v)
	}
	left := used(filepath.Join(of.node.Data(), "sink"))
	list = append(list, lab.Verdict{Name: "bytes left in the sink", Found: fmt.Sprint(left), Bound: "0", OK: left == 0})
	byWarcio, err := judgeByWarcio(ctx, all[sink.WARC])
	return append(list, byWarcio...), err
}

// judgeByWarcio lets warcio, an independent reader, read and index all archives, if it can be installed.
func judgeByWarcio(ctx context.Context, of *archive.Contents) ([]lab.Verdict, error) {
	warcio, err := archive.FindWarcio(ctx)
	if err != nil {
		fmt.Printf("NOT CHECKED with warcio: %v\n", err)
		return nil, nil
	}
	out, err := warcio.Run(ctx, "fetch/warc/testdata/read.mjs", of.Main...)
	if err != nil {
		return nil, err
	}
	answers := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var l struct{ Headers map[string]string }
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("read warcio's output: %w", err)
		}
		if kind := l.Headers["warc-type"]; kind == "response" || kind == "revisit" {
			answers++
		}
	}
	if out, err = warcio.Run(ctx, "fetch/warc/testdata/index.mjs", of.Main...); err != nil {
		return nil, err
	}
	ours, err := archive.IndexFields(of.Index)
	if err != nil {
		return nil, err
	}
	theirs, err := archive.IndexFields(slices.Collect(strings.Lines(string(out))))
	if err != nil {
		return nil, err
	}
	return []lab.Verdict{
		{Name: "answers that warcio " + archive.WarcioVersion + " reads", Found: fmt.Sprint(answers), Bound: fmt.Sprint(of.Records), OK: answers == of.Records},
		{Name: "index by warcio", Found: fmt.Sprintf("%d lines", len(theirs)), Bound: fmt.Sprintf("ours of %d", len(ours)), OK: slices.Equal(ours, theirs)},
	}, nil
}
