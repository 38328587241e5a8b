package site

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/frontier/identity"
)

// Settings are the settings of a URL. They never change.
type Settings struct {
	Gap             time.Duration
	Budget          int
	Depth           int
	Hours           *Hours // nil means any time
	UserAgent       string
	Cookies         bool
	Headers         http.Header
	SkipExtensions  []string
	ContentTypes    []string
	MaxSize         int64
	Priority        int
	PriorityPerLink int
	RecrawlMin      time.Duration
	RecrawlMax      time.Duration
	Files           string

	include, exclude patterns
	skip             map[string]struct{}
	hours            Names
	zone             string
	texts            [2]Names // of include and exclude
	from             [nkeys]int
	headersFrom      map[string]int
}

// Key names a setting. It is an index of keys.
type Key int

// The settings.
const (
	Gap Key = iota
	Budget
	Depth
	HoursKey
	Zone
	UserAgent
	Cookies
	HeadersKey
	Include
	Exclude
	SkipExtensions
	ContentTypes
	MaxSize
	Priority
	PriorityPerLink
	RecrawlMin
	RecrawlMax
	Files
	nkeys
)

// key says how a setting overrides another, and how it is shown.
type key struct {
	name string
	// global is the key of the configuration that applies if no entry does, or "".
	global string
	// host means that the setting applies to whole hosts.
	host  bool
	set   func(e *Entry) bool
	apply func(e *Entry, s *Settings)
	show  func(s *Settings) string
}

var keys = [nkeys]key{
	Gap: {"gap", "politeness.min_gap", true, func(e *Entry) bool { return e.Gap != nil },
		func(e *Entry, s *Settings) { s.Gap = *e.Gap }, func(s *Settings) string { return fmt.Sprintf("%q", s.Gap) }},
	Budget: {"budget", "frontier.max_host_urls", true, func(e *Entry) bool { return e.Budget != nil },
		func(e *Entry, s *Settings) { s.Budget = *e.Budget }, func(s *Settings) string { return fmt.Sprint(s.Budget) }},
	Depth: {"depth", "scope.max_depth", false, func(e *Entry) bool { return e.Depth != nil },
		func(e *Entry, s *Settings) { s.Depth = *e.Depth }, func(s *Settings) string { return fmt.Sprint(s.Depth) }},
	HoursKey: {"hours", "", true, func(e *Entry) bool { return e.Hours != nil },
		func(e *Entry, s *Settings) { s.hours = e.Hours }, func(s *Settings) string { return list(s.hours) }},
	Zone: {"zone", "", true, func(e *Entry) bool { return e.Zone != nil },
		func(e *Entry, s *Settings) { s.zone = *e.Zone }, func(s *Settings) string { return fmt.Sprintf("%q", s.zone) }},
	UserAgent: {"user_agent", "fetch.user_agent", true, func(e *Entry) bool { return e.UserAgent != nil },
		func(e *Entry, s *Settings) { s.UserAgent = *e.UserAgent }, func(s *Settings) string { return fmt.Sprintf("%q", s.UserAgent) }},
	Cookies: {"cookies", "", false, func(e *Entry) bool { return e.Cookies != nil },
		func(e *Entry, s *Settings) { s.Cookies = *e.Cookies }, func(s *Settings) string { return fmt.Sprint(s.Cookies) }},
	HeadersKey: {"headers", "", false, func(e *Entry) bool { return len(e.Headers) > 0 },
		applyHeaders, showHeaders},
	Include: {"include", "", false, func(e *Entry) bool { return e.Include != nil },
		func(e *Entry, s *Settings) { s.texts[0] = e.Include }, func(s *Settings) string { return list(s.texts[0]) }},
	Exclude: {"exclude", "", false, func(e *Entry) bool { return e.Exclude != nil },
		func(e *Entry, s *Settings) { s.texts[1] = e.Exclude }, func(s *Settings) string { return list(s.texts[1]) }},
	SkipExtensions: {"skip_extensions", "scope.skip_extensions", false, func(e *Entry) bool { return e.SkipExtensions != nil },
		func(e *Entry, s *Settings) { s.SkipExtensions = e.SkipExtensions }, func(s *Settings) string { return list(s.SkipExtensions) }},
	ContentTypes: {"content_types", "fetch.content_types", false, func(e *Entry) bool { return e.ContentTypes != nil },
		func(e *Entry, s *Settings) { s.ContentTypes = e.ContentTypes }, func(s *Settings) string { return list(s.ContentTypes) }},
	MaxSize: {"max_size", "fetch.max_size", false, func(e *Entry) bool { return e.MaxSize != nil },
		func(e *Entry, s *Settings) { s.MaxSize = *e.MaxSize }, func(s *Settings) string { return fmt.Sprint(s.MaxSize) }},
	Priority: {"priority", "", false, func(e *Entry) bool { return e.Priority != nil },
		func(e *Entry, s *Settings) { s.Priority = *e.Priority }, func(s *Settings) string { return fmt.Sprint(s.Priority) }},
	PriorityPerLink: {"priority_per_link", "", false, func(e *Entry) bool { return e.PriorityPerLink != nil },
		func(e *Entry, s *Settings) { s.PriorityPerLink = *e.PriorityPerLink },
		func(s *Settings) string { return fmt.Sprint(s.PriorityPerLink) }},
	RecrawlMin: {"recrawl_min", "recrawl.min", true, func(e *Entry) bool { return e.RecrawlMin != nil },
		func(e *Entry, s *Settings) { s.RecrawlMin = *e.RecrawlMin }, func(s *Settings) string { return fmt.Sprintf("%q", s.RecrawlMin) }},
	RecrawlMax: {"recrawl_max", "recrawl.max", true, func(e *Entry) bool { return e.RecrawlMax != nil },
		func(e *Entry, s *Settings) { s.RecrawlMax = *e.RecrawlMax }, func(s *Settings) string { return fmt.Sprintf("%q", s.RecrawlMax) }},
	Files: {"files", "", true, func(e *Entry) bool { return e.Files != nil },
		func(e *Entry, s *Settings) { s.Files = *e.Files }, func(s *Settings) string { return fmt.Sprintf("%q", s.Files) }},
}

