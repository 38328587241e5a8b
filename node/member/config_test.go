package member

import (
	"context"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
)

func TestConfigReportsAll(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
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

func goodDeps() Deps {
	return Deps{ID: strings.Repeat("0a", 16), Boot: 1, PeerAddr: "127.0.0.1:1"}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Default(), goodDeps()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config, *Deps){
		"id":               func(_ *Config, d *Deps) { d.ID = strings.Repeat("0A", 16) },
		"run":              func(_ *Config, d *Deps) { d.Run = strings.Repeat("x", 256) },
		"secret":           func(_ *Config, d *Deps) { d.Secrets = [][]byte{make([]byte, 16)} },
		"not loopback":     func(c *Config, _ *Deps) { c.Bind = "0.0.0.0:7946" },
		"by name":          func(c *Config, _ *Deps) { c.Bind = "localhost.example:7946" },
		"peer address":     func(_ *Config, d *Deps) { d.PeerAddr = "127.0.0.1" },
		"location":         func(_ *Config, d *Deps) { d.Location = &ncoord.Location{Lat: 100} },
		"settle_after":     func(c *Config, _ *Deps) { c.SettleAfter = 0 },
		"not loopback, v6": func(c *Config, _ *Deps) { c.Bind, c.Advertise = "[::]:7946", "[2001:db8::1]:1" },
	} {
		c, d := Default(), goodDeps()
		change(&c, &d)
		if _, err := New(c, d); err == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	c, d := Default(), goodDeps()
	c.Bind, d.Secrets = "0.0.0.0:7946", [][]byte{make([]byte, 32)}
	if _, err := New(c, d); err != nil {
		t.Errorf("with a secret: %v", err)
	}
}

func TestRunTwice(t *testing.T) {
	c := Default()
	c.Bind = "127.0.0.1:0"
	m, err := New(c, goodDeps())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err == nil {
		t.Error("it ran twice")
	}
}
