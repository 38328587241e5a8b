package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proxima/cmd/proxima/fleet"
	"proxima/node"
)

// A draw has nothing twice, is the same each time, and differs from host to host.
func TestDraw(t *testing.T) {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf("%02d", i))
	}
	for n, want := range map[int]int{0: 100, 1: 1, 10: 10, 100: 100, 200: 100} {
		drawn := draw(list, n, 1, "a", "seeds")
		if len(drawn) != want || len(slices.Compact(slices.Sorted(slices.Values(drawn)))) != want {
			t.Errorf("%d of 100: %v", n, drawn)
		}
	}
	a, again, host, seed := draw(list, 10, 1, "a", "x"), draw(list, 10, 1, "a", "x"), draw(list, 10, 1, "b", "x"), draw(list, 10, 2, "a", "x")
	if !slices.Equal(a, again) || slices.Equal(a, host) || slices.Equal(a, seed) {
		t.Error("the same words draw another sample, or other words the same")
	}
}

// overlayOf is what is known of n hosts.
func overlayOf(n int) (overlay []fleet.Info) {
	for i := range n {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		overlay = append(overlay, fleet.Info{Host: fleet.Host{Name: fmt.Sprint("h", i), Addresses: []netip.Addr{address}}})
	}
	return overlay
}

// The keys of a node replace those of the common configuration, in whatever form they are written there. The rest stays as it is.
func TestConfigOfANode(t *testing.T) {
	overlay := overlayOf(5)
	overlay[1].Translated = true
	for _, base := range []string{
		"",
		"node.data = 'x'\nnode.memory_mib = 300",
		"[node]\n'data' = \"\"\"x\ny\"\"\"\nmemory_mib = 300\n[crawl]\nseeds = [\n'a', # ]\n]\n[member]\nfaster = 7.5",
		"node = { data = 'x', memory_mib = 300 }\npeer = { listen = ':1' }\n[[site]]\nhost = 'a.test'\ndepth = 3",
	} {
		text, err := (&deployment{config: base, run: "r-1", peers: 2, port: 7947, gossip: 7946, overlay: overlay}).nodeConfig(overlay[1])
		if err != nil {
			t.Fatal(err)
		}
		c, err := node.Parse("node.toml", text)
		if err != nil {
			t.Errorf("%s:\n%v", text, err)
		}
		if want := 300; base != "" && c.Node.MemoryMiB != want || c.Node.Data != "data" || c.Node.Run != "r-1" || c.Peer.Listen != "0.0.0.0:7947" ||
			c.Peer.Advertise != "10.0.0.1:7947" || c.Member.Bind != "0.0.0.0:7946" || len(c.Crawl.Seeds) != 1 || c.Termination.ExpectedNodes != 5 ||
			len(c.Member.Join) != 2 || c.Member.Join[0] != "10.0.0.2:7946" || (len(c.Site) == 1) != strings.Contains(base, "site") {
			t.Errorf("%s\ngave\n%s", base, text)
		}
	}
	if text, err := (&deployment{config: "nonsense = ", peers: 9, overlay: overlay}).nodeConfig(overlay[0]); err == nil {
		t.Errorf("a broken configuration gave %s", text)
	}
}

// The peers that nodes join make a ring, so that no part of the overlay is on its own.
func TestJoin(t *testing.T) {
	overlay := overlayOf(20)
	for of, peers := range map[int]int{1: 3, 2: 3, 5: 16, 20: 1} {
		for i := range of {
			join := (&deployment{peers: peers, gossip: 1, overlay: overlay[:of]}).join(overlay[i])
			if want := min(peers, of-1); len(join) != want || want > 0 && join[0] != overlay[(i+1)%of].Advertise(1) ||
				slices.Contains(join, overlay[i].Advertise(1)) {
				t.Errorf("%d peers of %d: node %d joins %v", peers, of, i, join)
			}
		}
	}
}

