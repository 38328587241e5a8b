package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"proxima/node/strict"
)

// What a row of the comparison is.
const (
	ByAssigner  = "assigner"  // all runs of an assigner
	ByCandidate = "candidate" // the same
	ByRun       = "run"       // an assigner in one run
	ByConfig    = "config"    // an assigner in the runs of one configuration
)

// Bys returns the values of Options.By.
func Bys() []string { return []string{ByAssigner, ByCandidate, ByRun, ByConfig} }

// maxRows bounds the rows, since a record has a bit for each.
const maxRows = 16

// mostLeftOut bounds the names of further rows, since damaged logs may have many.
const mostLeftOut = 100

// row is one of the things that are compared. Its name is the assigner with the suffix.
type row struct{ name, assigner, suffix string }

// rowBits returns the rows of a label, which names assigners with commas between them.
func (c *comparer) rowBits(r *run, label string) (mask uint16) {
	for name := range strings.SplitSeq(label, ",") {
		if i := c.rowOf(r, name); i >= 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// rowOf returns the row of an assigner in a run, and adds it if it is new. It returns -1 if there are too many.
func (c *comparer) rowOf(r *run, assigner string) int {
	suffix := ""
	switch c.By {
	case ByRun:
		suffix = " in " + r.name
	case ByConfig:
		suffix = r.differs(assigner)
	}
	i := slices.IndexFunc(c.rows, func(w row) bool { return w.assigner == assigner && w.suffix == suffix })
	switch name := assigner + suffix; {
	case i >= 0 || assigner == "":
	case len(c.rows) < maxRows:
		i = len(c.rows)
		c.rows = append(c.rows, row{name, assigner, suffix})
	default:
		r.leftOut = true
		if len(c.leftOut) < mostLeftOut {
			c.leftOut[name] = true
		}
	}
	return i
}

func (c *comparer) rowNames() (list []string) {
	for _, w := range c.rows {
		list = append(list, w.name)
	}
	return list
}

// reference returns the row that row i is compared to: the one named by Against, or that assigner's row of the same run or
// configuration, or its first row. It returns -1 if there is none.
func (c *comparer) reference(i int) int {
	best := -1
	for k, w := range c.rows {
		switch {
		case w.name == c.Against:
			return k
		case w.assigner == c.Against && (best < 0 || w.suffix == c.rows[i].suffix):
			best = k
		}
	}
	return best
}

// settings returns the values of a configuration or a scenario as text, by dotted key. Elements of a list have their name or number in it.
func settings(text string) map[string]string {
	values, err := strict.Flat(text)
	if err != nil {
		return nil // written by another version
	}
	texts := map[string]string{}
	var add func(key string, v any)
	add = func(key string, v any) {
		list, ok := v.([]map[string]any)
		if !ok {
			texts[key] = fmt.Sprint(v)
		}
		for i, one := range list {
			name, _ := one["name"].(string)
			for k, inner := range one {
				add(key+"."+cmp.Or(name, strconv.Itoa(i))+"."+k, inner)
			}
		}
	}
	for key, v := range values {
		add(key, v)
	}
	return texts
}

// notTuning are keys and sections that say where a node runs, not how it chooses, or those of a scenario that rows or seeds tell.
var notTuning = []string{"node.", "peer.", "member.", "output.", "crawl.seeds", "batch.assigners", "geo.database", "geo.latitude",
	"geo.longitude", "description", "seed", "assigners", "separate"}

// nameRuns names the runs after their lines, or after their folders if those names are not unique. It also finds the settings in which
// the runs differ while the nodes of each run agree.
func nameRuns(runs []*run) {
	times := map[string]int{}
	for _, r := range runs {
		times[r.name]++
	}
	for _, r := range runs {
		if r.name == "" || times[r.name] > 1 {
			r.name = r.dir
		}
	}
	keys := map[string]string{}
	for _, r := range runs {
		both := map[string]string{}
		maps.Copy(both, settings(r.scenario))
		maps.Copy(both, r.settings)
		r.settings = both
		maps.Copy(keys, r.settings)
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		tuned := !slices.ContainsFunc(notTuning, func(p string) bool { return strings.HasPrefix(k, p) }) &&
			!slices.ContainsFunc(runs, func(r *run) bool { return r.disagree[k] })
		if tuned && slices.ContainsFunc(runs, func(r *run) bool { return r.settings[k] != runs[0].settings[k] }) {
			for _, r := range runs {
				r.tuned = append(r.tuned, setting{k, cmp.Or(r.settings[k], "unset")})
			}
		}
	}
}

// setting is a key of the configuration in which runs differ, with its value.
type setting struct{ key, value string }

// of names a setting for the rows of an assigner, "" if it is one of another assigner.
func (s setting) of(assigner string) string {
	for _, prefix := range []string{"assign.", "batch.candidate."} {
		rest, ofAssign := strings.CutPrefix(s.key, prefix)
		section, key, ok := strings.Cut(rest, ".")
		switch {
		case !ofAssign || !ok:
		case section != assigner:
			return ""
		default:
			return key
		}
	}
	return s.key
}

// differs names the settings in which a row differs, without those of other assigners.
func (r *run) differs(assigner string) (text string) {
	for _, s := range r.tuned {
		if name := s.of(assigner); name != "" {
			text += " " + name + "=" + s.value
		}
	}
	return text
}

// mixed returns the settings in which runs of one row differ.
func (c *comparer) mixed(runs []*run) []string {
	found := map[string]bool{}
	for i, w := range c.rows {
		values := map[string]string{}
		for _, r := range runs {
			if r.tallies[i] == nil {
				continue
			}
			for _, s := range r.tuned {
				if v, ok := values[s.key]; ok && v != s.value && s.of(w.assigner) != "" {
					found[s.key] = true
				}
				values[s.key] = s.value
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
