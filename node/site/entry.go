package site

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"proxima/fetch"
	"proxima/frontier/identity"
)

// Names is a list of texts in a configuration. A single text is a list of one.
type Names []string

// String returns the list as a configuration has it.
func (n Names) String() string {
	quoted := make([]string, len(n))
	for i, text := range n {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// UnmarshalTOML reads a text or a list of texts.
func (n *Names) UnmarshalTOML(value any) error {
	if text, ok := value.(string); ok {
		*n = Names{text}
		return nil
	}
	list, ok := value.([]any)
	*n = make(Names, 0, len(list))
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText
		*n = append(*n, text)
	}
	if !ok {
		return fmt.Errorf("want a text in quotes, or a list of them in brackets")
	}
	return nil
}

// Entry is one [[site]] of a configuration: it says to which URLs it applies, and has their settings. Settings that it leaves out do not
// change. The tag global names the key that a setting replaces; host marks those that apply to whole hosts.
type Entry struct {
	// Host is a name: "www.example.org" for http and https at their usual ports, "example.org:8080" for that port alone,
	// "*.example.org" for that name and everything below it at any port, "*" for every host.
	Host Names `toml:"host"`
	// Domain is a registrable domain ("example.co.uk") with all names below it.
	Domain Names `toml:"domain"`
	// Prefix is the beginning of URLs ("https://example.org/docs/"); without a scheme it matches http and https. host,
	// domain and prefix may be lists; an entry needs one of them.
	Prefix Names `toml:"prefix"`
	// Path narrows the entry to URLs whose path and query match one of these patterns: "/news/*", "*.pdf". A * matches any
	// text.
	Path Names `toml:"path"`
	// Gap replaces politeness.min_gap and politeness.own_gap. Crawl-delay, Retry-After and politeness.factor still count.
	Gap *time.Duration `toml:"gap" global:"politeness.min_gap" host:"yes"`
	// Budget is how many URLs of each host are accepted in all; it replaces frontier.max_host_urls. 0 means no limit.
	Budget *int `toml:"budget" global:"frontier.max_host_urls" host:"yes"`
	// Depth is the largest distance from a seed in links; it replaces scope.max_depth. 0 means no limit.
	Depth *int `toml:"depth" global:"scope.max_depth"`
	// Hours are the times of day at which the site may be asked: "09:00-17:00 Mon-Fri", several separated by commas or in a
	// list. A range that ends before it begins goes past midnight. An empty list allows any time.
	Hours Names `toml:"hours" host:"yes"`
	// Zone is the time zone of hours, such as "Europe/Nicosia". Empty: that of the machine.
	Zone *string `toml:"zone" host:"yes"`
	// UserAgent replaces fetch.user_agent, and its product is the name that robots.txt is read for. The contact is added as
	// always.
	UserAgent *string `toml:"user_agent" global:"fetch.user_agent" host:"yes"`
	// Cookies keeps the site's cookies in memory and sends them back. Left out, only those are kept without which a page
	// redirects to itself.
	Cookies *bool `toml:"cookies"`
	// Headers are additional request header fields by name. An empty value removes a field.
	Headers map[string]string `toml:"headers"`
	// Include leaves out all URLs whose path and query match none of these patterns. An empty list includes all.
	Include Names `toml:"include"`
	// Exclude leaves out URLs whose path and query match one of these patterns.
	Exclude Names `toml:"exclude"`
	// SkipExtensions replaces scope.skip_extensions.
	SkipExtensions Names `toml:"skip_extensions" global:"scope.skip_extensions"`
	// ContentTypes replaces fetch.content_types.
	ContentTypes Names `toml:"content_types" global:"fetch.content_types"`
	// MaxSize replaces fetch.max_size, in bytes.
	MaxSize *int64 `toml:"max_size" global:"fetch.max_size"`
	// Priority orders the URLs of a host: the highest first, among the 64 that are in memory. It does not order hosts.
	Priority *int `toml:"priority"`
	// PriorityPerLink is added to priority for each link of distance from a seed. Below 0, pages near the seeds come first.
	PriorityPerLink *int `toml:"priority_per_link"`
	// RecrawlMin replaces recrawl.min, the shortest time between two visits of a page.
	RecrawlMin *time.Duration `toml:"recrawl_min" global:"recrawl.min" host:"yes"`
	// RecrawlMax replaces recrawl.max, the longest time between two visits.
	RecrawlMax *time.Duration `toml:"recrawl_max" global:"recrawl.max" host:"yes"`
	// Files is a directory of this machine from which the site is read instead of over HTTP. Nodes without it ask the site's
	// server.
	Files *string `toml:"files" host:"yes"`
}

// match says to which URLs the entry applies, apart from Path.
func (e *Entry) match() identity.Match {
	return identity.Match{Hosts: e.Host, Domains: e.Domain, Prefixes: e.Prefix}
}

// title returns how people recognize an entry.
func (e *Entry) title() string {
	switch {
	case len(e.Host) > 0:
		return "host " + strings.Join(e.Host, ", ")
	case len(e.Domain) > 0:
		return "domain " + strings.Join(e.Domain, ", ")
	}
	return "prefix " + strings.Join(e.Prefix, ", ")
}

// maxRecrawl is the longest time between two visits of a page.
const maxRecrawl = 10 * 365 * 24 * time.Hour

// maxPriority bounds both priorities, so that their sum at any depth fits into an int.
const maxPriority = 1_000_000

// check reports the first invalid value of an entry, with its key.
func (e *Entry) check() error {
	for _, n := range []struct {
		key       string
		value     *int
		low, high int
	}{
		{"budget", e.Budget, 0, 1 << 30}, {"depth", e.Depth, 0, 254},
		{"priority", e.Priority, -maxPriority, maxPriority}, {"priority_per_link", e.PriorityPerLink, -maxPriority, maxPriority},
	} {
		if n.value != nil && (*n.value < n.low || *n.value > n.high) {
			return fmt.Errorf(".%s: %d is not between %d and %d", n.key, *n.value, n.low, n.high)
		}
	}
	switch {
	case len(e.Host)+len(e.Domain)+len(e.Prefix) == 0:
		return errors.New(": a site needs a host, a domain or a prefix")
	case e.Gap != nil && (*e.Gap < 0 || *e.Gap > 1000*time.Hour):
		return fmt.Errorf(".gap: %v is not between 0 and 1000h", *e.Gap)
	case e.RecrawlMin != nil && (*e.RecrawlMin < time.Minute || *e.RecrawlMin > maxRecrawl):
		return fmt.Errorf(".recrawl_min: %v is not between 1m and %v", *e.RecrawlMin, maxRecrawl)
	case e.RecrawlMax != nil && (*e.RecrawlMax < time.Minute || *e.RecrawlMax > maxRecrawl):
		return fmt.Errorf(".recrawl_max: %v is not between 1m and %v", *e.RecrawlMax, maxRecrawl)
	case e.RecrawlMin != nil && e.RecrawlMax != nil && *e.RecrawlMin > *e.RecrawlMax:
		return fmt.Errorf(".recrawl_max: %v is less than recrawl_min, %v", *e.RecrawlMax, *e.RecrawlMin)
	case e.MaxSize != nil && (*e.MaxSize < 0 || *e.MaxSize > 1<<31):
		return fmt.Errorf(".max_size: %d is not between 0 and %d", *e.MaxSize, 1<<31)
	}
	if e.UserAgent != nil {
		if err := fetch.CheckAgent(*e.UserAgent); err != nil {
			return fmt.Errorf(".user_agent: %w", err)
		}
	}
	for _, p := range []struct {
		key   string
		texts Names
	}{{"path", e.Path}, {"include", e.Include}, {"exclude", e.Exclude}} {
		if _, err := parsePatterns(p.texts); err != nil {
			return fmt.Errorf(".%s%w", p.key, err)
		}
	}
	if err := identity.CheckExtensions(e.SkipExtensions); err != nil {
		return fmt.Errorf(".skip_extensions: %w", err)
	}
	if err := fetch.CheckTypes(e.ContentTypes); err != nil {
		return fmt.Errorf(".content_types: %w", err)
	}
	if err := e.checkHours(); err != nil {
		return err
	}
	if err := checkHeaders(e.Headers); err != nil {
		return fmt.Errorf(".headers: %w", err)
	}
	if err := e.checkHost(); err != nil {
		return err
	}
	if _, err := identity.NewIndex([]identity.Match{e.match()}); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "[0]"))
	}
	return nil
}

