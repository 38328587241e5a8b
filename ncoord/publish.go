package ncoord

import (
	"math"
	"time"
)

// spot is a place as ENERGY compares it, with the height as one more dimension.
type spot [MaxDims + 1]float64

// to returns the distance to another spot, in ms.
func (a *spot) to(b *spot) float64 {
	var sum float64
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return math.Sqrt(sum)
}

// energy tells when a place that always moves a little has really moved: when the recent places differ from those of the last such
// time by more than each window differs within itself (ENERGY of Ledlie, Gardner and Seltzer, NSDI 2007). It allocates nothing.
type energy struct {
	start  [energyWindow]spot
	recent [energyWindow]spot
	moves  int
}

// add takes a place into the recent window, for the oldest there.
func (e *energy) add(c *Coordinate) {
	e.recent[e.moves%energyWindow] = spot{c.Vec[0], c.Vec[1], c.Vec[2], c.Vec[3], c.Height}
	e.moves++
}

// full reports whether the recent window is full.
func (e *energy) full() bool { return e.moves >= energyWindow }

// centre writes the mean of the recent window, which must be full, into a coordinate.
func (e *energy) centre(c *Coordinate) {
	var sum spot
	for _, at := range e.recent {
		for k, v := range at {
			sum[k] += v
		}
	}
	for k := range c.Vec {
		c.Vec[k] = sum[k] / energyWindow
	}
	c.Height = sum[MaxDims] / energyWindow
}

// distance is the energy distance between the two windows, in ms (Székely and Rizzo, 2004): nm/(n+m) times twice the
// mean distance between them less the mean distances within. Both windows must be full.
func (e *energy) distance() float64 {
	var across, within float64
	for i := range energyWindow {
		for k := range energyWindow {
			across += e.start[i].to(&e.recent[k])
		}
		for k := range i {
			within += e.start[i].to(&e.start[k]) + e.recent[i].to(&e.recent[k])
		}
	}
	return (across - within) / energyWindow
}

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

// set takes the present load, in ms.
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
