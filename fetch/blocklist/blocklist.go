// Package blocklist knows what must never be crawled: hosts, addresses and URLs named by lists in files and on the web. It owns
// reading the lists, keeping them current and looking things up. It does not own the scope of the configuration, the ban on
// private addresses, or what happens to a blocked URL.
//
// A list is a text with one entry a line:
//
//	# a comment, also at the end of a line after a blank
//	example.org                       this host and all below it
//	0.0.0.0 ads.example.org           the same, as in a hosts file; several names may follow
//	192.0.2.0/24, 2001:db8::/32       addresses with this prefix (one a line), or a single address
//	*://*.example.org/private/*       whole URLs like this; * is any run of characters, including / and including none
//	/\.(exe|zip)$/                    URLs in which this regular expression (RE2) matches; no comment may follow
//
// Lines that cannot be parsed are counted, and the first is reported; the rest of the list is in force. But a list with no entry before a
// line that begins with < is taken for a page of HTML, and refused.
package blocklist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// List combines the lists of all sources. It is safe for concurrent use. Lookups take no lock and see all sources as of one poll.
type List struct {
	cfg     Config
	http    *http.Client
	changed func(Report)
	again   chan struct{} // tells Run that Follow was broken off
	seed    maphash.Seed
	tables  atomic.Pointer[[]*table] // told, then one for each source that has been read

	mu      sync.Mutex // held during a poll
	sources []*source

	// force guards the parts of tables. Only a poll changes listed.
	force  sync.Mutex
	listed []*table
	told   *table
}

// Report says what is in force.
type Report struct {
	// Entries is the number of entries in use, without duplicates within a source.
	Entries int
	// Summary is one line on what is wrong with the sources, without passwords, or "loaded".
	Summary string
	// Wrong names the sources with lines that cannot be parsed; "" if there are none.
	Wrong string
}

// New returns an empty List. Follow fills it. A file that cannot be opened is an error.
func New(cfg Config, deps Deps) (*List, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure blocklist: %w", err)
	}
	l := &List{cfg: cfg, http: deps.HTTP, changed: deps.Changed, again: make(chan struct{}, 1), seed: maphash.MakeSeed()}
	if l.changed == nil {
		l.changed = func(Report) {}
	}
	if err := Readable(cfg.Sources); err != nil {
		return nil, err
	}
	for _, where := range cfg.Sources {
		l.sources = append(l.sources, newSource(where))
	}
	l.tables.Store(&[]*table{})
	return l, nil
}

// Readable returns an error if a source is a file that cannot be opened: who names one means it to be in force.
func Readable(sources []string) error {
	for _, where := range sources {
		if isWeb(where) {
			continue
		}
		f, err := os.Open(where)
		if err != nil {
			return fmt.Errorf("read a blocklist: %w", err)
		}
		f.Close()
	}
	return nil
}

// Follow replaces the sources, and reads those that are new or have changed. A source that fails keeps its previous content; the error
// joins those of all such sources. If ctx ends before all are read, Run reads them.
func (l *List) Follow(ctx context.Context, sources []string) error {
	l.mu.Lock()
	was := l.sources
	l.sources = nil
	for _, where := range sources {
		if i := slices.IndexFunc(was, func(s *source) bool { return s.where == where }); i >= 0 {
			l.sources = append(l.sources, was[i])
		} else {
			l.sources = append(l.sources, newSource(where))
		}
	}
	l.mu.Unlock()
	report, _, err := l.poll(ctx)
	if ctx.Err() == nil {
		l.changed(report)
		return err
	}
	select {
	case l.again <- struct{}{}:
	default:
	}
	return err
}

// Run polls the sources every Config.Poll until ctx ends, then returns nil. It does not load them at the start.
func (l *List) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Poll)
	defer tick.Stop()
	for {
		unheard := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-l.again:
			unheard = true
		}
		report, changed, err := l.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if changed || unheard || err != nil {
			l.changed(report)
		}
	}
}

