package blocklist

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// source is one file or URL, with what was last read of it.
type source struct {
	where string // as configured
	name  string // for reports: without a password
	table *table // nil until read for the first time
	// Validators of the last version read: of a file, and of a URL (RFC 9110, section 8.8).
	modified     time.Time
	size         int64
	etag         string
	lastModified string
}

func newSource(where string) *source {
	s := &source{where: where, name: where}
	if u, err := url.Parse(where); err == nil && isWeb(where) {
		s.name = u.Redacted()
	}
	return s
}

// limits is what the other sources leave to one source.
type limits struct {
	bytes             int64
	entries, patterns int
}

// check returns an error for a table that has more than that.
func (l limits) check(t *table) error {
	if t.lines > l.entries {
		return fmt.Errorf("more than %d entries left by other sources", l.entries)
	}
	if t.patterns() > l.patterns {
		return fmt.Errorf("more than %d patterns left by other sources", l.patterns)
	}
	return nil
}

// read reads the source unless it is unchanged. After an error the source is as before.
func (l *List) read(ctx context.Context, s *source, most limits) error {
	if isWeb(s.where) {
		return l.fetch(ctx, s, most)
	}
	return l.open(ctx, s, most)
}

// rest is how long a file must have been left alone to be read again: a program that writes it in place empties it first, and half a list
// would allow what the other half blocks.
const rest = 2 * time.Second

func (l *List) open(ctx context.Context, s *source, most limits) error {
	f, err := os.OpenFile(s.where, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would else wait for its other end
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if s.table != nil && info.ModTime().Equal(s.modified) && info.Size() == s.size {
		return nil
	}
	for age := time.Since(info.ModTime()); s.table != nil && age >= 0 && age < rest; age = time.Since(info.ModTime()) {
		select {
		case <-time.After(rest - age):
		case <-ctx.Done():
			return fmt.Errorf("it is still being written: %w", ctx.Err())
		}
		if info, err = f.Stat(); err != nil {
			return err
		}
	}
	t, err := readTable(f, s.name, l.seed, most)
	if err != nil {
		return err
	}
	s.table, s.modified, s.size = t, info.ModTime(), info.Size()
	return nil
}

func (l *List) fetch(ctx context.Context, s *source, most limits) error {
	if l.http == nil {
		return errors.New("no client for the web")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.where, nil)
	if err != nil {
		return err
	}
	if s.table != nil && s.etag != "" {
		req.Header.Set("If-None-Match", s.etag)
	}
	if s.table != nil && s.lastModified != "" {
		req.Header.Set("If-Modified-Since", s.lastModified)
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && s.table != nil:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	t, err := readTable(resp.Body, s.name, l.seed, most)
	if err != nil {
		return err
	}
	s.table, s.etag, s.lastModified = t, resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	return nil
}