func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func applyHeaders(e *Entry, s *Settings) {
	h := s.Headers.Clone()
	if h == nil {
		h = http.Header{}
	}
	for name, value := range e.Headers {
		if value == "" {
			h.Del(name)
		} else {
			h.Set(name, value)
		}
	}
	s.Headers = h
}

func showHeaders(s *Settings) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		parts = append(parts, fmt.Sprintf("%s = %q", name, s.Headers.Get(name)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Chosen reports whether an entry has set a key.
func (s *Settings) Chosen(k Key) bool { return s.from[k] != 0 }

// Product returns the product token that robots.txt files are read for, or "" for that of the crawl.
func (s *Settings) Product() string {
	if !s.Chosen(UserAgent) {
		return ""
	}
	product, _, _ := strings.Cut(s.UserAgent, "/")
	return product
}

// over overrides the settings by the n-th entry.
func (s *Settings) over(e *Entry, n int) {
	for k := range keys {
		if keys[k].set(e) {
			keys[k].apply(e, s)
			s.from[k] = n + 1
		}
	}
	if len(e.Headers) > 0 {
		s.headersFrom = maps.Clone(s.headersFrom)
		if s.headersFrom == nil {
			s.headersFrom = map[string]int{}
		}
		for name := range e.Headers {
			s.headersFrom[http.CanonicalHeaderKey(name)] = n + 1
		}
	}
}

// ready prepares the configured settings for use.
func (s *Settings) ready() (err error) {
	s.Hours = nil
	if len(s.hours) > 0 {
		if s.Hours, err = ParseHours(s.hours, s.zone); err != nil {
			return fmt.Errorf("hours: %w", err)
		}
	}
	if s.include, err = parsePatterns(s.texts[0]); err != nil {
		return fmt.Errorf("include%w", err)
	}
	if s.exclude, err = parsePatterns(s.texts[1]); err != nil {
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

// Wants returns an error that says why the body of an answer is not to be read, or nil. length is that of the body, or -1 if it is
// unknown.
func (s *Settings) Wants(status int, header http.Header, length int64) error {
	if status/100 != 2 {
		return nil
	}
	if s.MaxSize > 0 && length > s.MaxSize {
		return fmt.Errorf("unwanted size: %d bytes", length)
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
