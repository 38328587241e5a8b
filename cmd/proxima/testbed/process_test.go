package testbed

import (
	"math"
	"testing"
	"time"
)

func TestShareOfTheProcessorAddsToDownloads(t *testing.T) {
	if loadMs(1) != 0 {
		t.Errorf("all of it adds %v ms", loadMs(1))
	}
	// A node with a fifth of the processor is stopped for 80 ms of 100. That costs two waits of 80 % × 80 ms.
	if got := loadMs(0.2); got < 127 || got > 129 {
		t.Errorf("a fifth adds %v ms", got)
	}
}

// A download to a throttled node waits as long as loadMs says, whatever the distance to the server. When the answer comes fast, the two
// waits are correlated, and the download waits less.
func TestAShareOfTheProcessorCostsWhatTheTruthSays(t *testing.T) {
	for _, share := range []float64{0.2, 0.5, 0.8} {
		for _, way := range []float64{5, 20, 50, 75, 100, 200} {
			g := newGate(share, 7)
			const downloads = 20_000
			var now, waited time.Duration
			for range downloads {
				for range 2 {
					now += ms(way)
					d := g.wait(now)
					now, waited = now+d, waited+d
				}
			}
			got := waited.Seconds() * 1000 / downloads
			// The correlation of a process with two states decays with time.
			forgotten := 1 - math.Exp(-way/(share*(1-share)*float64(meanTurn.Milliseconds())))
			if want := forgotten * loadMs(share); math.Abs(got/want-1) > 0.05 {
				t.Errorf("share %v, way %v ms: a download waits %.1f ms, it should be %.1f", share, way, got, want)
			}
		}
	}
}

func TestAllOfTheProcessorNeverWaits(t *testing.T) {
	g := newGate(0.2, 7)
	if g.wait(time.Hour) == 0 && g.wait(2*time.Hour) == 0 && g.wait(3*time.Hour) == 0 && g.wait(4*time.Hour) == 0 {
		t.Error("a node with a fifth of the processor never waits")
	}
	g.set(1)
	for i := range 1000 {
		if d := g.wait(5*time.Hour + time.Duration(i)*time.Millisecond); d != 0 {
			t.Fatalf("a node with all of the processor waits %v", d)
		}
	}
}
