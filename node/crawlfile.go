package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// crawlFile is what crawl.json keeps: the seeds, so that they need not be given at each start, and what operators and peers have told.
type crawlFile struct {
	V int `json:"v"`
	// Scope is the section scope of the configuration at the last start, as JSON.
	Scope json.RawMessage `json:"scope"`
	// ScopeSince is when a start last found another section scope than the one before; zero if none has.
	ScopeSince time.Time `json:"scope_since,omitzero"`
	// SeedScope is its seed_scope.
	SeedScope string `json:"seed_scope"`
	// Contact, From and AllowPrefixes are those of the section fetch at the last start.
	Contact       string   `json:"contact,omitempty"`
	From          string   `json:"from,omitempty"`
	AllowPrefixes []string `json:"allow_prefixes,omitempty"`
	// Sink is where downloads went at the last start; empty if they were discarded.
	Sink string `json:"sink,omitempty"`
	// Seeds are those of all starts.
	Seeds []string `json:"seeds"`
	// Learnt is what the seeds of peers add to the scope (identity.Rules.Widen).
	Learnt []string `json:"learnt,omitempty"`
	// Blocks are all blocks that the node knows, even those that have ended.
	Blocks []Block `json:"blocks,omitempty"`
	// Paused means that the operator has paused the node.
	Paused bool `json:"paused,omitempty"`
	// Files are entries about nodes that have, or had, the files of sites.
	Files []string `json:"files,omitempty"`
}

const crawlFileVersion = 1

// ErrConfig means that the configuration does not fit the crawl in the data directory, or names a file that is not what it should be.
var ErrConfig = errors.New("configuration")

func crawlFilePath(dir string) string { return filepath.Join(dir, "crawl.json") }

// readCrawlFile reads what an earlier start has kept. It returns no error if there is nothing.
func readCrawlFile(dir string) (was crawlFile, err error) {
	path := crawlFilePath(dir)
	text, err := readIfThere(path)
	switch {
	case err != nil:
		return was, fmt.Errorf("read %s: %w", path, err)
	case text == nil:
		return was, nil
	}
	if err := json.Unmarshal(text, &was); err != nil || was.V != crawlFileVersion {
		return was, fmt.Errorf("read %s: %w: not readable or of another version; delete it and give the seeds again", path, frontier.ErrDamaged)
	}
	return was, nil
}

// recall finds out what the node crawls: by its seeds, and by what earlier starts have kept. told.keep keeps it for the next start, once this one
// has not failed. The caller has locked the directory.
func (n *Node) recall() error {
	path, scope := crawlFilePath(n.cfg.Node.Data), n.cfg.Scope
	was, err := readCrawlFile(n.cfg.Node.Data)
	if err != nil {
		return err
	}
	now := was
	fetch := n.cfg.Fetch
	if (was.Contact != "" && fetch.Contact == "") || (was.From != "" && fetch.From == "") {
		return fmt.Errorf("%w: fetch.contact, fetch.from: public sites of this crawl would be given up without them; at the last start they were %q and %q",
			ErrConfig, was.Contact, was.From)
	}
	now.V, now.SeedScope = crawlFileVersion, scope.SeedScope
	now.Contact, now.From, now.AllowPrefixes, now.Sink = fetch.Contact, fetch.From, fetch.AllowPrefixes, n.cfg.Sink.URL
	if now.Scope, err = json.Marshal(scope); err != nil {
		return fmt.Errorf("remember scope: %w", err)
	}
	if was.V != 0 && !bytes.Equal(was.Scope, now.Scope) {
		now.ScopeSince = n.started
	}
	var all, added []identity.URL
	for _, text := range was.Seeds {
		u, err := identity.Parse(text)
		if err != nil {
			return fmt.Errorf("read %s: %w: seed %q: %w", path, frontier.ErrDamaged, text, err)
		}
		all = append(all, u)
	}
	now.Seeds, added = withSeeds(was.Seeds, n.seeds)
	n.seeds, n.notes = append(all, added...), notesOn(was, now, added, n.cfg.Peer.Secret != "", n.cfg.Recrawl.On())
	if in := scope.Include; scope.SeedScope == identity.ScopeAny && len(n.seeds) > 0 && len(in.Hosts)+len(in.Prefixes)+len(in.Domains) == 0 {
		n.notes = append(n.notes, `the crawl leads over the whole web: scope.seed_scope is "any" ("host" or "domain" would keep it to the sites of its seeds)`)
	}
	n.rules, err = identity.New(scope, n.seeds)
	switch {
	case err != nil:
		return fmt.Errorf("scope: %w", err)
	case scope.SeedScope != identity.ScopeAny && len(n.seeds) == 0 && n.cfg.Peer.Secret == "":
		return fmt.Errorf("%w: scope.seed_scope: %q needs seeds, and there are none in %s: give URLs, or -seeds FILE", ErrConfig, scope.SeedScope, path)
	}
	if n.told, err = newTold(n, now); err != nil {
		return fmt.Errorf("read %s: %w: %w", path, frontier.ErrDamaged, err)
	}
	n.operator.hold(now.Paused)
	return nil
}

