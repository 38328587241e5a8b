// Package archive reads the packages of a sink as a stranger would: by their manifests, with the readers that other projects use. It shares
// no code with the sink.
package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Manifest is the part of a manifest that readers need.
type Manifest struct {
	Name, Format, Node, Run, Version string
	First, Last                      time.Time
	Records                          int
	Bytes                            int64
	Files                            []struct {
		Name, SHA256 string
		Bytes        int64
	}
}

// Contents sums up the packages of one format.
type Contents struct {
	Manifests []Manifest
	Records   int            // of all manifests
	Main      []string       // paths of the main files
	Index     []string       // lines of all index files
	URLs      map[string]int // how often each is in a main file
}

// Read reads all packages in a directory, by format. It fails if a file is not what a manifest says, or in no package.
func Read(dir string) (map[string]*Contents, error) {
	all := map[string]*Contents{"warc": {URLs: map[string]int{}}, "pages": {URLs: map[string]int{}}}
	manifests, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	files := len(manifests)
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var m Manifest
		if err := json.Unmarshal(text, &m); err != nil || all[m.Format] == nil || m.Name+".json" != filepath.Base(path) || m.Records == 0 {
			return nil, errors.Join(fmt.Errorf("%s: %q is no manifest", filepath.Base(path), text), err)
		}
		files += len(m.Files)
		if err := all[m.Format].add(dir, m); err != nil {
			return nil, fmt.Errorf("read package %s: %w", m.Name, err)
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != files {
		return nil, errors.Join(fmt.Errorf("%d of %d files belong to packages", files, len(found)), err)
	}
	return all, nil
}

func (c *Contents) add(dir string, m Manifest) error {
	records, size := 0, int64(0)
	for i, f := range m.Files {
		path := filepath.Join(dir, f.Name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(b)) != f.Bytes {
			return fmt.Errorf("%s is not what the manifest says", f.Name)
		}
		size += f.Bytes
		if i == 0 {
			c.Main = append(c.Main, path)
			if records, err = c.count(m.Format, b); err != nil {
				return fmt.Errorf("read %s: %w", f.Name, err)
			}
			continue
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(lines) != m.Records {
			return fmt.Errorf("%s has %d lines, not %d", f.Name, len(lines), m.Records)
		}
		c.Index = append(c.Index, lines...)
	}
	if records != m.Records || size != m.Bytes {
		return fmt.Errorf("%d records and %d bytes are there, %d and %d in the manifest", records, size, m.Records, m.Bytes)
	}
	c.Manifests = append(c.Manifests, m)
	c.Records += records
	return nil
}

// count counts the URLs of a main file, and returns how many records it has.
func (c *Contents) count(format string, b []byte) (records int, err error) {
	var in io.Reader
	if format == "pages" {
		in, err = zstd.NewReader(bytes.NewReader(b))
	} else {
		in, err = gzip.NewReader(bytes.NewReader(b))
	}
	if err != nil {
		return 0, err
	}
	response := false
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return 0, err
		}
		var url string
		if format == "pages" {
			var p struct{ URL string }
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				return 0, err
			}
			url = p.URL
		} else if kind, ok := strings.CutPrefix(line, "WARC-Type: "); ok {
			response = kind == "response\r\n" || kind == "revisit\r\n"
		} else if rest, ok := strings.CutPrefix(line, "WARC-Target-URI: "); ok && response {
			url = strings.TrimSpace(rest)
		}
		if url != "" {
			c.URLs[url]++
			records++
		}
	}
}
