package strict_test

import (
	"testing"

	"proxima/node/strict"
)

func TestNearest(t *testing.T) {
	words := []string{"max-pages", "data", "seeds", "seed"}
	for of, want := range map[string]string{"max-page": "max-pages", "maxpages": "max-pages", "dta": "data", "seads": "seeds", "xyz": "", "q": "", "dot": "", "dtaa": "data"} {
		if got := strict.Nearest(of, words); got != want {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
	}
}
