package main

import (
	"testing"

	"proxima/scripts/lab"
)

// TestConfigure: the shorter times are valid at both ends.
func TestConfigure(t *testing.T) {
	l := lab.NewLayout(subnet, 100, 18, 12)
	for _, faster := range []float64{1, 7.5, 15, 20} {
		c := configure(settings{fetch: 4, faster: faster}, &l, 1, 2)
		for _, err := range c.Validate() {
			t.Errorf("faster by %v: %v", faster, err)
		}
		if c.Fetch.UserAgent != "Proxima/1.2" || len(c.Fetch.DNS.Hosts) != 18 {
			t.Errorf("%+v", c.Fetch)
		}
	}
}
