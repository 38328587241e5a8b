package crawl

import (
	"net/netip"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/site"
)

// Policy decides which URLs belong to the crawl: by its scope, by the settings of sites, and by the blocklist.
type Policy struct {
	Rules     *identity.Rules
	Sites     *site.Table
	Blocklist *blocklist.List
	// Files are the directories that this node reads sites from, by their names in Sites. Directories that it does not have are missing.
	Files map[string]*fetch.Files
	// Agent is the product token that robots.txt files are read for.
	Agent string
}

// Refuse returns why a link does not belong to the crawl, or "" if it does. The settings of a site exclude pages only: its
// sitemaps are read in any case.
func (p *Policy) Refuse(link frontier.Link) string {
	s := p.Sites.For(link.URL)
	if reason := p.Rules.Admit(link.URL, int(link.Depth), int(link.Hops), s.Depth); reason != identity.Accepted {
		return string(reason)
	}
	if !link.Sitemap {
		if reason := s.Refuse(link.URL); reason != "" {
			return reason
		}
	}
	if rule := p.Blocked(link.URL); rule != "" {
		return "blocked: " + rule
	}
	return ""
}

// Blocked returns the rule of the blocklist that forbids a URL, or "".
func (p *Policy) Blocked(u identity.URL) (rule string) {
	if rule, blocked := p.Blocklist.Host(u.Host); blocked {
		return rule
	}
	if p.Blocklist.HasPatterns() {
		rule, _ = p.Blocklist.URL(u.String())
	}
	return rule
}

// BlockedAt returns the rule of the blocklist that forbids a URL at an address, or "".
func (p *Policy) BlockedAt(u identity.URL, addr netip.Addr) (rule string) {
	if rule = p.Blocked(u); rule == "" {
		rule, _ = p.Blocklist.Addr(addr)
	}
	return rule
}

// agent returns the product token that the robots.txt of a host is read for.
func (p *Policy) agent(host string) string {
	if product := p.Sites.ForHost(host).Product(); product != "" {
		return product
	}
	return p.Agent
}

// files returns the directory that a host is read from, or nil if a server is asked.
func (p *Policy) files(host string) *fetch.Files {
	if len(p.Files) == 0 {
		return nil
	}
	return p.Files[p.Sites.ForHost(host).Files]
}
