package strict

import "strings"

// Nearest is the word that is most like another, "" where none is: one that begins with it, or differs in a third of its letters.
func Nearest(to string, words []string) (best string) {
	least := len(to)/3 + 1
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

// distance is how many letters must be added, removed or replaced to make one word the other (V. Levenshtein, 1966).
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
