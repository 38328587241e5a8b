package strict

import "strings"

// Nearest returns the word that is most similar to another, or "". A word is similar if it begins with the other, or if at most about a third
// of the letters differ.
func Nearest(to string, words []string) (best string) {
	least := (len(to) + 2) / 3
	for _, w := range words {
		if len(to) > 2 && strings.HasPrefix(w, to) {
			return w
		}
		if d := distance(to, w); d <= least {
			best, least = w, d-1
		}
	}
	return best
}

// distance returns how many letters must be added, removed or replaced to change one word into another (Levenshtein, 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for k := range len(b) {
			d := last
			if a[i] != b[k] {
				d++
			}
			last = row[k+1]
			row[k+1] = min(d, row[k+1]+1, row[k]+1)
		}
	}
	return row[len(b)]
}
