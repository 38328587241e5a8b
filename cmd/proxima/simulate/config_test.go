package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	cfg := Default()
	for _, p := range [][2]string{{"nodes", "20"}, {"noise", "0.5"}, {"nearest.balance", "0.25"}, {"nearest.explore", "1"},
		{"vivaldi.theta", "0.15"}} {
		if err := cfg.Set(p[0], p[1]); err != nil {
			t.Error(err)
		}
	}
	if a := cfg.Assign; cfg.Nodes != 20 || cfg.Noise != 0.5 || a.Nearest.Balance != 0.25 || a.Nearest.Explore != 1 || a.Vivaldi.Theta != 0.15 {
		t.Errorf("%+v", cfg)
	}
}

// What is wrong with a configuration is told when a key is set or, at the latest, before a world is drawn.
func TestWrongConfigurations(t *testing.T) {
	for _, c := range []struct{ set, value, want string }{
		{"nodes", "many", `"many" is not a number`},
		{"nodes", "1.5", `"1.5" is not a whole number`},
		{"noise", "loud", `"loud" is not a number`},
		{"nearest.beauty", "1", "no parameter"},
		{"nearest.balance", "x", "nearest.balance = x"},
		{"nearest.balance", "-1", "nearest.balance"},
		{"", "1", "= 1"},
		{"nodes", "0", "nodes: 0"},
		{"homes", "15", "homes: 15"},
		{"servers", "-1", "servers: -1"},
		{"location-wrong", "1.5", "location-wrong"},
		{"noise", "NaN", "noise"},
		{"assigners", "oracle", `"oracle" is none`},
		{"assigners", "direct-0", `"direct-0"`},
		{"assigners", "best best", "given twice"},
		{"assigners", "", "none are given"},
	} {
		cfg, err := Default(), error(nil)
		if c.set == "assigners" {
			cfg.Assigners = strings.Fields(c.value)
		} else {
			err = cfg.Set(c.set, c.value)
		}
		if err == nil {
			_, err = Run(t.Context(), cfg)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want %q in it", c.set, c.value, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, small()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
