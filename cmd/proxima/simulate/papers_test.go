package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// The experiments have the shapes that were published, in worlds that nothing was tuned on.
func TestPapers(t *testing.T) {
	cfg := Default()
	cfg.Seeds, cfg.First = 2, 7001
	p, err := MeasurePapers(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	row := func(method, setup string) PaperRow {
		for _, r := range p.Rows {
			if r.Method == method && strings.HasPrefix(r.Setup, setup) {
				return r
			}
		}
		t.Fatalf("there is no row %s, %s", method, setup)
		return PaperRow{}
	}
	// A higher threshold needs fewer probes and finds the best node less often; so do more nodes.
	byThreshold := []PaperRow{row(assign.HiMicra, "12 nodes, T 25"), row(assign.HiMicra, "12 nodes, T 50"), row(assign.HiMicra, "12 nodes, T 75")}
	learned := []PaperRow{row(assign.IPMicra, "12 nodes, T 25"), row(assign.IPMicra, "12 nodes, T 50 ms, 350"), row(assign.IPMicra, "12 nodes, T 100")}
	byNodes := []PaperRow{row(assign.HiMicra, "10 nodes"), row(assign.HiMicra, "25 nodes"), row(assign.HiMicra, "50 nodes")}
	for _, rows := range [][]PaperRow{byThreshold, learned, byNodes} {
		for i := range rows[1:] {
			if a, b := rows[i], rows[i+1]; b.Probes >= a.Probes || b.Best >= a.Best {
				t.Errorf("%+v\n%+v\nwant fewer probes and right choices in the second", a, b)
			}
		}
	}
	for i := range byThreshold[1:] {
		if a, b := byThreshold[i].LossMs, byThreshold[i+1].LossMs; b <= a {
			t.Errorf("losses do not rise with the threshold: %.3v ms, %.3v ms", a, b)
		}
	}
	if h, i := byThreshold[1].Probes, learned[1].Probes; i >= h {
		t.Errorf("ipmicra makes %.3v of all probes, himicra %.3v", i, h)
	}
	for _, r := range p.Rows {
		if r.Best <= 0 || r.Best > 1 || r.Probes <= 0 || r.Probes > 1 || r.LossMs <= 0 {
			t.Errorf("a row makes no sense: %+v", r)
		}
	}
	var out bytes.Buffer
	if err := p.Print(&out); err != nil || !strings.Contains(out.String(), "% probes") || strings.Contains(out.String(), "14 nodes, 80 servers") {
		t.Errorf("it prints %q, %v", out.String(), err)
	}
	if _, err := json.Marshal(p); err != nil {
		t.Error(err)
	}
}

// TestAddressesWithoutPrefixes: no two servers of a world share an organisation, nor a network of the largest world, and all are on the Internet.
func TestAddressesWithoutPrefixes(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for i := range 1_000_000 {
		a := address(i)
		bits := 24
		if i < 20_000 {
			bits = 16
		}
		network := netip.PrefixFrom(a, bits).Masked()
		if seen[network] || !a.IsGlobalUnicast() {
			t.Fatalf("server %d has the address %v", i, a)
		}
		seen[network] = true
	}
}

// TestDelegations: the servers of a country have addresses that were given there, and no two organisations the same block.
func TestDelegations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "delegations.json")
	text := `{"byCountry": {"US": ["5.1.0.0/16", "5.2.4.0/22", "5.3.0.0/25"], "EU": ["5.9.0.0/16"], "FR": ["2a00::/24"]}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	var err error
	if cfg.Delegations, err = ReadDelegations(file); err != nil || len(cfg.Delegations) != 1 || len(cfg.Delegations.of("USA")) != 2 {
		t.Fatalf("%v, %v", cfg.Delegations, err)
	}
	cfg.Servers, cfg.Prefixed = 400, true
	w := newWorld(cfg, 1)
	within := 0
	for _, s := range w.servers {
		if a := s.addr.As4(); a[0] == 5 && a[1] <= 3 {
			within++
			if a[1] == 3 || a[1] == 2 && (a[2] < 4 || a[2] > 7) {
				t.Errorf("%v is in no block", s.addr)
			}
		}
	}
	if len(w.at) != cfg.Servers || within == 0 {
		t.Errorf("%d addresses of %d servers, %d in the blocks", len(w.at), cfg.Servers, within)
	}
	if _, err := ReadDelegations(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestPrefixedWorld(t *testing.T) {
	cfg := Default()
	cfg.Servers, cfg.Prefixed = 5000, true
	w := newWorld(cfg, 7003)
	of := map[netip.Prefix][]int{} // the cities of its servers
	for _, s := range w.servers {
		p, _ := s.addr.Prefix(24)
		of[p] = append(of[p], s.city)
	}
	if len(w.at) != cfg.Servers {
		t.Errorf("%d addresses of %d servers", len(w.at), cfg.Servers)
	}
	one, few := 0, 0
	for _, cities := range of {
		if slices.Min(cities) == slices.Max(cities) {
			one++
		}
		if len(cities) < 4 || len(cities) > 8 {
			few++
		}
	}
	if share := float64(one) / float64(len(of)); share < 0.85 || share > 0.95 || few > 1 {
		t.Errorf("%.0f %% of %d prefixes are in one city, %d have fewer than 4 or more than 8 servers", 100*share, len(of), few)
	}
}

// TestFewDelegations: where a country's blocks do not suffice for its servers, the others are invented.
func TestFewDelegations(t *testing.T) {
	cfg := Default()
	cfg.Matrices = []*world.Matrix{{Cities: []world.City{{Name: "A", Country: "Germany"}}, RTT: [][]float64{{1}}}}
	cfg.Nodes, cfg.Servers, cfg.Prefixed = 1, 100, true
	block := netip.MustParsePrefix("2.160.0.0/24")
	cfg.Delegations = Delegations{"Germany": {block}}
	w, inside := newWorld(cfg, 1), 0
	for _, s := range w.servers {
		if block.Contains(s.addr) {
			inside++
		}
	}
	if len(w.at) != 100 || inside == 0 || inside == 100 {
		t.Errorf("%d addresses, %d of them in the block", len(w.at), inside)
	}
}
