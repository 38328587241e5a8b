package ncoord

// filter gives a percentile of the last samples of one link. The zero value is empty. It allocates nothing.
type filter struct {
	ring   [window]float32 // ms, as they came
	at     [window]int64   // when, in ns of the node's own time
	sorted [window]float32
	first  uint8 // oldest in ring
	n      uint8
}

// add takes a sample and drops what is too old or too much.
func (f *filter) add(ms float64, now int64) {
	for f.n > 0 && (int(f.n) >= window || now-f.at[f.first] > int64(sampleTTL)) {
		f.drop()
	}
	v := float32(ms)
	last := (f.first + f.n) % window
	f.ring[last], f.at[last] = v, now
	i := int(f.n)
	for ; i > 0 && f.sorted[i-1] > v; i-- {
		f.sorted[i] = f.sorted[i-1]
	}
	f.sorted[i] = v
	f.n++
}

// drop forgets the oldest sample.
func (f *filter) drop() {
	v := f.ring[f.first]
	f.first = (f.first + 1) % window
	f.n--
	i := 0
	for f.sorted[i] != v {
		i++
	}
	for ; i < int(f.n); i++ {
		f.sorted[i] = f.sorted[i+1]
	}
}

// percentile is the round trip of the link, in ms. The filter is not empty.
func (f *filter) percentile(p float64) float64 {
	return float64(f.sorted[int(p*float64(f.n-1)+0.5)])
}
