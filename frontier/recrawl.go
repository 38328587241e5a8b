package frontier

import (
	"errors"
	"fmt"
	"time"

	"proxima/frontier/revisit"
)

// Recrawl says whether and how often pages are visited again.
type Recrawl struct {
	// Enabled keeps a record of every page on disk, some 100 bytes each, and visits pages again, so that the crawl does not
	// end by itself. Pages that were downloaded without it are not visited again.
	Enabled bool `toml:"enabled"`
	// Age, unless 0, visits every page once that was last seen longer ago than this, and then ends the crawl as usual,
	// whatever recrawl.enabled says. recrawl.min, recrawl.max and the history of the pages do not count then.
	Age time.Duration `toml:"age"`
	// Min is the shortest time between two visits of a page.
	Min time.Duration `toml:"min"`
	// Max is the longest time between two visits, for a page that never changes. It is exceeded where the budget does not
	// suffice.
	Max time.Duration `toml:"max"`
	// Budget is how many revisits a day are made at most, where they gain most. 0 means no limit. However large the budget, a
	// visit that would gain a page less than ten minutes of freshness is not made.
	Budget int `toml:"budget"`
	// Share is the probability that the next URL is a due page, if there is one, rather than a new one.
	Share float64 `toml:"share"`
}

// DefaultRecrawl visits nothing again.
func DefaultRecrawl() Recrawl {
	r := revisit.Default()
	return Recrawl{Min: r.Min, Max: r.Max, Budget: r.Budget, Share: 0.5}
}

// On says whether pages are remembered and visited again.
func (r Recrawl) On() bool { return r.Enabled || r.Once() }

// Once says whether the crawl ends when all pages that are old enough have been visited.
func (r Recrawl) Once() bool { return r.Age > 0 }

// continuous says whether the crawl goes on for ever.
func (r Recrawl) continuous() bool { return r.Enabled && !r.Once() }

// limit is the latest time at which a page can be due, or a host that was given up can be taken up again, if no clock was wrong.
func (r Recrawl) limit(now time.Time) stamp {
	return stampOf(now.Add(max(r.Max, r.Age) + maxPause + 24*time.Hour))
}

// plan returns the configuration of package revisit.
func (r Recrawl) plan() revisit.Config {
	c := revisit.Config{Budget: r.Budget, Min: r.Min, Max: r.Max}
	if c.Budget == 0 {
		c.Budget = 1e9
	}
	return c
}

// Validate returns an error for the first impossible value.
func (r Recrawl) Validate() error {
	switch {
	case r.Age < 0 || r.Age > maxAge:
		return fmt.Errorf("age: %v is not between 0 and %v", r.Age, maxAge)
	case r.Budget < 0:
		return fmt.Errorf("budget: %d is negative", r.Budget)
	case r.Min < time.Minute:
		return fmt.Errorf("min: %v is less than a minute", r.Min)
	case !(r.Share >= 0 && r.Share <= 1):
		return fmt.Errorf("share: %v is not a probability", r.Share)
	}
	return r.plan().Validate()
}

// Found says what a visit found of a page.
type Found uint8

// What a visit can find. At the first visit a page counts as changed.
const (
	Unchanged Found = iota
	Trivial         // another body, but the same text except for a counter, a date or the like
	Altered         // another text
	Gone            // the server says that there is no page
	Moved           // the page has moved for good, and this URL is forgotten
)

// Visit is what a visit told of a page.
type Visit struct {
	Found    Found
	ETag     string    // "" if the server gave none, or one that is too long
	Modified time.Time // Last-Modified; zero if there is none
	// Body is a checksum of the body. Digest and Simhash are those of its text. If Digest is 0, all three stay as they were.
	Body            uint32
	Digest, Simhash uint64
	// FreshFor is the max-age of Cache-Control; 0 if there is none.
	FreshFor time.Duration
}

// maxGone is the number of visits in a row that find a page gone before it is forgotten.
const maxGone = 3

