package compare

import (
	"cmp"
	"slices"
)

// homeRow is a home and a row that decides its batches.
type homeRow struct{ node, row int }

// homeCounts are the batches of a home: how long they took, then the estimates and errors of their servers.
type homeCounts struct{ seconds, updates, wrong dist }

// home is what a home's batches were, made when first needed.
func (r *run) home(node, row int) *homeCounts {
	k := homeRow{node, row}
	if r.homes[k] == nil {
		r.homes[k] = &homeCounts{}
	}
	return r.homes[k]
}

// homeUses are the homes of a run.
func (c *comparer) homeUses(r *run) (list []HomeUse) {
	for k, h := range r.homes {
		list = append(list, HomeUse{r.nodes[k.node].name, c.rows[k.row].name, len(h.seconds), len(h.updates), h.seconds.quantile(.5),
			h.updates.quantile(.5), h.wrong.quantile(.5)})
	}
	slices.SortFunc(list, func(a, b HomeUse) int { return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Node, b.Node)) })
	return list
}
