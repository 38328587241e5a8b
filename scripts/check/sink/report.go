package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"proxima/node/sink"
	"proxima/scripts/lab"
)

// contents sums up the packages of one format.
type contents struct {
	packages, records int
	files             []string       // main files
	index             []string       // lines of all index files
	urls              map[string]int // occurrences
}

// read reads all packages in a directory by their manifests.
func read(dir string) (all map[string]*contents, err error) {
	all = map[string]*contents{sink.WARC: {urls: map[string]int{}}, sink.Pages: {urls: map[string]int{}}}
	manifests, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range manifests {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var m sink.Manifest
		if err := json.Unmarshal(text, &m); err != nil || all[m.Format] == nil {
			return nil, fmt.Errorf("%s: %q is no manifest: %w", filepath.Base(name), text, err)
		}
		of := all[m.Format]
		of.packages++
		of.records += m.Records
		for i, f := range m.Files {
			b, err := os.ReadFile(filepath.Join(dir, f.Name))
			if err != nil {
				return nil, err
			}
			if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 {
				return nil, fmt.Errorf("%s is not what its manifest says", f.Name)
			}
			if i > 0 {
				of.index = append(of.index, strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")...)
				continue
			}
			of.files = append(of.files, filepath.Join(dir, f.Name))
			if err := of.count(m.Format, b); err != nil {
				return nil, fmt.Errorf("read %s: %w", f.Name, err)
			}
		}
	}
	return all, nil
}

// count counts the URLs of a main file.
func (c *contents) count(format string, b []byte) error {
	var in io.Reader
	var err error
	if format == sink.Pages {
		in, err = zstd.NewReader(bytes.NewReader(b))
	} else {
		in, err = gzip.NewReader(bytes.NewReader(b))
	}
	if err != nil {
		return err
	}
	response := false
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if format == sink.Pages {
			var p sink.Page
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				return err
			}
			c.urls[p.URL]++
			continue
		}
		if kind, ok := strings.CutPrefix(line, "WARC-Type: "); ok {
			response = kind == "response\r\n" || kind == "revisit\r\n"
		}
		if url, ok := strings.CutPrefix(line, "WARC-Target-URI: "); ok && response {
			c.urls[strings.TrimSpace(url)]++
		}
	}
}

// report prints the result and reports whether all held.
func report(ctx context.Context, s settings, site *lab.Site, c *collector, paused int, took time.Duration) (ok bool, err error) {
	all, err := read(c.dir)
	if err != nil {
		return false, err
	}
	fmt.Printf("%d kills in %v; %d lives waited for the collector, which died %d times; PUTs: %v\n", s.Kills, took.Round(100*time.Millisecond), paused, c.deaths, c.did)
	ok = true
	fail := func(format string, args ...any) {
		ok = false
		fmt.Printf("FAILED: "+format+"\n", args...)
	}
	want := expected(site)
	for format, of := range all {
		robots := 0
		if format == sink.WARC {
			robots = 1
		}
		fmt.Printf("%-6s %d packages, %d records, %d URLs of %d\n", format, of.packages, of.records, len(of.urls), len(want)+robots)
		missing, twice := 0, 0
		for _, url := range want {
			switch n := of.urls[url]; {
			case n == 0:
				missing++
			case n > 1:
				twice++
			}
		}
		if missing > 0 || twice > 0 || len(of.urls) != len(want)+robots || of.records != len(of.urls) {
			fail("%s: %d URLs are in no package, %d in several; %d records", format, missing, twice, of.records)
		}
	}
	repeats := 0
	seen := map[string]bool{}
	for _, r := range site.Requests() {
		if seen[r.Page()] {
			repeats++
		}
		seen[r.Page()] = true
	}
	fmt.Printf("downloaded again because of kills: %d\n", repeats)
	if left := used(filepath.Join(s.Data(), "sink")); left != 0 {
		fail("%d bytes remain in the sink", left)
	}
	return ok, errors.Join(readByWarcio(ctx, all[sink.WARC], fail))
}

// readByWarcio lets warcio, an independent reader, read and index all archives.
func readByWarcio(ctx context.Context, of *contents, fail func(string, ...any)) error {
	const version = "2.4.11"
	node, err := exec.LookPath("node")
	npm, e := exec.LookPath("npm")
	if err = errors.Join(err, e); err != nil {
		fmt.Printf("NOT CHECKED with warcio: %v\n", err)
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "proxima-test", "warcio-"+version)
	module := filepath.Join(dir, "node_modules", "warcio", "dist", "index.js")
	if _, err := os.Stat(module); err != nil {
		install := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "warcio@"+version)
		if out, err := install.CombinedOutput(); err != nil {
			fmt.Printf("NOT CHECKED with warcio: npm: %v\n%s", err, out)
			return nil
		}
	}
	run := func(script string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("fetch", "warc", "testdata", script), module}, of.files...)...)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			return nil, fmt.Errorf("warcio: %v\n%s", err, &complaints)
		}
		return out, nil
	}
	out, err := run("read.mjs")
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
	if out, err = run("index.mjs"); err != nil {
		return err
	}
	fields := func(lines []string) (all []string, err error) {
		for _, line := range lines {
			key, text, _ := strings.Cut(line, " {")
			var l map[string]string
			if err := json.Unmarshal([]byte("{"+text), &l); err != nil {
				return nil, fmt.Errorf("%w in %q", err, line)
			}
			all = append(all, fmt.Sprint(key, l))
		}
		slices.Sort(all)
		return all, nil
	}
	ours, err := fields(of.index)
	if err != nil {
		return err
	}
	theirs, err := fields(strings.SplitAfter(strings.TrimSuffix(string(out), "\n"), "\n"))
	if err != nil {
		return err
	}
	fmt.Printf("warcio %s reads %d answers in %d files; its index and ours have %d and %d lines\n", version, answers, len(of.files), len(theirs), len(ours))
	if answers != of.records || !slices.Equal(ours, theirs) {
		fail("warcio reads or indexes the archives differently")
	}
	return nil
}
