package blocklist

import "fmt"

// HasPatterns says whether URL can match anything now: where it cannot, nobody needs to write URLs out to ask.
func (l *List) HasPatterns() bool {
	for _, t := range *l.tables.Load() {
		if t.patterns() > 0 {
			return true
		}
	}
	return false
}

// Entries is the number of entries in use.
func (r Report) Entries() int {
	n := 0
	for _, s := range r.Sources {
		n += s.Hosts + s.Prefixes + s.Patterns
	}
	return n
}

// Summary says in a line what is wrong with the sources, or that nothing is.
func (r Report) Summary() string {
	text := ""
	for _, s := range r.Sources {
		if s.Err != nil {
			text += fmt.Sprintf("%s: %v; ", s.Source, s.Err)
		}
		if s.Wrong > 0 {
			text += fmt.Sprintf("%s: %d wrong lines, the first: %v; ", s.Source, s.Wrong, s.WrongLines[0])
		}
	}
	if text == "" {
		return "loaded"
	}
	return text[:len(text)-2]
}
