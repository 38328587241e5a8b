package assign

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// hash is consistent hashing as UbiCrawler has it (P. Boldi, B. Codenotti, M. Santini, S. Vigna: UbiCrawler, a scalable fully
// distributed web crawler, 2004, section 5): each node has replicas at pseudo-random points of a circle, and a host belongs to
// the node of the closest one. A node that joins takes about its share of the hosts, all others stay. It asks for nothing.
//
// A server's hosts stay together here: the first of their names in the alphabet is hashed.
type hash struct {
	servers  []Server
	replicas int
	circle   []replica // by point
}

type replica struct {
	point uint64
	node  string
}

func newHash(cfg HashConfig, b Batch, v View) *hash {
	h := &hash{servers: b.Servers, replicas: cfg.Replicas}
	h.SetView(v, time.Time{})
	return h
}

func (h *hash) Name() string                     { return Hash }
func (h *hash) Asks(time.Time) []Ask             { return nil }
func (h *hash) Next(time.Time) (time.Time, bool) { return time.Time{}, false }
func (h *hash) Observe(Result, time.Time)        {}
func (h *hash) Memory(server netip.Addr) *Memory { return remembered(h.servers, server) }

func (h *hash) SetView(v View, _ time.Time) {
	h.circle = h.circle[:0]
	for _, n := range v.sorted() {
		for i := range h.replicas {
			h.circle = append(h.circle, replica{weight(strconv.Itoa(i), n.ID), n.ID})
		}
	}
	slices.SortFunc(h.circle, func(a, b replica) int {
		return cmp.Or(cmp.Compare(a.point, b.point), compareStrings(a.node, b.node))
	})
}

func (h *hash) Decide(time.Time) ([]Choice, bool) {
	choices := make([]Choice, len(h.servers))
	for i, s := range h.servers {
		name := s.Addr.String()
		if len(s.Hosts) > 0 {
			name = slices.MinFunc(s.Hosts, func(a, b Host) int { return compareStrings(a.Name, b.Name) }).Name
		}
		choices[i] = Choice{Server: s.Addr, Reason: noNode}
		if node := h.closest(weight("host", name)); node != "" {
			choices[i].Node, choices[i].Reason = node, fmt.Sprintf("closest replica to the hash of %s", name)
		}
	}
	return choices, true
}

func (h *hash) Conclude(now time.Time) []Choice {
	choices, _ := h.Decide(now)
	return choices
}

// closest is the node of the closest replica in either direction, "" if there is none.
func (h *hash) closest(point uint64) string {
	if len(h.circle) == 0 {
		return ""
	}
	i, _ := slices.BinarySearchFunc(h.circle, point, func(r replica, p uint64) int { return cmp.Compare(r.point, p) })
	after := h.circle[i%len(h.circle)]
	before := h.circle[(i+len(h.circle)-1)%len(h.circle)]
	// Distances on the circle wrap around by themselves.
	if point-before.point <= after.point-point {
		return before.node
	}
	return after.node
}
