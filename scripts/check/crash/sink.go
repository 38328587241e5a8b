package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"proxima/node/sink"
	"proxima/scripts/archive"
	"proxima/scripts/lab"
)

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