// after returns the page after a visit, or nil if it is forgotten. A nil visit got no answer. The plan is nil if all pages are visited at
// one age.
func (p *PageRecord) after(v *Visit, r Recrawl, plan *revisit.Plan, now time.Time) *PageRecord {
	n := *p
	now = now.Truncate(time.Second)
	if v == nil {
		n.Failures = min(n.Failures, 254) + 1
		n.Due = now.Add(doubled(r.Min, r.Max, min(n.Failures-1, 16)))
		if r.Once() {
			n.Due = now.Add(max(r.Age, time.Minute))
		}
		return &n
	}
	first := p.Seen.IsZero()
	look := revisit.Visit{Changed: !first && (v.Found == Altered || (v.Found == Gone) != (p.Gone > 0))}
	if !first {
		look.Gap = now.Sub(p.Seen)
	}
	n.Failures, n.Seen, n.Hinted = 0, now, false
	switch v.Found {
	case Moved:
		return nil
	case Gone:
		if n.Gone++; first || n.Gone >= maxGone {
			return nil
		}
		n.ETag, n.Modified = "", time.Time{}
	default:
		n.Gone = 0
		n.ETag, n.Modified = v.ETag, v.Modified
		if len(n.ETag) > MaxETag {
			n.ETag = ""
		}
		if v.Digest != 0 {
			n.Body, n.Digest, n.Simhash = v.Body, v.Digest, v.Simhash
		}
		if !n.Modified.IsZero() {
			look.Age = now.Sub(n.Modified)
		}
	}
	if look.Changed {
		n.Changed = now
	}
	n.History = p.History.With(look)
	switch {
	case r.Once():
		n.Due = now.Add(max(r.Age, time.Second))
	case n.Gone > 0:
		n.Due = now.Add(r.Max)
	default:
		n.Due = plan.Within(r.Min, r.Max).Next(n.History, now, now, revisit.Hints{FreshFor: v.FreshFor})
	}
	return &n
}

// openRecrawl reads what an earlier life learnt of pages. If all pages are visited at one age, it makes them due at that age. Otherwise it
// makes those due earlier that an earlier life, with another configuration or clock, has put off for longer than is allowed now.
func (f *Frontier) openRecrawl() error {
	r := &f.bench.recrawl
	switch {
	case r.Once():
		return f.ledger.reschedule(r.Age)
	case !r.On():
		return nil
	}
	value, err := f.store.get(kindPrefix(kindSample))
	if err == nil {
		err = r.sample.UnmarshalBinary(value) // an empty sample if there is none
	}
	r.plan = r.Recrawl.plan().NewPlan(r.sample, int(f.ledger.count.totals().Pages))
	now := time.Now().Truncate(time.Second)
	for _, host := range f.ledger.late {
		most := f.ledger.site(host).recrawl(r.Recrawl).Max
		if err == nil {
			err = f.ledger.rescheduleHost(host, func(p *PageRecord) time.Time { return earlier(p.Due, earlier(p.Seen, now).Add(most)) })
		}
	}
	if f.ledger.late = nil; errors.Is(err, ErrDiskFull) { // the next start does it
		err = nil
	}
	return err
}

// reschedule makes all pages due at an age. It runs before everything else. If the process dies or the disk fills up meanwhile, some pages
// keep their old due times.
func (l *ledger) reschedule(age time.Duration) error {
	var hosts []string
	err := l.store.eachPage(kindPrefix(kindPage), func(host string, _ uint64, _ stamp) {
		if n := len(hosts); n == 0 || hosts[n-1] != host {
			hosts = append(hosts, host)
		}
	})
	now := time.Now().Truncate(time.Second) // one for all: a page that is moved to the end is read again there, and must stay
	for _, host := range hosts {
		if err == nil {
			err = l.rescheduleHost(host, func(p *PageRecord) time.Time { return earlier(p.Seen, now).Add(age) })
		}
	}
	return err
}

// rescheduleHost gives the pages of a host other due times.
func (l *ledger) rescheduleHost(host string, due func(*PageRecord) time.Time) error {
	for last, next := (*duePage)(nil), stamp(1); next != 0; {
		b := l.newBatch()
		h, err := l.entry(b, host)
		if err == nil {
			last, next, err = l.movePages(b, h, last, due)
		}
		if err == nil && len(b.touched) > 0 {
			err = wrap(l.room(), "make pages of %s due", host)
		}
		if err == nil {
			err = l.seal(b)
		}
		if err == nil {
			err = l.store.commit(b.tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
