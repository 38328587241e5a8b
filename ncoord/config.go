package ncoord

import "time"

// How coordinates move. These are constants, because all nodes of an overlay need the same values and no operator has a reason to change
// them. Values without a source did well over PlanetLab, cities and cloud regions alike.
const (
	// maxRTT is the longest credible round trip. A longer one tells of a machine that slept rather than of the network.
	maxRTT = 20 * time.Second
	// floorMs is the shortest round trip told apart. Below it one measures clocks and schedulers.
	floorMs float64 = 0.1
	// locationKm is how far off a location may be before a round trip counts as faster than light. Less refuses more lies, but also more
	// honest nodes with a wrong entry in a database.
	locationKm float64 = 50

	// maxLinks limits the peers whose samples are kept, about 300 bytes each. Beyond it, peers unused for long make room.
	maxLinks = 512
	// window is how many samples of a link are kept. More stand more noise, and see a route change later.
	window = 16
	// percentile of the window counts as the round trip. A low one shows the network, a high one the queues and machines at both ends,
	// which belong to the load (Ledlie et al., NSDI 2007: 25th of the last few).
	percentile float64 = 0.25
	// sampleTTL is how long a sample counts, and so how long a rarely measured link remembers an old route.
	sampleTTL = 30 * time.Minute
	// neighbours is how many remembered neighbours pull along with the measured one at each sample of a new node (stepSamples). Many
	// keep it from settling on the wrong side of one.
	neighbours = 8
	// recallEvery: once a node is no longer new, one remembered neighbour pulls at every fourth sample, so that it matters less how often
	// a peer is measured.
	recallEvery = 4
	// neighbourTTL is the age at which a remembered neighbour stops pulling. Its pull falls linearly until then (Ledlie et al.: neighbour
	// decay).
	neighbourTTL = 10 * time.Minute

	// stepStart is the share of a sample's error (cc) and of its surprise (ce) that a node takes over if it is new or has jumped (Dabek et
	// al., SIGCOMM 2004: 0.25).
	stepStart float64 = 0.25
	// stepMin is what that share falls to. A small one is stable, a large one follows changes.
	stepMin float64 = 0.1
	// stepSamples is the number of samples after which it has fallen half the way.
	stepSamples = 600
	// nearMs weighs samples by √(nearMs/(nearMs+rtt)). Less tells near places apart better, at the cost of far ones. Vivaldi weighs all
	// samples alike.
	nearMs float64 = 20
	// clipMs softly limits a single sample: a miss of m counts as m/(1+|m|/clipMs). So pairs that fit into no space, wild coordinates and
	// bad samples pull by at most clipMs times the step.
	clipMs float64 = 160
	// absurd: a sample that misses by more than that many clipMs counts less the more it misses. No honest pair does.
	absurd float64 = 3
	// errorFloor is the least error credited to a remote, so that nobody is trusted without limit.
	errorFloor float64 = 0.05
	// gravityMs pulls to the origin by (|place|/gravityMs)² ms a sample, so that the overlay does not drift as a whole (Ledlie et al.). A
	// lower value pulls harder and bends predictions.
	gravityMs float64 = 2000

	// heightStart is the height of a new node.
	heightStart float64 = 5
	// heightMin is the least height: every node has an access link.
	heightMin float64 = 0.1
	// heightMax is the greatest height.
	heightMax float64 = 5000
	// shareMin is the least share of a move that goes into the height. Between it and shareMax the share is that of the heights in the
	// distance (the unit vector of Vivaldi's height model). The minimum lets low heights grow.
	shareMin float64 = 0.05
	// shareMax is the greatest such share. It keeps near nodes from explaining everything by heights.
	shareMax float64 = 0.1

	// energyWindow is how many moves make up a window. More publish less often, and later (ENERGY, Ledlie et al.: 32).
	energyWindow = 32
	// energyMs is the energy distance between the two windows at which the coordinate is published again (ENERGY: 8).
	energyMs float64 = 8
	// loadMs is the least change of the load that is worth publishing, in ms.
	loadMs float64 = 2
	// loadShare is the least such change as a share of the load. Both limits must be exceeded.
	loadShare float64 = 0.2
	// loadHalf is the time in which the published load falls half the way to a lower load. Rising load shows at once.
	loadHalf = 20 * time.Second
)
