package robots

import (
	"strings"

	"github.com/temoto/robotstxt"
)

// What regexps may cost. The library compiles one of some 2 KB for each wildcard rule and runs them all, about 1.5 µs each on
// a usual path; a hostile one takes its length times that of the path.
const (
	// wildBudget bounds the wildcard rules given to the library, each at seatCost plus its length in bytes. It holds some
	// 400 rules of usual length, more than almost any site has, and keeps the rules of a host near 1 MB.
	wildBudget = 16 << 10
	seatCost   = 16
	// maxRegexpPath is the length in bytes of the longest normalised path on which the regexps are run.
	maxRegexpPath = 1 << 10
)

// compile builds the one group that the library matches.
//
// The library takes the longest match, the first among equals, so Allow rules come first. But it counts a rule with wildcards
// by the length of its regexp, in which `*` is two characters; it does not tie regexps to the begin of the path; and it
// takes any `$` for the end. So the path is handed over as
//
//	//////// begin path end
//
// with one octet each for begin and end, which occur nowhere else. A rule without wildcards starts with the same lead; `$`
// is the end mark, plain text. A rule with k wildcards starts with k slashes fewer: begin still ties its regexp, which may
// start anywhere in the text, to the begin of the path, and its length is again that of the rule.
//
// What the library cannot afford is decided on the site's side: a rule with more than maxStars wildcards or beyond wildBudget,
// and every wildcard rule for a path beyond maxRegexpPath. Such an Allow counts for nothing; such a Disallow is matched
// outside of the library, at a cost linear in the path, and wins over every Allow, since the library does not tell how
// long its own match was. Allow rules take their share of the budget first.
//
// The library compares decoded forms only; what an Allow with needless escapes does not spell is taken back by spelt.
func compile(rules []rule) *Rules {
	spelt := speltRules(rules)
	rules = distinct(rules)
	if len(rules) == 0 {
		return AllowAll()
	}
	r := &Rules{spelt: spelt}
	budget := wildBudget
	var all, plain strings.Builder
	for _, allow := range []bool{true, false} {
		for _, l := range rules {
			if l.allow != allow {
				continue
			}
			stars := strings.Count(l.pattern, "*")
			cost := seatCost + len(l.pattern)
			switch {
			case len(l.pattern)-stars > MaxPathBytes+len(endMark):
				// Longer than any path that is matched.
			case stars == 0:
				writeRule(&all, l, stars)
				writeRule(&plain, l, stars)
			case stars <= maxStars && cost <= budget:
				budget -= cost
				r.wild = append(r.wild, l.pattern)
				if allow {
					r.grants++
				}
				writeRule(&all, l, stars)
			case !allow:
				r.excess = append(r.excess, l.pattern)
			}
		}
	}
	if all.Len() == 0 {
		return r
	}
	var ok bool
	if r.all, ok = group(all.String()); !ok {
		return DisallowAll()
	}
	r.plain = r.all
	if len(r.wild) > 0 {
		if r.plain, ok = group(plain.String()); !ok {
			return DisallowAll()
		}
	}
	return r
}

// distinct drops the rules that say what another says, and the Disallow rules that an Allow of the same pattern overrules.
func distinct(rules []rule) []rule {
	verdicts := make(map[string]bool, len(rules))
	for _, l := range rules {
		verdicts[l.pattern] = verdicts[l.pattern] || l.allow
	}
	kept := make([]rule, 0, len(verdicts))
	for _, l := range rules {
		if allow, left := verdicts[l.pattern]; left && allow == l.allow {
			kept = append(kept, l)
			delete(verdicts, l.pattern)
		}
	}
	return kept
}

// writeRule writes the line of a rule with the given number of wildcards.
func writeRule(b *strings.Builder, l rule, stars int) {
	if l.allow {
		b.WriteString("allow:")
	} else {
		b.WriteString("disallow:")
	}
	b.WriteString(lead[stars:])
	b.WriteString(l.pattern)
	b.WriteByte('\n')
}

// group has the library read the lines as the group for everybody. It cannot fail for lines of writeRule; were it to, the
// caller errs on the site's side.
func group(lines string) (*robotstxt.Group, bool) {
	data, err := robotstxt.FromString("user-agent:*\n" + lines)
	if err != nil {
		return nil, false
	}
	return data.FindGroup("*"), true
}
