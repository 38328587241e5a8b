package ncoord

import (
	"math"
	"math/rand/v2"
)

// Two places closer than coincide, in ms through the core, have no direction to each other.
const coincide = 1e-3

// step is the share of an error taken over after that many samples: stepStart at first, falling towards stepMin.
func step(samples int) float64 {
	half := float64(stepSamples)
	return stepMin + (stepStart-stepMin)*half/(half+float64(samples))
}

// trust is the weight of a remote against the node's own error (Vivaldi's w).
func trust(own, remote float64) float64 {
	return own / (own + max(remote, errorFloor))
}

// surprise is the error of a prediction relative to the round trip, at most MaxError, so that one wild sample counts no more than any
// other bad one.
func surprise(predicted, ms float64) float64 {
	return min(math.Abs(predicted-ms)/ms, MaxError)
}

// near is the weight of a sample by its length.
func near(ms float64) float64 {
	return math.Sqrt(nearMs / (nearMs + ms))
}

// pull moves at by a sample of ms to the place to, by the share gain of what the prediction misses. It does not change at.Error. core
// is the distance through the core. All arguments must be finite, ms positive, gain at most 1.
func pull(at, to *Coordinate, core, ms, gain float64, rnd *rand.Rand) {
	heights := at.Height + to.Height
	distance := core + heights
	miss := ms - distance
	far := math.Abs(miss)
	move := gain * miss * clipMs / (clipMs + far)
	if most := absurd * clipMs; far > most {
		move *= (most / far) * (most / far)
	}
	// The unit vector of the height model is [(at−to)/distance, heights/distance]: the two parts share the move.
	share := shareMin
	switch {
	case core < coincide && move <= 0:
		share = 1 // too near: only the height can shrink
	case core < coincide:
		scatter(at, move*(1-share), rnd)
	default:
		if heights >= shareMax*distance {
			share = shareMax
		} else if heights > shareMin*distance {
			share = heights / distance
		}
		by := move * (1 - share) / core
		for i := range at.Vec {
			at.Vec[i] += by * (at.Vec[i] - to.Vec[i])
		}
	}
	at.Height = max(heightMin, min(at.Height+move*share, heightMax))
	for i, v := range at.Vec {
		at.Vec[i] = max(-MaxComponent, min(v, MaxComponent))
	}
}

// scatter moves at by that many ms in a random direction.
func scatter(at *Coordinate, by float64, rnd *rand.Rand) {
	var u [MaxDims]float64
	var norm float64
	for i := range MaxDims {
		u[i] = rnd.NormFloat64()
		norm += u[i] * u[i]
	}
	norm = math.Sqrt(norm)
	for i := range MaxDims {
		at.Vec[i] += by * u[i] / norm
	}
}

// gravity pulls at to the origin, as much as that many samples do but at most half of the way.
func gravity(at *Coordinate, samples float64) {
	far := planar(at, &Coordinate{})
	keep := 1 - min(samples*far/(gravityMs*gravityMs), 0.5) // (far/g)² ms of far ms
	for i := range at.Vec {
		at.Vec[i] *= keep
	}
}