// poll reads the sources side by side and puts them in force together. Where there is no room for all, the first ones have it.
func (l *List) poll(ctx context.Context) (report Report, changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	next, errs := make([]source, len(l.sources)), make([]error, len(l.sources))
	var reads sync.WaitGroup
	for i, s := range l.sources {
		next[i] = *s
		reads.Go(func() { errs[i] = l.read(ctx, &next[i], limits{l.cfg.MaxBytes, l.cfg.MaxEntries, l.cfg.MaxPatterns}) })
	}
	reads.Wait()
	var faults, wrong []string
	var tables []*table
	for i, s := range l.sources {
		if errs[i] == nil && next[i].table != s.table {
			errs[i] = l.leftLocked(s).check(next[i].table)
		}
		if errs[i] != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", s.name, errs[i]))
			errs[i] = fmt.Errorf("read blocklist %s: %w", s.name, errs[i])
		} else {
			*s = next[i]
		}
		t := s.table
		if t == nil {
			continue
		}
		tables = append(tables, t)
		report.Entries += len(t.hosts) + len(t.prefixes) + t.patterns()
		if t.wrong > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d wrong lines, the first: %v", s.name, t.wrong, t.first))
		}
	}
	report.Wrong, report.Summary = strings.Join(wrong, "; "), cmp.Or(strings.Join(append(faults, wrong...), "; "), "loaded")
	if changed = !slices.Equal(tables, l.listed); changed {
		l.enforce(func() { l.listed = tables })
	}
	return report, changed, errors.Join(errs...)
}

// Tell puts entries in force beside those of the sources. They replace the entries told before. Target has returned each of them.
func (l *List) Tell(entries []string) {
	t := &table{seed: l.seed}
	for _, entry := range entries {
		if r, err := parseLine(entry); err == nil {
			t.add(r)
		}
	}
	t.sort()
	l.enforce(func() { l.told = t })
}

// enforce changes listed or told, and puts the result in force.
func (l *List) enforce(change func()) {
	l.force.Lock()
	defer l.force.Unlock()
	change()
	tables := l.listed
	if l.told != nil {
		tables = append([]*table{l.told}, l.listed...)
	}
	l.tables.Store(&tables)
}

// leftLocked returns what the other sources leave to s.
func (l *List) leftLocked(s *source) limits {
	most := limits{bytes: l.cfg.MaxBytes, entries: l.cfg.MaxEntries, patterns: l.cfg.MaxPatterns}
	for _, o := range l.sources {
		if o != s && o.table != nil {
			most.entries -= o.table.lines
			most.patterns -= o.table.patterns()
		}
	}
	return most
}

// Host reports whether a host or a domain above it is listed, and which. host is a name or an address, with or without scheme and
// port; addresses are looked up as Addr does. A miss allocates nothing if host is in lower case.
func (l *List) Host(host string) (rule string, blocked bool) {
	tables := *l.tables.Load()
	if len(tables) == 0 {
		return "", false
	}
	name, addr := splitHost(host)
	if addr.IsValid() {
		return l.Addr(addr)
	}
	if len(name) > maxName {
		return "", false // no such name exists
	}
	for _, t := range tables {
		if rule, blocked = t.host(name); blocked {
			return rule, true
		}
	}
	return "", false
}

// Addr reports whether an address is listed, and by which prefix: the longest in the first source that has one.
func (l *List) Addr(a netip.Addr) (rule string, blocked bool) {
	a = a.Unmap().WithZone("")
	for _, t := range *l.tables.Load() {
		if p, ok := t.addr(a); ok {
			return p.String(), true
		}
	}
	return "", false
}

// URL reports whether a pattern or regular expression matches u, a URL in canonical form, and which. It does not look at hosts
// and addresses.
func (l *List) URL(u string) (rule string, blocked bool) {
	for _, t := range *l.tables.Load() {
		if rule, blocked = t.url(u); blocked {
			return rule, true
		}
	}
	return "", false
}

// HasPatterns reports whether URL can match anything now. If not, callers need not build URLs to ask.
func (l *List) HasPatterns() bool {
	return slices.ContainsFunc(*l.tables.Load(), func(t *table) bool { return t.patterns() > 0 })
}

// splitHost returns the canonical name or the address in a host with or without scheme and port.
func splitHost(host string) (name string, addr netip.Addr) {
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host = rest
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		addr, _ = netip.ParseAddr(inner)
		return inner, addr
	}
	if strings.Count(host, ":") > 1 { // an IPv6 address without brackets
		addr, _ = netip.ParseAddr(host)
		return host, addr
	}
	host, _, _ = strings.Cut(host, ":")
	host = strings.TrimSuffix(host, ".")
	// Only what ends in a digit can be an IPv4 address, and parsing anything else would allocate an error.
	if host != "" && '0' <= host[len(host)-1] && host[len(host)-1] <= '9' {
		if addr, err := netip.ParseAddr(host); err == nil {
			return "", addr
		}
	}
	return strings.ToLower(host), netip.Addr{}
}
