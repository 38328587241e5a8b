package site

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/frontier/identity"
)

// Settings are the settings of a URL. They never change. What an Entry may set has the same name in both.
type Settings struct {
	Gap             time.Duration
	Budget          int
	Depth           int
	Hours           Names
	Zone            string
	UserAgent       string
	Cookies         bool
	Headers         http.Header
	Include         Names
	Exclude         Names
	SkipExtensions  Names
	ContentTypes    Names
	MaxSize         int64
	Priority        int
	PriorityPerLink int
	RecrawlMin      time.Duration
	RecrawlMax      time.Duration
	Files           string

	// Times are the hours in their zone; nil means any time.
	Times *Hours

	include, exclude patterns
	skip             map[string]struct{}
	from             map[string]int // the numbers of entries, from 1, by what they have set: a key, or "headers." with the name of a field
}

// Keys of settings that others ask about.
const (
	KeyGap        = "gap"
	KeyBudget     = "budget"
	KeyUserAgent  = "user_agent"
	KeyCookies    = "cookies"
	KeyRecrawlMin = "recrawl_min"
	KeyRecrawlMax = "recrawl_max"
	keyHeaders    = "headers"
)

// setting is a field that both Entry and Settings have.
type setting struct {
	key string
	// global is the key of the configuration that applies if no entry does, or "".
	global string
	// host means that the setting applies to whole hosts.
	host bool
	// entry and settings are the numbers of the field.
	entry, settings int
}

var settings = func() (all []setting) {
	for f := range reflect.TypeFor[Entry]().Fields() {
		if to, ok := reflect.TypeFor[Settings]().FieldByName(f.Name); ok {
			all = append(all, setting{f.Tag.Get("toml"), f.Tag.Get("global"), f.Tag.Get("host") != "", f.Index[0], to.Index[0]})
		}
	}
	return all
}()

// in returns what an entry sets; it is nil if the entry leaves that out.
func (k setting) in(e *Entry) reflect.Value { return reflect.ValueOf(e).Elem().Field(k.entry) }

// of returns the field in settings.
func (k setting) of(s *Settings) reflect.Value { return reflect.ValueOf(s).Elem().Field(k.settings) }

func shown(value any) string {
	switch value.(type) {
	case string, time.Duration:
		return fmt.Sprintf("%q", value)
	case http.Header:
		return "{}" // fields are shown one by one
	}
	return fmt.Sprint(value)
}

// Chosen reports whether an entry has set a key.
func (s *Settings) Chosen(key string) bool { return s.from[key] != 0 }

// Product returns the product token that robots.txt files are read for, or "" for that of the crawl.
func (s *Settings) Product() string {
	if !s.Chosen(KeyUserAgent) {
		return ""
	}
	product, _, _ := strings.Cut(s.UserAgent, "/")
	return product
}

func (s *Settings) over(e *Entry, n int) {
	for _, k := range settings {
		switch value := k.in(e); {
		case value.IsNil():
			continue
		case k.key == keyHeaders:
			s.setHeaders(e.Headers, n)
		case value.Kind() == reflect.Pointer:
			k.of(s).Set(value.Elem())
		default:
			k.of(s).Set(value)
		}
		s.from[k.key] = n + 1
	}
}

// setHeaders sets header fields, and removes those that are empty.
func (s *Settings) setHeaders(headers map[string]string, n int) {
	if s.Headers == nil {
		s.Headers = http.Header{}
	}
	for name, value := range headers {
		s.Headers.Del(name)
		if value != "" {
			s.Headers.Set(name, value)
		}
		s.from[keyHeaders+"."+http.CanonicalHeaderKey(name)] = n + 1
	}
}

// ready prepares the configured settings for use.
func (s *Settings) ready() (err error) {
	if len(s.Hours) > 0 {
		if s.Times, err = ParseHours(s.Hours, s.Zone); err != nil {
			return fmt.Errorf("hours: %w", err)
		}
	}
	if s.include, err = parsePatterns(s.Include); err != nil {
		return fmt.Errorf("include%w", err)
	}
	if s.exclude, err = parsePatterns(s.Exclude); err != nil {
		return fmt.Errorf("exclude%w", err)
	}
	s.skip = make(map[string]struct{}, len(s.SkipExtensions))
	for _, e := range s.SkipExtensions {
		s.skip[strings.ToLower(strings.TrimPrefix(e, "."))] = struct{}{}
	}
	return nil
}

// Reasons why a URL is not requested.
const (
	NotIncluded = "not included by its site"
	Excluded    = "excluded by its site"
	Extension   = "unwanted extension"
)

// errSize is the reason for all sizes: each page has another one, and a summary of single pages would tell nothing.
var errSize = errors.New("unwanted size")

// Wants returns an error that says why the body of an answer is not to be read, or nil. length is that of the body, or -1 if it is
// unknown.
func (s *Settings) Wants(status int, header http.Header, length int64) error {
	if status/100 != 2 {
		return nil
	}
	if s.MaxSize > 0 && length > s.MaxSize {
		return fmt.Errorf("%w: %d bytes", errSize, length)
	}
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if len(s.ContentTypes) == 0 || fetch.CheckTypes([]string{kind}) != nil { // all types are wanted, or the header names none
		return nil
	}
	for _, t := range s.ContentTypes {
		t = strings.ToLower(t)
		if main, ok := strings.CutSuffix(t, "*"); t == kind || ok && strings.HasPrefix(kind, main) {
			return nil
		}
	}
	return fmt.Errorf("unwanted type: %.100s", kind)
}

// Refuse returns why a URL is not to be requested, or "".
func (s *Settings) Refuse(u identity.URL) string {
	switch {
	case len(s.include) > 0 && !s.include.match(u.Path):
		return NotIncluded
	case s.exclude.match(u.Path):
		return Excluded
	}
	if len(s.skip) > 0 {
		if _, ok := s.skip[identity.Extension(u.Path)]; ok {
			return Extension
		}
	}
	return ""
}

// Rank returns the rank of a URL of a depth among those of its host. The highest comes first.
func (s *Settings) Rank(depth uint8) int { return s.Priority + s.PriorityPerLink*int(depth) }

// patterns are texts in which * stands for any bytes, or none. Each is kept as its parts between the asterisks.
type patterns [][]string

// maxPattern bounds the length of a pattern, in bytes. No URL is longer.
const maxPattern = 8 << 10

func parsePatterns(texts []string) (patterns, error) {
	var out patterns
	for i, text := range texts {
		switch {
		case text == "" || len(text) > maxPattern:
			return nil, fmt.Errorf("[%d]: a pattern of %d bytes", i, len(text))
		case text[0] != '/' && text[0] != '*':
			return nil, fmt.Errorf("[%d]: %q begins with neither / nor *", i, text)
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return nil, fmt.Errorf("[%d]: %q holds what URLs hold as %%XX only", i, text)
		}
		out = append(out, strings.Split(text, "*"))
	}
	return out, nil
}

// match reports whether a pattern matches a whole path.
func (p patterns) match(path string) bool {
	return slices.ContainsFunc(p, func(parts []string) bool { return blocklist.Match(parts, path) })
}
