package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"proxima/node/sink"
	"proxima/scripts/archive"
)

// report checks that each page is in exactly one package of each format.
func (c *collector) report(ctx context.Context, of *crawl) (ok bool, err error) {
	all, err := archive.Read(c.dir)
	if err != nil {
		return false, err
	}
	fmt.Printf("%d lives waited for the collector, which died %d times; PUTs: %v\n", len(c.paused), c.deaths, c.did)
	ok = true
	fail := func(format string, args ...any) {
		ok = false
		fmt.Printf("FAILED: "+format+"\n", args...)
	}
	want := of.site.Pages() // each format must have
	for format, packed := range all {
		robots := 0
		if format == sink.WARC {
			robots = 1
		}
		fmt.Printf("%-6s %d packages, %d records, %d URLs of %d\n", format, len(packed.Manifests), packed.Records, len(packed.URLs), len(want)+robots)
		missing, twice := 0, 0
		for _, page := range want {
			switch n := packed.URLs["http://"+page]; {
			case n == 0:
				missing++
			case n > 1:
				twice++
			}
		}
		if missing > 0 || twice > 0 || len(packed.URLs) != len(want)+robots || packed.Records != len(packed.URLs) {
			fail("%s: %d URLs are in no package, %d in several; %d records", format, missing, twice, packed.Records)
		}
	}
	if left := used(filepath.Join(of.node.Data(), "sink")); left != 0 {
		fail("%d bytes remain in the sink", left)
	}
	err = readByWarcio(ctx, all[sink.WARC], fail)
	return ok, err
}

// readByWarcio lets warcio, an independent reader, read and index all archives.
func readByWarcio(ctx context.Context, of *archive.Contents, fail func(string, ...any)) error {
	warcio, err := archive.FindWarcio(ctx)
	if err != nil {
		fmt.Printf("NOT CHECKED with warcio: %v\n", err)
		return nil
	}
	out, err := warcio.Run(ctx, "fetch/warc/testdata/read.mjs", of.Main...)
	if err != nil {
		return err
	}
	answers := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var l struct{ Headers map[string]string }
		if err := dec.Decode(&l); err != nil {
			return fmt.Errorf("read warcio's output: %w", err)
		}
		if kind := l.Headers["warc-type"]; kind == "response" || kind == "revisit" {
			answers++
		}
	}
	if out, err = warcio.Run(ctx, "fetch/warc/testdata/index.mjs", of.Main...); err != nil {
		return err
	}
	ours, err := archive.IndexFields(of.Index)
	if err != nil {
		return err
	}
	theirs, err := archive.IndexFields(slices.Collect(strings.Lines(string(out))))
	if err != nil {
		return err
	}
	fmt.Printf("warcio %s reads %d answers in %d files; its index and ours have %d and %d lines\n", archive.WarcioVersion, answers, len(of.Main), len(theirs), len(ours))
	if answers != of.Records || !slices.Equal(ours, theirs) {
		fail("warcio reads or indexes the archives differently")
	}
	return nil
}
