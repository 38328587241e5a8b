//go:build race

package netsim

// raceDetector says whether the tests run many times slower than they could.
const raceDetector = true