// checkHours checks hours and zone separately, so that the error names the right key.
func (e *Entry) checkHours() error {
	if e.Zone != nil {
		if _, err := ParseHours([]string{"00:00-24:00"}, *e.Zone); err != nil {
			return fmt.Errorf(".zone: %w", err)
		}
	}
	if len(e.Hours) > 0 {
		if _, err := ParseHours(e.Hours, ""); err != nil {
			return fmt.Errorf(".hours: %w", err)
		}
	}
	return nil
}

// checkHost reports keys that apply only to whole hosts, in an entry that applies to parts of them.
func (e *Entry) checkHost() error {
	part := len(e.Path) > 0
	for _, p := range e.Prefix {
		u, err := identity.ParsePrefix(p)
		part = part || err == nil && u.Path != "/"
	}
	if !part {
		return nil
	}
	for _, k := range settings {
		if k.host && !k.in(e).IsNil() {
			return fmt.Errorf(".%s: it holds for a host as a whole: give the entry no path", k.key)
		}
	}
	return nil
}

// ownHeaders are header fields that no entry may set: the client needs them, or sets them itself, or they have keys of their own.
var ownHeaders = []string{
	"accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "cookie2", "expect", "from", "host",
	"http2-settings", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "max-forwards",
	"proxy-authorization", "proxy-connection", "range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
}

func checkHeaders(headers map[string]string) error {
	for name, value := range headers {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%q is no name of a header field", name)
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			return fmt.Errorf("%s is not for a site to set", name)
		case !httpguts.ValidHeaderFieldValue(value) || len(value) > 8<<10:
			return fmt.Errorf("the value of %s cannot be sent", name)
		}
	}
	return nil
}