// The row of the table tells the state of a node from what its host says.
func TestRow(t *testing.T) {
	running := `{"uptime_s": 15.4, "crawl": {"pages": 140}, "frontier": {"pending": 7}`
	refused := &fleet.Fault{Word: fleet.Refused, Text: "Permission denied"}
	for _, c := range []struct {
		text string
		err  error
		want row
	}{
		{"absent", nil, row{"absent", "-", "-", "-", "-", ""}},
		{"stopped", nil, row{"stopped", "-", "-", "-", "-", ""}},
		{"stopped\n" + `{"event":"stop","level":"INFO","reason":"finished"}`, nil, row{"stopped", "-", "-", "-", "-", "finished"}},
		{"stopped\n" + `{"event":"members","reason":"none"}`, nil, row{"stopped", "-", "-", "-", "-", ""}},
		{"stopped\n{torn", nil, row{"stopped", "-", "-", "-", "-", ""}},
		{"mute\nno answer", nil, row{stateMute, "-", "-", "-", "-", "no answer"}},
		{"running\n" + running + "}", nil, row{stateRunning, "15s", "140", "7", "alone", ""}},
		{"running\n" + running + `, "overlay": {"alive": 3, "settled": 2, "reason": "alone"}}`, nil, row{stateRunning, "15s", "140", "7", "3/2", "alone"}},
		{"", refused, row{"refused", "-", "-", "-", "-", "Permission denied"}},
	} {
		if r := newRow(c.text, c.err); r != c.want {
			t.Errorf("%s: %+v, want %+v", c.text, r, c.want)
		}
	}
}

// What is wrong with the files of deploy is told before a host is asked.
func TestDeployChecksFirst(t *testing.T) {
	bin, asked := t.TempDir(), filepath.Join(t.TempDir(), "asked")
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\ntouch '"+asked+"'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	broken := file(t, "broken.toml", "[crawl]\n\nfetchers = 0\n")
	hosts, empty := file(t, "all.hosts", "a\n"), file(t, "empty", "")
	deploy := "fleet deploy -hosts " + hosts + " -seeds " + file(t, "seeds", "http://a.test/\n")
	told(t, exitUsage, [][]string{
		{"fleet deploy -hosts " + hosts + " -seeds " + empty, "no seeds: there is no URL in " + empty + "\n"},
		{deploy + " -config " + broken, broken + ":3: crawl.fetchers: 0 is not between"},
		{deploy + " -geo " + broken + ".none", "no such file"},
		{deploy + " -secret " + broken, "read secret file " + broken},
	}...)
	if _, err := os.Stat(asked); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a host was asked: %v", err)
	}
	// A key that needs the secret, which every node gets, is no mistake.
	agent := file(t, "agent.toml", "[fetch]\nsignature_agent = \"https://a.test\"\n")
	told(t, exitNothing, []string{deploy + " -config " + agent})
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("nothing was wrong, and no host was asked: %v", err)
	}
}

// The sets of before go, whatever their folder is called.
func TestSelectReplacesSets(t *testing.T) {
	bin, sets := t.TempDir(), filepath.Join(t.TempDir(), "sets [1]")
	answer := "#!/bin/sh\necho '0.5 4 x86_64 9999\n/home/proxima\n127.0.0.1'\n"
	if err := errors.Join(os.WriteFile(filepath.Join(bin, "ssh"), []byte(answer), 0o700), os.Mkdir(sets, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	hosts := file(t, "all.hosts", "a\nb\nc\nd\n")
	for _, take := range []int{4, 1} {
		if got, out, errs := call(t, "fleet", "select", "-hosts", hosts, "-need", "1", "-take", fmt.Sprint(take), "-out", sets); got != exitOK {
			t.Fatalf("exit %d\n%s%s", got, out, errs)
		}
		if files, err := os.ReadDir(sets); err != nil || len(files) != take {
			t.Errorf("%d hosts for sets of one: %v, %v", take, files, err)
		}
	}
}
