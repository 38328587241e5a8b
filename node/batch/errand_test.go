package batch

import (
	"testing"

	"proxima/frontier"
	"proxima/node/errand"
)

// TestErrandsAreThoseOfTheOtherRoom keeps the types convertible: the two rooms do not know each other, and the node joins
// them by a conversion.
func TestErrandsAreThoseOfTheOtherRoom(t *testing.T) {
	e := Errand(errand.Errand(Errand{Batch: "x", Quiet: true, Depth: 3}))
	r := Result(errand.Result{Ending: frontier.Failed, Status: 404})
	if e.Batch != "x" || !e.Quiet || e.Depth != 3 || r.Ending != frontier.Failed || r.Status != 404 {
		t.Errorf("%+v %+v", e, r)
	}
}
