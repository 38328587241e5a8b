package identity

import (
	"fmt"
	"path"
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

// Config says which URLs belong to a crawl. All nodes of a crawl need the same, except for SeedScope: if one node sends a link that
// another refuses, the work is lost.
type Config struct {
	// TrackingParams are query parameters that are removed from every link, because they tell where a visitor came from and
	// not what is shown. A * at the end matches any rest: "utm_*". A leading semicolon names a parameter in the path:
	// ";jsessionid" removes that of /a;jsessionid=1?b. With a number behind = only a value of so many hexadecimal digits
	// counts: "sid=32". A leading question mark begins a pattern for a whole query, where * stands for any text without a slash
	// and [AD] for one of these letters: "?C=[NMSD][;&]O=[AD]" is a directory listing of a web server in another order. Names are
	// case-sensitive. More names mean fewer duplicates, but a name that a site needs loses pages of that site.
	TrackingParams []string `toml:"tracking_params"`
	// MaxDepth is the largest distance from a seed in links, 1 to 254; seeds have distance 0. 0 means no limit.
	MaxDepth int `toml:"max_depth"`
	// MaxHops is the longest chain of redirects to a page.
	MaxHops int `toml:"-"`
	// Include is in scope in addition to the scope of the seeds. If it is empty and seed_scope is "any", everything is in
	// scope.
	Include Match `toml:"include"`
	// Exclude is never in scope, whatever includes it.
	Exclude Match `toml:"exclude"`
	// SeedScope is what the seeds of this node bring into scope, for all nodes: "any" (the whole web), "host", "domain" or
	// "prefix". Every value but "any" needs a seed, unless the node has peers. Where the seed example.org redirects to
	// www.example.org, or the other way round, that counts as a seed, too.
	SeedScope string `toml:"seed_scope"`
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

// Default is a crawl of the whole web.
func Default() Config {
	return Config{
		TrackingParams: []string{
			"utm_*", "mtm_*", "pk_campaign", "pk_kwd", // Google Analytics, Matomo
			"gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl", // Google
			"fbclid", "igshid", "igsh", "msclkid", "yclid", "ysclid", "ttclid", "twclid", "li_fat_id", "epik", // ads
			"mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hstc", "__hssc", "__hsfp", "hsCtaTracking", "mkt_tok", // mail
			"vero_id", "oly_anon_id", "oly_enc_id", "_openstat", "rb_clickid", "wickedid",
			// Sessions: each visitor sees different ones, and without cookies each page may show a new one. "sid" and "s" are those of forums
			// (phpBB, MyBB; vBulletin, IP.Board).
			"PHPSESSID", ";jsessionid", "sid=32", "s=32", "osCsid", "zenid", "CFID", "CFTOKEN", "AspxAutoDetectCookieSupport",
			"?C=[NMSD][;&]O=[AD]", // the listings of Apache, and those of nginx that look like them
		},
		MaxHops:        10,
		SeedScope:      ScopeAny,
		SkipExtensions: []string{},
	}
}

// maxDepth is the largest limit on depths. Depths are counted up to 255, and that value stands for all larger ones.
const maxDepth = 254

// Validate returns an error for the first impossible value of a key that a file can set.
func (c Config) Validate() error {
	for i, name := range c.TrackingParams {
		if err := validParam(name); err != nil {
			return fmt.Errorf("tracking_params[%d]: %w", i, err)
		}
	}
	if c.MaxDepth < 0 || c.MaxDepth > maxDepth {
		return fmt.Errorf("max_depth: %d is not between 0 and %d", c.MaxDepth, maxDepth)
	}
	if err := CheckExtensions(c.SkipExtensions); err != nil {
		return fmt.Errorf("skip_extensions: %w", err)
	}
	if _, err := newSet(c.Include); err != nil {
		return fmt.Errorf("include.%w", err)
	}
	if _, err := newSet(c.Exclude); err != nil {
		return fmt.Errorf("exclude.%w", err)
	}
	switch c.SeedScope {
	case ScopeAny, ScopeHost, ScopeDomain, ScopePrefix:
		return nil
	}
	return fmt.Errorf("seed_scope: %q is none of any, host, domain, prefix", c.SeedScope)
}

func validParam(name string) error {
	if pattern, ok := strings.CutPrefix(name, "?"); ok && pattern != "" {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is no pattern: %w", name, err)
		}
		return nil
	}
	bare, _, err := cutDigits(name)
	if err != nil {
		return err
	}
	bare = strings.TrimSuffix(strings.TrimPrefix(bare, ";"), "*")
	if bare == "" {
		return fmt.Errorf("%q names no parameter", name)
	}
	if strings.ContainsAny(bare, "*;&=#?/") {
		return fmt.Errorf("%q holds a character that no name has; * is allowed at the end only", name)
	}
	return nil
}

// CheckExtensions returns an error for the first entry that cannot be a file name extension.
func CheckExtensions(list []string) error {
	for _, e := range list {
		if name := strings.TrimPrefix(e, "."); name == "" || len(name) > 32 || strings.ContainsAny(name, "./?*# ") {
			return fmt.Errorf("%q is no extension", e)
		}
	}
	return nil
}
