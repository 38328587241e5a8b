package member

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
)

func TestConfigReportsAll(t *testing.T) {
	must(t, Default().Validate())
	c := Default()
	c.Bind, c.Advertise, c.Preset, c.Join = "nowhere", "0.0.0.0:1", "moon", []string{"a:1", "a", ":0"}
	c.SettleAfter, c.Faster, c.GoAloneAfter = 0, 0.5, time.Second
	err := c.Validate()
	for _, want := range []string{"bind", "advertise", "preset", "join[1]", "join[2]", "settle_after", "faster", "go_alone_after"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "join[0]") {
		t.Error("a good address is reported")
	}
}

// Each number may be the first and the last that is allowed, and none beyond.
func TestConfigBounds(t *testing.T) {
	for _, b := range []struct {
		what string
		set  func(c *Config, ok bool)
	}{
		{"faster: least", func(c *Config, ok bool) { c.Faster = pick(ok, 1, 0.999) }},
		{"faster: most", func(c *Config, ok bool) { c.Faster = pick(ok, 20, 20.001) }},
		{"faster: a number", func(c *Config, ok bool) { c.Faster = pick(ok, 2, math.NaN()) }},
		{"settle_after: least", func(c *Config, ok bool) { c.SettleAfter = pick(ok, time.Second, time.Second-1) }},
		{"settle_after: most", func(c *Config, ok bool) { c.SettleAfter = pick(ok, time.Hour, time.Hour+1) }},
		{"go_alone_after: never", func(c *Config, ok bool) { c.GoAloneAfter = pick[time.Duration](ok, 0, -1) }},
		{"go_alone_after: least", func(c *Config, ok bool) { c.GoAloneAfter = pick(ok, c.MajorityWindow, c.MajorityWindow-1) }},
		{"go_alone_after: most", func(c *Config, ok bool) { c.GoAloneAfter = pick(ok, 720*time.Hour, 720*time.Hour+1) }},
		{"bind: port", func(c *Config, ok bool) { c.Bind = pick(ok, "127.0.0.1:65535", "127.0.0.1:65536") }},
		{"bind: all of IPv4", func(c *Config, ok bool) { c.Bind = pick(ok, "0.0.0.0:1", "[::]:1") }},
		{"bind: all of IPv6", func(c *Config, ok bool) { c.Bind, c.Advertise = "[::]:1", pick(ok, "[2001:db8::1]:1", "") }},
		{"bind: address", func(c *Config, ok bool) { c.Bind = pick(ok, "[::1]:1", "localhost:1") }},
		{"advertise: port", func(c *Config, ok bool) { c.Advertise = pick(ok, "192.0.2.1:1", "192.0.2.1:0") }},
		{"advertise: address", func(c *Config, ok bool) { c.Advertise = pick(ok, "192.0.2.1:1", "host.test:1") }},
		{"join: name", func(c *Config, ok bool) { c.Join = []string{pick(ok, "a:1", ":1")} }},
		{"join: port", func(c *Config, ok bool) { c.Join = []string{pick(ok, "a:1", "a:0")} }},
	} {
		for _, ok := range []bool{true, false} {
			c := Default()
			b.set(&c, ok)
			key, _, _ := strings.Cut(b.what, ":")
			if err := c.Validate(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), key) {
				t.Errorf("%s, allowed %v: %v", b.what, ok, err)
			}
		}
	}
}

// Nodes whose times differ, by however little, have different labels.
func TestLabelsOfTimes(t *testing.T) {
	labels := map[string]bool{}
	times := []float64{1, 1.25, 1.5, 2, 2.5}
	for _, faster := range times {
		labels[label(Config{Faster: faster}, Deps{Label: "run"})] = true
	}
	if len(labels) != len(times) || !labels["run"] {
		t.Errorf("for %v there are the labels %v", times, labels)
	}
}

func pick[T any](ok bool, good, bad T) T {
	if ok {
		return good
	}
	return bad
}

func goodDeps() Deps {
	return Deps{ID: strings.Repeat("0a", 16), Boot: 1, PeerAddr: "127.0.0.1:1", Secrets: [][]byte{make([]byte, 32)}}
}

func TestNewRefuses(t *testing.T) {
	longest := goodDeps()
	longest.Label = strings.Repeat("x", 255)
	if _, err := New(Default(), longest); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config, *Deps){
		"id":             func(_ *Config, d *Deps) { d.ID = strings.Repeat("0A", 16) },
		"label":          func(_ *Config, d *Deps) { d.Label = strings.Repeat("x", 256) },
		"secret":         func(_ *Config, d *Deps) { d.Secrets = [][]byte{make([]byte, 16)} },
		"no secret":      func(_ *Config, d *Deps) { d.Secrets = nil },
		"peer address":   func(_ *Config, d *Deps) { d.PeerAddr = "127.0.0.1" },
		"location":       func(_ *Config, d *Deps) { d.Location = &ncoord.Location{Lat: 100} },
		"settle_after":   func(c *Config, _ *Deps) { c.SettleAfter = 0 },
		"damaged voters": func(_ *Config, d *Deps) { d.Voters = []byte("damaged") },
	} {
		c, d := Default(), goodDeps()
		change(&c, &d)
		if m, err := New(c, d); m != nil || err == nil {
			t.Errorf("%s was not refused: %v, %v", name, m, err)
		}
	}
}

func TestRunTwice(t *testing.T) {
	c := Default()
	c.Bind, c.Advertise = "127.0.0.1:0", "192.0.2.7:7"
	m, err := New(c, goodDeps())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	must(t, m.Run(ctx))
	if at := m.Gossip(); at != c.Advertise {
		t.Errorf("it is said to be at %s", at)
	}
	if err := m.Run(ctx); err == nil {
		t.Error("it ran twice")
	}
}
