package frontier

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Find explains hosts of the workbench whose names contain a text: those with the most URLs in memory first, at most so many. All is how many
// there are.
func (f *Frontier) Find(part string, most int) (found []HostStatus, all int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []*host
	for name, h := range f.bench.hosts {
		if strings.Contains(name, part) {
			hosts = append(hosts, h)
		}
	}
	slices.SortFunc(hosts, func(a, b *host) int {
		return cmp.Or(b.windowed()+len(b.delayed)-a.windowed()-len(a.delayed), strings.Compare(a.name, b.name))
	})
	now := time.Now()
	for _, h := range hosts[:min(most, len(hosts))] {
		found = append(found, f.bench.explain(h, now))
	}
	return found, len(hosts)
}
