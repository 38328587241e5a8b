package netsim

import (
	"math"
	"testing"
)

// TestTransferByHand: 100 ms, 1,250 bytes a ms (10 Mbit/s), 14,480 bytes at first; a round takes a segment longer than the round trip.
func TestTransferByHand(t *testing.T) {
	const perByte = 1500 / 1448. / 1250
	for _, c := range []struct {
		bytes     int64
		rtt, rate float64
		want      float64
	}{
		{0, 100, 1250, 0},
		{1_448, 100, 1250, 1.2},
		{14_480, 100, 1250, 12},
		{20_000, 100, 1250, 101.2 + 5_520*perByte},
		{100_000, 100, 1250, 202.4 + (100_000-14_480-28_960)*perByte},
		// 14,480 + 28,960 + 57,920 + 115,840 in four rounds; 231,680 at once would fill the pipe.
		{1_000_000, 100, 1250, 404.8 + (1_000_000-217_200)*perByte},
		{1_000_000, 100, 0, 600}, // without a bound: 14,480 × 63 = 912,240 in six round trips
		{1_448_000, 1, 100, 15_000},
		{20_000, 0, 0, 0},
	} {
		if got := TransferMs(c.rtt, c.rate, c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes over %v ms at %v bytes/ms: %v ms, want %v", c.bytes, c.rtt, c.rate, got, c.want)
		}
	}
}

// TestDownloadAsMeasured: kernels took 202, 308, 451 and 1258 ms for these pages over such a path, with their headers.
func TestDownloadAsMeasured(t *testing.T) {
	for bytes, measured := range map[int64]float64{1_000: 202, 20_000: 308, 100_000: 451, 1_000_000: 1258} {
		if got := DownloadMs(100, 1250, 0, 0, bytes); math.Abs(got-measured) > .01*measured {
			t.Errorf("%d bytes: %v ms, measured %v", bytes, got, measured)
		}
	}
	if got := DownloadMs(100, 1250, 30, 7, 0); got != 237 {
		t.Errorf("with thought and load: %v", got)
	}
}
