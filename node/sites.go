package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/site"
	"proxima/node/strict"
)

func (c Config) sites() (*site.Table, error) {
	t, err := site.New(c.Site, site.Settings{
		Gap: c.Politeness.MinGap, Budget: c.Frontier.MaxHostURLs, Depth: c.Scope.MaxDepth, UserAgent: c.Fetch.UserAgent,
		RecrawlMin: c.Recrawl.Min, RecrawlMax: c.Recrawl.Max,
		SkipExtensions: c.Scope.SkipExtensions, ContentTypes: c.Fetch.ContentTypes, MaxSize: c.Fetch.MaxSize,
	})
	if err != nil {
		return nil, fmt.Errorf("make table of sites: site%w", err)
	}
	return t, nil
}

// Explain returns the settings that apply to a URL, key by key, and where each comes from: the default, or a line of the file. Without a
// file it explains the defaults.
func Explain(path string, u identity.URL) (string, error) {
	cfg, places, given := Default(), strict.Places{}, map[string]any{}
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read configuration: %w", err)
		}
		text := strings.TrimPrefix(string(b), "\uFEFF")
		if cfg, err = Parse(path, text); err != nil {
			return "", err
		}
		places = strict.Lines(text)
		if given, err = strict.Flat(text); err != nil {
			return "", err
		}
	}
	table, err := cfg.sites()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, o := range table.Explain(u) {
		from := "default"
		_, set := given[o.Global]
		switch {
		case o.Entry >= 0:
			from = fmt.Sprintf("%s:%d, [[site]] %d: %s", path, places.Find(fmt.Sprintf("site[%d].%s", o.Entry, o.Key)), o.Entry+1, o.Title)
		case set:
			from = fmt.Sprintf("%s:%d, %s", path, places.Find(o.Global), o.Global)
		case o.Global != "":
			from = "default of " + o.Global
		}
		fmt.Fprintf(&b, "%s = %s  # %s\n", o.Key, o.Value, from)
	}
	return b.String(), nil
}

// siteOf returns a function that returns the settings of a host for the frontier, or nil if no host has any.
func (n *Node) siteOf() func(host string) *frontier.Site {
	if len(n.cfg.Site) == 0 {
		return nil
	}
	ranked := slices.ContainsFunc(n.cfg.Site, func(e site.Entry) bool { return e.Priority != nil || e.PriorityPerLink != nil })
	return func(host string) *frontier.Site {
		s := n.sites.ForHost(host)
		var out frontier.Site
		if s.Chosen(site.KeyGap) {
			out.Gap = &s.Gap
		}
		if s.Chosen(site.KeyBudget) {
			out.Budget = &s.Budget
		}
		if s.Times != nil {
			out.Hours = s.Times
		}
		if s.Chosen(site.KeyRecrawlMin) {
			out.RecrawlMin = s.RecrawlMin
		}
		if s.Chosen(site.KeyRecrawlMax) {
			out.RecrawlMax = s.RecrawlMax
		}
		out.Stays = n.files[s.Files] != nil
		if ranked {
			out.Rank = func(u identity.URL, depth uint8) int { return n.sites.For(u).Rank(depth) }
		}
		return &out
	}
}

// openFiles opens the directories that sites are read from. It warns of those that this node does not have, and leaves them out.
func (n *Node) openFiles() {
	n.files = map[string]*fetch.Files{}
	for _, e := range n.cfg.Site {
		if e.Files == nil || *e.Files == "" || n.files[*e.Files] != nil {
			continue
		}
		files, err := fetch.OpenFiles(*e.Files)
		if err != nil {
			n.early = append(n.early, fmt.Errorf("this site is asked for by HTTP: %w", err))
			continue
		}
		n.files[*e.Files] = files
	}
}

func (n *Node) directories() []string { return slices.Sorted(maps.Keys(n.files)) }

func (n *Node) closeFiles() error {
	var errs []error
	for _, f := range n.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
