package testbed

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	for text, want := range map[string]string{
		"a\n# none\nroot@b:2222 10.0.0.7 # stated\n[2001:db8::8]:22\n": "",
		"a\nroot@a\n":         ":2: a is listed twice",
		"-oProxyCommand=date": ":1: -oProxyCommand=date is not [USER@]HOST[:PORT]",
		"a 10.0.0":            ":1: 10.0.0 is not an IP address",
		"# nobody":            "names no host",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		hosts, err := ReadHosts(path)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil || len(hosts) != 3 {
			t.Fatalf("%v, %v", hosts, err)
		}
		b, c := hosts[1], hosts[2]
		if b.Name != "b_2222" || b.target != "root@b" || b.port != "2222" || !slices.Equal(b.Addresses, []netip.Addr{netip.MustParseAddr("10.0.0.7")}) ||
			c.target != "2001:db8::8" || c.port != "22" {
			t.Errorf("%+v", hosts)
		}
	}
}

// The sets consist of the least loaded hosts. They have the same size and similar loads.
func TestDivide(t *testing.T) {
	var hosts []hostInfo
	for _, load := range []float64{.1, 5, .2, .3, .4, .5, .6} {
		hosts = append(hosts, hostInfo{load: load})
	}
	sets := divide(hosts, 2, 3)
	sums := make([]float64, 2)
	for k, set := range sets {
		for _, h := range set {
			sums[k] += h.load
		}
		if len(set) != 3 {
			t.Errorf("set %d has %d hosts", k+1, len(set))
		}
	}
	if sums[0]+sums[1] > 2.11 || max(sums[0], sums[1])-min(sums[0], sums[1]) > .11 {
		t.Errorf("loads of the sets are %v", sums)
	}
}

// Each set has a port of its own, up to the last that there is.
func TestEverySetHasAPort(t *testing.T) {
	for _, c := range []struct {
		port, sets int
		ok         bool
	}{{0, 1, false}, {1, 1, true}, {65535, 1, true}, {65535, 2, false}, {65534, 2, true}, {70000, 1, false}} {
		f := &fleet{FleetOptions: FleetOptions{Seeds: []string{"http://a.test/"}, Jobs: 1, Sets: c.sets, Port: c.port}}
		if err := f.check(); (err == nil) != c.ok {
			t.Errorf("%d sets from port %d: %v", c.sets, c.port, err)
		}
	}
}

// A fleet goes on with the hosts of an earlier call, which may be too few for a scenario that was changed since.
func TestPlanNeedsHosts(t *testing.T) {
	s, err := Load("ci")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{scenario: s}
	if _, err := f.plan("nearest", []hostInfo{{host: Host{Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}}}}); err == nil || !strings.Contains(err.Error(), "1 host") {
		t.Errorf("a plan for one host: %v", err)
	}
}

// The fleet works on several hosts at once, but never on more than allowed. A fake ssh runs everything on this machine.
func TestTwoHundredHosts(t *testing.T) {
	dir := t.TempDir()
	log, program := filepath.Join(dir, "log"), filepath.Join(dir, "program")
	stand := fmt.Sprintf("#!/bin/sh\necho begin >>%[1]s\nfor last; do :; done\nSSH_CONNECTION='1 1 127.0.0.1 22' sh -c \"$last\"\ncode=$?\n"+
		"echo end >>%[1]s\nexit $code\n", log)
	for name, text := range map[string]string{"ssh": stand, "program": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	f := &fleet{FleetOptions: FleetOptions{Program: program, Jobs: 8}, remote: remote{dir: filepath.Join(dir, "there"), seconds: 9},
		out: newPrinter(io.Discard)}
	if err := f.pack(); err != nil {
		t.Fatal(err)
	}
	var hosts []Host
	for i := range 200 {
		hosts = append(hosts, Host{Name: fmt.Sprint("h", i), target: fmt.Sprint("h", i)})
	}
	if found := f.inspectAll(t.Context(), hosts); len(found) != 200 || found[7].host.Name != "h7" || found[7].dir != f.dir {
		t.Errorf("%d of 200 hosts can be used", len(found))
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	at, most := 0, 0
	for line := range strings.Lines(string(text)) {
		if at--; line == "begin\n" {
			at += 2
		}
		most = max(most, at)
	}
	if most > 8 || strings.Count(string(text), "begin") != 400 {
		t.Errorf("%d at once; 8 are allowed; %d calls", most, strings.Count(string(text), "begin"))
	}
}

// TestFleetRefuses says before anything is done what real machines cannot do.
func TestFleetRefuses(t *testing.T) {
	site := Host{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	for _, c := range []struct {
		scenario, want string
		sites          []Host
	}{
		{"length='9s'\n[[nodes]]\nname='a'\n[[nodes]]\nname='b'\n[[sites]]\n[[events]]\nkind='partition'\nnodes=['a']", "real machines do not support this", []Host{site}},
		{"[[nodes]]\n[[sites]]\ncount=2", "2 servers, but the list of sites has only 1 addresses", []Host{site}},
		{"[[nodes]]\n[[sites]]", "needs machines for sites, or seeds", nil},
	} {
		s, err := Parse("x.toml", strings.ReplaceAll(c.scenario, "'", `"`))
		if err != nil {
			t.Fatal(err)
		}
		err = Fleet(t.Context(), s, FleetOptions{Sites: c.sites, Sets: 1, Jobs: 1, Timeout: time.Second, Out: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestUnpackStaysInside: what a host sends is written below the folder or not at all.
func TestUnpackStaysInside(t *testing.T) {
	for name, good := range map[string]bool{"logs/a.jsonl": true, "../a": false, "/tmp/a/../../b/../../../x": false} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 2}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, "hi")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		whole := b.Bytes()
		dir := t.TempDir()
		if err := unpack(bytes.NewReader(whole), dir); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
		if err := unpack(bytes.NewReader(whole[:len(whole)-9]), dir); err == nil {
			t.Errorf("%s: a file that breaks off is whole", name)
		}
	}
}
