package ncoord

import "time"

// How coordinates move. Nobody who runs a node has a reason to turn these, and all nodes of an overlay need the same, so they are constants.
// Where no source is named, the values are those that did well over PlanetLab, cities and cloud regions alike.
const (
	// maxRTT is the longest round trip believed. What is above says more about a machine that slept than of a network.
	maxRTT = 20 * time.Second
	// floorMs is the shortest round trip told apart; below it clocks and schedulers are measured.
	floorMs float64 = 0.1
	// locationKm is how far off a location may be before a round trip counts as faster than light. Less refuses more lies
	// and more honest nodes with a wrong entry in a database.
	locationKm float64 = 50

	// maxLinks bounds the peers whose samples are kept, about 300 bytes each. Beyond it, peers not heard of for long make
	// room.
	maxLinks = 512
	// window is how many samples of a link are kept: more bears more noise, and takes longer to see a route change.
	window = 16
	// percentile of the window counts as the round trip. Low ones see the network, high ones the queues and machines at
	// both ends, which belong to the load (Ledlie et al., NSDI 2007: 25th of the last few).
	percentile float64 = 0.25
	// sampleTTL is how long a sample counts. It bounds how long a rarely measured link remembers an old route.
	sampleTTL = 30 * time.Minute
	// neighbours is how many remembered neighbours pull beside the measured one at each sample of a node that is new
	// (stepSamples): many keep it from settling on the wrong side of one.
	neighbours = 8
	// recallEvery is at which every sample of a node that is no longer new one remembered neighbour pulls, so that how
	// often a peer is measured decides less.
	recallEvery = 4
	// neighbourTTL is the age at which a remembered neighbour no longer pulls; its pull falls to that in a straight line
	// (Ledlie et al.: neighbour decay).
	neighbourTTL = 10 * time.Minute

	// stepStart is the share of a sample's error (cc) and of its surprise (ce) taken over by a node that is new or has
	// jumped (Dabek et al., SIGCOMM 2004: 0.25).
	stepStart float64 = 0.25
	// stepMin is what that share falls to. Small is stable, large follows changes.
	stepMin float64 = 0.1
	// stepSamples is after how many samples it has fallen half the way.
	stepSamples = 600
	// nearMs weighs samples by √(nearMs/(nearMs+rtt)): less prefers that near places are told apart over that far ones
	// are exact. Vivaldi weighs all alike.
	nearMs float64 = 20
	// clipMs bounds what a single sample can do, softly: a miss of m counts as m/(1+|m|/clipMs). Pairs that no space can
	// hold, wild coordinates and bad samples pull no harder than by clipMs times the step.
	clipMs float64 = 160
	// absurd is how many times clipMs a sample must miss to count less the more it misses: no honest pair does.
	absurd float64 = 3
	// errorFloor is the least error granted to a remote: nobody is believed without limit.
	errorFloor float64 = 0.05
	// gravityMs pulls to the origin by (|place|/gravityMs)² ms a sample, so that the overlay does not drift as a whole
	// (Ledlie et al.). Less is stronger and bends predictions.
	gravityMs float64 = 2000

	// heightStart is the height of a new node.
	heightStart float64 = 5
	// heightMin is the least height: none is nearer to all others than its own access.
	heightMin float64 = 0.1
	// heightMax is the greatest height.
	heightMax float64 = 5000
	// shareMin is the least share of a move that goes into the height; between it and shareMax it is the heights' share
	// of the distance (the unit vector of Vivaldi's height model). The floor lets low heights grow.
	shareMin float64 = 0.05
	// shareMax is the greatest such share: it keeps near nodes from explaining all by heights.
	shareMax float64 = 0.1

	// energyWindow is how many moves make up a window of the published coordinate. More is calmer and later (ENERGY,
	// Ledlie et al.: 32).
	energyWindow = 32
	// energyMs is the energy distance between the old and the recent window at which it is published anew (ENERGY: 8).
	energyMs float64 = 8
	// loadMs is the least change of the load that is worth publishing, in ms.
	loadMs float64 = 2
	// loadShare is the least such change as a share of the load: both must be reached.
	loadShare float64 = 0.2
	// loadHalf is the time in which load that is gone falls by half in what is published. Rising load shows at once.
	loadHalf = 20 * time.Second
)
