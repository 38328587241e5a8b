package identity

import (
	"fmt"
	"strings"
)

// The values of Config.SeedScope.
const (
	// ScopeAny: the seeds limit nothing.
	ScopeAny = "any"
	// ScopeHost: the names of the seeds, port included, by http and https.
	ScopeHost = "host"
	// ScopeDomain: the registrable domains of the seeds.
	ScopeDomain = "domain"
	// ScopePrefix: the directories of the seeds and all below, by http and https.
	ScopePrefix = "prefix"
)

// Config says which URLs belong to a crawl. All nodes of a crawl need the same one, but for SeedScope: a link that one node sends and
// another refuses is lost work.
type Config struct {
	// TrackingParams are query parameters that are removed from every link, because they tell where a visitor came from and
	// not what is shown. A * at the end matches any rest: "utm_*". A leading semicolon names a parameter in the path:
	// ";jsessionid" removes that of /a;jsessionid=1?b. Names are case-sensitive. More names mean fewer duplicates, but a
	// name that a site needs loses pages of that site.
	TrackingParams []string `toml:"tracking_params"`
	// MaxURLBytes is the longest URL taken, in bytes as serialised, 16 to 8192. Long URLs cost memory and disk; few pages
	// of worth have any above 2,000.
	MaxURLBytes int `toml:"-"`
	// MaxDepth is the largest distance from a seed in links, 1 to 254; seeds have distance 0. 0 means no limit.
	MaxDepth int `toml:"max_depth"`
	// MaxHops is the longest chain of redirects to a page.
	MaxHops int `toml:"-"`
	// Include is in scope in addition to the scope of the seeds. If it is empty and seed_scope is "any", everything is in
	// scope.
	Include Match `toml:"include"`
	// Exclude is never in scope, whatever includes it.
	Exclude Match `toml:"exclude"`
	// SeedScope is what the seeds of this node bring into scope, for all nodes: "any", "host", "domain" or "prefix". Every
	// value but "any" needs a seed, unless the node has peers.
	SeedScope string `toml:"seed_scope"`
	// Traps are the bounds that URLs out of endless sites break.
	Traps Traps `toml:"-"`
	// SkipExtensions are file name extensions, such as "zip", whose URLs are not requested. URLs without an extension are.
	SkipExtensions []string `toml:"skip_extensions"`
}

// Match names a set of URLs: those that any of its entries matches.
type Match struct {
	// Hosts are names, matched for http and https: "www.example.org" or "example.org:8080", or "*.example.org" for that name
	// and everything below it at any port.
	Hosts []string `toml:"hosts"`
	// Prefixes are beginnings of URLs: "https://example.org/docs/". Without a scheme they match http and https. They are
	// compared byte by byte, so "example.org/docs" also matches /docs2.
	Prefixes []string `toml:"prefixes"`
	// Domains are registrable domains ("example.co.uk"), or any name below one.
	Domains []string `toml:"domains"`
}

// Traps bounds what a URL may look like. Lower values stop endless sites earlier and lose more pages of odd ones.
type Traps struct {
	// MaxLabels is the largest number of labels in a name, 4 (as many as an IPv4 address seems to have) to 127. Some name
	// servers answer to any.
	MaxLabels int
	// MaxPathSegments is the largest number of segments in a path, 1 to 64.
	MaxPathSegments int
	// MaxRepeatedSegments is how often one segment may occur in a path, 2 to 64. A cycle of two or more segments may
	// occur one time less in a row: with 3, /a/a/a and /a/b/a/b pass, /a/a/a/a and /a/b/a/b/a/b do not.
	MaxRepeatedSegments int
	// MaxQueryParams is the largest number of parameters in a query, at least 1.
	MaxQueryParams int
	// MaxRepeatedParam is how often one name of a parameter may occur in a query, at least 1.
	MaxRepeatedParam int
	// MaxEchoes is how often a URL may hold its own address in its query, 0 or more. One is common (/login?next=/login);
	// pages that wrap their own address again and again have more.
	MaxEchoes int
}

// Default is a crawl of the whole web.
func Default() Config {
	return Config{
		TrackingParams: []string{
			"utm_*", "mtm_*", "pk_campaign", "pk_kwd", // Google Analytics, Matomo
			"gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl", // Google
			"fbclid", "igshid", "igsh", "msclkid", "yclid", "ysclid", "ttclid", "twclid", "li_fat_id", "epik", // ads
			"mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hstc", "__hssc", "__hsfp", "hsCtaTracking", "mkt_tok", // mail
			"vero_id", "oly_anon_id", "oly_enc_id", "_openstat", "rb_clickid", "wickedid",
			"PHPSESSID", ";jsessionid", // sessions: each visitor sees different ones
		},
		MaxURLBytes: 2048,
		MaxDepth:    0,
		MaxHops:     10,
		SeedScope:   ScopeAny,

		SkipExtensions: []string{},
		Traps: Traps{
			MaxLabels:           10,
			MaxPathSegments:     32,
			MaxRepeatedSegments: 3,
			MaxQueryParams:      32,
			MaxRepeatedParam:    5,
			MaxEchoes:           1,
		},
	}
}

// maxDepth is the largest limit that can be kept: depths are counted up to 255.
const maxDepth = 254

// Validate reports the first field with a value that makes no sense.
func (c Config) Validate() error {
	for i, name := range c.TrackingParams {
		if err := validParam(name); err != nil {
			return fmt.Errorf("tracking_params[%d]: %w", i, err)
		}
	}
	for _, n := range []struct {
		field            string
		value, low, high int
	}{
		{"max_url_bytes", c.MaxURLBytes, 16, maxRawBytes},
		{"max_depth", c.MaxDepth, 0, maxDepth},
		{"max_hops", c.MaxHops, 0, 100},
		{"traps.max_labels", c.Traps.MaxLabels, 4, 127},
		{"traps.max_path_segments", c.Traps.MaxPathSegments, 1, mostSegments},
		{"traps.max_repeated_segments", c.Traps.MaxRepeatedSegments, 2, mostSegments},
		{"traps.max_query_params", c.Traps.MaxQueryParams, 1, maxRawBytes},
		{"traps.max_repeated_param", c.Traps.MaxRepeatedParam, 1, maxRawBytes},
		{"traps.max_echoes", c.Traps.MaxEchoes, 0, maxRawBytes},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s: %d is not within %d and %d", n.field, n.value, n.low, n.high)
		}
	}
	if err := CheckExtensions(c.SkipExtensions); err != nil {
		return fmt.Errorf("skip_extensions: %w", err)
	}
	if err := newMatcher().addAll(c.Include); err != nil {
		return fmt.Errorf("include.%w", err)
	}
	if err := newMatcher().addAll(c.Exclude); err != nil {
		return fmt.Errorf("exclude.%w", err)
	}
	switch c.SeedScope {
	case ScopeAny, ScopeHost, ScopeDomain, ScopePrefix:
		return nil
	}
	return fmt.Errorf("seed_scope: %q is none of any, host, domain, prefix", c.SeedScope)
}

func validParam(name string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(name, ";"), "*")
	if bare == "" {
		return fmt.Errorf("%q names no parameter", name)
	}
	if strings.ContainsAny(bare, "*;&=#?/") {
		return fmt.Errorf("%q holds a character that no name has; * stands at the end only", name)
	}
	return nil
}
