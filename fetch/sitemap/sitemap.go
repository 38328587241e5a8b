// Package sitemap reads sitemaps: the lists of pages that a site publishes for crawlers. It knows the formats of
// https://www.sitemaps.org/protocol.html: XML lists and indexes, plain text with one URL on each line, and the feeds RSS
// 1.0, RSS 2.0 and Atom, all of them also gzipped. It does not find, fetch or resolve anything, nor judge which sites a sitemap may
// list.
package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrFormat says that a body is in none of the formats that this package reads.
var ErrFormat = errors.New("not a sitemap")

// Config bounds what one sitemap may yield. The defaults are the limits of sitemaps.org.
type Config struct {
	// MaxBytes is how much of a sitemap is read, in bytes after decompression. It bounds time (20 MB of XML take about a
	// second), not memory: a sitemap is read as a stream.
	MaxBytes int64
	// MaxURLs is the number of URLs kept of a sitemap, child sitemaps included. It bounds memory.
	MaxURLs int
	// MaxRefBytes is the length of the longest URL kept, in bytes. Longer ones are dropped and counted.
	MaxRefBytes int
}

// Default returns the limits of the protocol: 50 MiB and 50,000 URLs. The protocol wants URLs of less than 2,048
// characters; longer ones are accepted here, as they are in pages.
func Default() Config {
	return Config{MaxBytes: 50 << 20, MaxURLs: 50_000, MaxRefBytes: 4096}
}

// Sitemap is what one file lists, in its order, repetitions included.
type Sitemap struct {
	// URLs are pages and Sitemaps further sitemaps, as written: in UTF-8, with entities decoded, without white space at
	// either end. They are never empty. Nobody has checked that they are absolute.
	URLs, Sitemaps []string
	// Modified holds the lastmod of each URL or sitemap that has one.
	Modified map[string]time.Time
	// Truncated says that the file holds more than the limits allow.
	Truncated bool
	// RefsDropped counts the URLs longer than Config.MaxRefBytes.
	RefsDropped int
}

// Parse reads a sitemap. If the file is broken, it returns what it has read so far, and the error. Time is linear in the
// smaller of the decompressed length and Config.MaxBytes. Memory beside the result does not depend on them.
func Parse(body []byte, limits Config) (Sitemap, error) {
	var src io.Reader = bytes.NewReader(body)
	if bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(src)
		if err != nil {
			return Sitemap{}, fmt.Errorf("decompress sitemap: %w", err)
		}
		src = z
	}
	in := newInput(src, limits.MaxBytes)
	in.toDeclaration()
	l := list{limits: limits}
	head, err := in.head()
	switch {
	case err != nil:
	case len(head) == 0:
		err = fmt.Errorf("%w: empty", ErrFormat)
	case head[0] == '<':
		err = l.readXML(in)
	default:
		err = l.readText(in)
	}
	l.Truncated = l.Truncated || in.limited()
	if err != nil && !errors.Is(err, ErrFormat) && in.limited() {
		err = nil // the limit cut the file
	}
	if err != nil {
		return l.Sitemap, fmt.Errorf("parse sitemap: %w", err)
	}
	return l.Sitemap, nil
}

// list is the state while one sitemap is read.
type list struct {
	Sitemap
	limits Config
	// last and date are the URL and the lastmod of the entry that is being read; either may come first.
	last string
	date time.Time
}

// dated sets the lastmod of the current entry (https://www.w3.org/TR/NOTE-datetime, and what programs write for it). It ignores a year or
// month without a day.
func (l *list) dated(text string) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
			l.date = t
			l.join()
			return
		}
	}
}

// join gives the URL of the current entry its lastmod, once both are known.
func (l *list) join() {
	if l.last == "" || l.date.IsZero() {
		return
	}
	if l.Modified == nil {
		l.Modified = make(map[string]time.Time)
	}
	l.Modified[l.last], l.date = l.date, time.Time{}
}

// add appends a URL to one of the lists. It returns false when there is no room for it.
func (l *list) add(to *[]string, ref string) bool {
	ref = strings.TrimSpace(ref)
	l.last = ""
	switch {
	case ref == "":
	case len(ref) > l.limits.MaxRefBytes:
		l.RefsDropped++
	case len(l.URLs)+len(l.Sitemaps) >= l.limits.MaxURLs:
		l.Truncated = true
		return false
	default:
		*to = append(*to, ref)
		l.last = ref
		l.join()
	}
	return true
}

// readText reads a list with one URL on each line. It ignores other lines, such as comments. A text without a URL is not a
// sitemap.
func (l *list) readText(in *input) error {
	for {
		line, long, err := in.line()
		line = bytes.TrimSpace(line)
		switch {
		case !isWeb(line):
		case err != nil && (in.limited() || !errors.Is(err, io.EOF)): // cut
		case long:
			l.RefsDropped++
		case !l.add(&l.URLs, string(line)):
			return nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(l.URLs) == 0 && l.RefsDropped == 0 {
		return fmt.Errorf("%w: no URL in the text", ErrFormat)
	}
	return nil
}

func isWeb(line []byte) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if len(line) > len(scheme) && strings.EqualFold(string(line[:len(scheme)]), scheme) {
			return true
		}
	}
	return false
}
