package netsim

// TransferMs is how long a fresh connection takes over a path of that round trip from the first byte of the answer to the last, in
// ms, without loss: slow start from the initial window, doubling each round trip, until the bandwidth carries what remains.
// bytesPerMs 0 is unlimited.
func TransferMs(rttMs, bytesPerMs float64, bytes int64) float64 {
	left, window, t, perByte := float64(bytes), float64(initialWindow), 0.0, 0.0
	if bytesPerMs > 0 {
		perByte = float64(segment+header) / segment / bytesPerMs
	}
	round := rttMs + segment*perByte // the first segment is acknowledged when its last byte is there
	for left > window && window*perByte < round {
		left -= window
		window *= 2
		t += round
	}
	// From here on the pipe is full, or the rest is under way: the bandwidth decides.
	return t + left*perByte
}

// DownloadMs is the time that an unloaded node is expected to need for a page on a fresh connection, in ms: connecting, asking, the
// server's thought, slow start.
func DownloadMs(rttMs, bytesPerMs, thinkMs, loadMs float64, bytes int64) float64 {
	return 2*rttMs + thinkMs + loadMs + TransferMs(rttMs, bytesPerMs, bytes)
}
