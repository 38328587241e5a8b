//go:build race

package ncoord_test

// raceDetector says whether the tests run many times slower than they could.
const raceDetector = true
