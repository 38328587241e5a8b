package assign

import "testing"

// TestKnobs: knobs as they come are the default, and each of them turns something.
func TestKnobs(t *testing.T) {
	if got := DefaultKnobs().Config(); got != Default() {
		t.Errorf("untouched knobs make %+v, want %+v", got, Default())
	}
	k := Knobs{Vivaldi: VivaldiKnobs{0.5, 7, 9}, Nearest: NearestKnobs{3}}
	c := k.Config()
	if c.Vivaldi.Theta != 0.5 || c.Vivaldi.MaxTicks != 7 || c.Vivaldi.Tick != 9 || c.Nearest.Estimates != 3 || c.Nearest.MinEstimates != 2 {
		t.Errorf("%+v makes %+v", k, c)
	}
	if (Knobs{Nearest: NearestKnobs{0}}).Config().Nearest.MinEstimates != 0 {
		t.Error("without estimates some are made")
	}
	if k.Vivaldi.Theta = -1; k.Validate() == nil {
		t.Error("an impossible theta is taken")
	}
}
