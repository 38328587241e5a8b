package ncoord

import (
	"math"
	"slices"
	"time"

	"proxima/ncoord/quantile"
)

// noLoad is the load, in ms, below which none is published.
const noLoad = 0.01

// load is the wait in a node as it is published: at once when it rises, slowly when it falls, and not at all while it changes little.
// Otherwise sites would bounce between nodes.
type load struct {
	raw   float64 // ms, as set
	level float64 // ms: raw, or what is left of a higher one
	shown float64 // ms, as published
	at    time.Time
}

func (l *load) set(ms float64, now time.Time) {
	l.settle(now)
	l.raw = ms
	l.level = max(l.level, ms)
}

// settle lets the level fall towards the present load.
func (l *load) settle(now time.Time) {
	if past := now.Sub(l.at); past > 0 {
		l.level = l.raw + (l.level-l.raw)*math.Exp2(-float64(past)/float64(loadHalf))
	}
	l.at = now
}

// show publishes the level if it is worth it, and reports whether it did.
func (l *load) show() bool {
	change := math.Abs(l.level - l.shown)
	gone := l.shown > 0 && l.level < noLoad
	if !gone && (change <= loadMs || change <= loadShare*max(l.level, l.shown)) {
		return false
	}
	l.shown = l.level
	if gone {
		l.shown = 0
	}
	return true
}

// delays holds by how much the last round trips, whatever the peer, exceeded the filtered ones of their links, in ms.
type delays struct {
	ring    [15]float64
	samples int
}

func (d *delays) add(ms float64) {
	d.ring[d.samples%len(d.ring)] = max(0, ms)
	d.samples++
}

func (d *delays) median() float64 {
	all := d.ring
	last := all[:min(d.samples, len(all))]
	slices.Sort(last)
	return quantile.Of(last, .5)
}
