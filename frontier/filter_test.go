package frontier

import "testing"

// TestFilterSteps goes over the step from the few hashes to the Bloom filter: nothing is forgotten, nothing is mistaken
// before it, and no more after it than 20 million URLs in 32 MiB.
func TestFilterSteps(t *testing.T) {
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	const n = 20_000_000 / 32
	f := newFilter(1)
	mistaken := 0
	for i := range n {
		if f.testOrAdd(hash(i)) {
			mistaken++
		}
		if i == mostFew-1 && (mistaken > 0 || f.many != nil) {
			t.Errorf("after %d URLs %d are mistaken, and the Bloom filter is there: %v", i, mistaken, f.many != nil)
		}
	}
	if f.many == nil || f.few != nil {
		t.Fatal("no step")
	}
	if mistaken > n/1000 {
		t.Errorf("%d of %d new URLs are called known", mistaken, n)
	}
	for i := range n {
		if !f.testOrAdd(hash(i)) {
			t.Fatalf("URL %d is forgotten", i)
		}
	}
	mistaken = 0
	for i := n; i < n+10_000; i++ {
		if f.testOrAdd(hash(i)) {
			mistaken++
		}
	}
	if mistaken > 10_000/400 {
		t.Errorf("the full filter calls %d of 10000 new URLs known", mistaken)
	}
}
