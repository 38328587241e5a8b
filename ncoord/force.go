package ncoord

import (
	"math"
	"math/rand/v2"
)

// coincide is the distance through the core, in ms, below which two places have no direction to each other.
const coincide = 1e-3

// absurd is how many times Config.ClipMs a sample must miss to count less the more it misses: no honest pair does.
const absurd = 3

// step is the share of an error that is taken over after so many samples: Config.Step at first, falling towards StepMin.
func (c *Config) step(samples int) float64 {
	half := float64(c.StepSamples)
	return c.StepMin + (c.Step-c.StepMin)*half/(half+float64(samples))
}

// trust is the weight of a remote against one's own error (Vivaldi's w).
func (c *Config) trust(own, remote float64) float64 {
	if remote < c.ErrorFloor {
		remote = c.ErrorFloor
	}
	return own / (own + remote)
}

// surprise is by how much a prediction failed, relative to the round trip, at most MaxError: one sample that fails a
// thousandfold says no more than one that fails by half.
func surprise(predicted, ms float64) float64 {
	return min(math.Abs(predicted-ms)/ms, MaxError)
}

// near is the weight of a sample by its length.
func (c *Config) near(ms float64) float64 {
	if c.NearMs == 0 {
		return 1
	}
	return math.Sqrt(c.NearMs / (c.NearMs + ms))
}

// pull moves at by a sample of ms to the place to, by a share gain of what the prediction misses. It leaves at.Error
// alone. core is the distance through the core, known to the caller. All arguments are finite, ms is positive, gain at most 1.
func (c *Config) pull(at, to *Coordinate, core, ms, gain float64, rnd *rand.Rand) {
	heights := at.Height + to.Height
	distance := core + heights
	miss := ms - distance
	far := math.Abs(miss)
	move := gain * miss * c.ClipMs / (c.ClipMs + far)
	if most := absurd * c.ClipMs; far > most {
		move *= (most / far) * (most / far)
	}
	// The unit vector of the height model is [(at−to)/distance, heights/distance]: what goes up does not go sideways.
	share := c.ShareMin
	switch {
	case core < coincide && move <= 0:
		share = 1 // too near, and no way left but down
	case core < coincide:
		c.scatter(at, move*(1-share), rnd)
	default:
		if heights >= c.ShareMax*distance {
			share = c.ShareMax
		} else if heights > c.ShareMin*distance {
			share = heights / distance
		}
		by := move * (1 - share) / core
		for i := range at.Vec {
			at.Vec[i] += by * (at.Vec[i] - to.Vec[i])
		}
	}
	if h := at.Height + move*share; h < c.HeightMin {
		at.Height = c.HeightMin
	} else if h > c.HeightMax {
		at.Height = c.HeightMax
	} else {
		at.Height = h
	}
	at.bound()
}

// scatter moves at by so many ms in a random direction.
func (c *Config) scatter(at *Coordinate, by float64, rnd *rand.Rand) {
	var u [MaxDims]float64
	var norm float64
	for i := range c.Dims {
		u[i] = rnd.NormFloat64()
		norm += u[i] * u[i]
	}
	if norm == 0 {
		u[0], norm = 1, 1
	}
	norm = math.Sqrt(norm)
	for i := range c.Dims {
		at.Vec[i] += by * u[i] / norm
	}
}

// gravity draws at to the origin as in so many samples, by at most half of the way.
func (c *Config) gravity(at *Coordinate, samples float64) {
	if c.GravityMs == 0 {
		return
	}
	far := planar(at, &Coordinate{})
	keep := 1 - min(samples*far/(c.GravityMs*c.GravityMs), 0.5) // (far/g)² ms of far ms
	for i := range at.Vec {
		at.Vec[i] *= keep
	}
}

// bound keeps the components within what Check accepts.
func (c *Coordinate) bound() {
	for i, v := range c.Vec {
		if math.Abs(v) > MaxComponent {
			c.Vec[i] = math.Copysign(MaxComponent, v)
		}
	}
}

// usesMore tells whether a coordinate uses components beyond dims.
func (c *Coordinate) usesMore(dims int) bool {
	for _, v := range c.Vec[dims:] {
		if v != 0 {
			return true
		}
	}
	return false
}
