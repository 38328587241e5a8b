//go:build !race

package nodetest

// raceDetector says whether the tests run many times slower than they could.
const raceDetector = false
