package site

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"proxima/frontier/identity"
)

// Settings are what holds for a URL. They do not change.
type Settings struct {
	Gap             time.Duration
	Budget          int
	Depth           int
	Hours           *Hours // nil: at any time
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

// Key is a setting, by its place in keys.
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

// key is how a setting is put over another, and shown.
type key struct {
	name string
	// global is the key of the configuration that holds where no site says otherwise, "" where there is none.
	global string
	// host says that the setting is one of hosts, not of URLs.
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

// Chosen says that a site sets a key.
func (s *Settings) Chosen(k Key) bool { return s.from[k] != 0 }

// Product is the name of the robot that asks, as robots.txt files have it; "" where that of the crawl does.
func (s *Settings) Product() string {
	if !s.Chosen(UserAgent) {
		return ""
	}
	product, _, _ := strings.Cut(s.UserAgent, "/")
	return product
}

// over puts an entry, the n-th, over the settings.
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

// ready makes what requests ask for out of what was configured.
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

// Words for why a URL is not asked for.
const (
	NotIncluded = "not included by its site"
	Excluded    = "excluded by its site"
	Extension   = "unwanted extension"
)

// Wants says whether the page behind the head of an answer is to be read; the error says why not. The length is that of the
// body, -1 where it is not told.
func (s *Settings) Wants(status int, header http.Header, length int64) error {
	if status/100 != 2 {
		return nil
	}
	if s.MaxSize > 0 && length > s.MaxSize {
		return fmt.Errorf("unwanted size: %d bytes", length)
	}
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if kind == "" || len(s.ContentTypes) == 0 {
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

// Refuse says why a URL is not to be asked for; "" where it is.
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

// Rank is the place of a URL at a depth among those of its host: the highest is first.
func (s *Settings) Rank(depth uint8) int { return s.Priority + s.PriorityPerLink*int(depth) }