// notesOn tells the operator what a crawl continues, and what is new. In an overlay its limits hold for all starts together.
func notesOn(was, now crawlFile, added []identity.URL, overlay, recrawl bool) (notes []string) {
	if was.Paused {
		notes = append(notes, "paused by its operator, as before: proxima ctl resume lets it go on")
	}
	if len(was.Seeds) == 0 {
		return notes
	}
	since := "count from this start"
	if overlay {
		since = "hold for all nodes and all their starts together"
	}
	allowed := ""
	if len(now.AllowPrefixes) > 0 {
		allowed = ", allowed " + strings.Join(now.AllowPrefixes, ",")
	}
	notes = append(notes, fmt.Sprintf("going on with %s, scope %q%s; max_pages, max_bytes and max_time %s", listed(was.Seeds), now.SeedScope, allowed, since))
	if was.Sink != "" && now.Sink == "" {
		notes = append(notes, "pages are discarded from now on: the last start kept them in "+public(was.Sink))
	}
	if len(added) > 0 {
		notes = append(notes, "added to this crawl: "+listed(texts(added)))
	}
	gone := slices.DeleteFunc(slices.Clone(was.AllowPrefixes), func(p string) bool { return slices.Contains(now.AllowPrefixes, p) })
	if len(gone) > 0 {
		notes = append(notes, "no longer allowed: "+strings.Join(gone, ",")+"; what is left to crawl there is given up")
	}
	stays := ": what was accepted before stays; links that were left out are not looked for again (a crawl in a new data directory finds them)"
	if recrawl {
		stays = ": what was accepted before stays; links that were left out are found as their pages are visited again"
	}
	switch {
	case was.SeedScope != now.SeedScope:
		notes = append(notes, fmt.Sprintf("the scope was %q and is %q from now on%s", was.SeedScope, now.SeedScope, stays))
	case !bytes.Equal(was.Scope, now.Scope):
		notes = append(notes, "the section scope is another than at the last start"+stays)
	}
	return notes
}

// withSeeds adds seeds to a list that it does not change. It also returns those that were not in it.
func withSeeds(had []string, seeds []identity.URL) (all []string, added []identity.URL) {
	all = slices.Clone(had)
	known := make(map[string]bool, len(had))
	for _, text := range had {
		known[text] = true
	}
	for _, u := range seeds {
		if text := u.String(); !known[text] {
			known[text] = true
			all, added = append(all, text), append(added, u)
		}
	}
	return all, added
}

// GoOn sets what the last start with the data directory of a configuration had: scope.seed_scope, fetch.contact, fetch.from and
// fetch.allow_prefixes. It changes nothing if there was no start.
func GoOn(cfg *Config) {
	was, err := readCrawlFile(cfg.Node.Data)
	if err != nil || was.V == 0 {
		return // New reports the error
	}
	cfg.Scope.SeedScope = was.SeedScope
	cfg.Fetch.Contact, cfg.Fetch.From, cfg.Fetch.AllowPrefixes = was.Contact, was.From, was.AllowPrefixes
}

// listed names the first seed, and counts the others.
func listed(seeds []string) string {
	if len(seeds) == 1 {
		return seeds[0]
	}
	return fmt.Sprintf("%s and %d more seeds", seeds[0], len(seeds)-1)
}

// keep writes crawl.json. The caller has locked the directory.
func (f crawlFile) keep(dir string) error {
	text, err := json.Marshal(f)
	if err == nil {
		err = replaceFile(crawlFilePath(dir), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep what the crawl is told: %w", err)
	}
	return nil
}
