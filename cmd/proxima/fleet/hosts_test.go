package fleet

import (
	"debug/elf"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	for text, want := range map[string]string{
		"\uFEFFa\n# none\nroot@b:2222 10.0.0.7 # stated\n[2001:db8::8]:22\n": "",
		"a\nroot@a\n":         ":2: a is listed twice, in line 1 too",
		"-oProxyCommand=date": `:1: "-oProxyCommand=date" is not [USER@]HOST[:PORT]`,
		"a 10.0.0":            `:1: "10.0.0" is not an IP address`,
		"# nobody":            "names no host",
		"\x7fELF\x1b[2J" + strings.Repeat("x", 100): `:1: "\x7fELF\x1b[2J` + strings.Repeat("x", 52) + `" is not`,
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
	var hosts []Info
	for _, load := range []float64{.1, 5, .2, .3, .4, .5, .6} {
		hosts = append(hosts, Info{Load: load})
	}
	sets := Divide(hosts, 2, 3)
	sums := make([]float64, 2)
	for k, set := range sets {
		for _, h := range set {
			sums[k] += h.Load
		}
		if len(set) != 3 {
			t.Errorf("set %d has %d hosts", k+1, len(set))
		}
	}
	if sums[0]+sums[1] > 2.11 || max(sums[0], sums[1])-min(sums[0], sums[1]) > .11 {
		t.Errorf("loads of the sets are %v", sums)
	}
}

// As many sets as the hosts are enough for, and all hosts that may be taken.
func TestSetSizes(t *testing.T) {
	for _, c := range []struct{ need, sets, take, found, wanted, made, size int }{
		{need: 10, take: 50, found: 60, wanted: 5, made: 5, size: 10},
		{need: 10, sets: 3, found: 60, wanted: 3, made: 3, size: 10},
		{need: 10, sets: 3, take: 50, found: 60, wanted: 3, made: 3, size: 16},
		{need: 10, sets: 3, found: 25, wanted: 3, made: 2, size: 12},
		{need: 4, sets: 2, found: 7, wanted: 2, made: 1, size: 7},
		{need: 10, sets: 3, found: 9, wanted: 3},
		{need: 10}, {sets: 2}, {need: 10, take: 9}, {need: 10, sets: 3, take: 29}, // wrong
	} {
		wanted, made, size, err := SetSizes(c.need, c.sets, c.take, c.found)
		if wanted != c.wanted || made != c.made || size != c.size || (err == nil) != (c.wanted > 0) {
			t.Errorf("%+v: %d of %d sets of %d, %v", c, made, wanted, size, err)
		}
	}
}

func TestInfo(t *testing.T) {
	stated := []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	for _, c := range []struct {
		text   string
		stated []netip.Addr
		listen string // or what is wrong
	}{
		{"3.00 2 x86_64 900\n/srv/proxima\n::ffff:192.0.2.7\n10.0.0.1 192.0.2.7 \n", nil, "192.0.2.7:9"},
		{"3.00 2 x86_64 900\n/srv/proxima\n192.0.2.7\n10.0.0.1", stated, "0.0.0.0:9"},
		{"3.00 2 x86_64 900\n/srv/proxima\n2001:db8::8\n", nil, "[::]:9"},
		{"3.00 2 x86_64 900\n/srv/proxima\n127.0.0.1\n", nil, "127.0.0.1:9"},
		{"3.00 2 x86_64 900\n/srv/proxima", nil, "name one in the list"},
		{"Welcome!\n", nil, `answered "Welcome!"`},
		{"", nil, `answered ""`},
	} {
		i, err := newInfo(Host{Name: "a", Addresses: c.stated}, c.text)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.listen):
			t.Errorf("%q: %v, want %q", c.text, err, c.listen)
		case err == nil && (i.Listen(9) != c.listen || i.Load != 1.5 || i.FreeMiB != 900 || i.Dir != "/srv/proxima" || i.Machine != "x86_64"):
			t.Errorf("%q: %+v, listens on %s, want %s", c.text, i, i.Listen(9), c.listen)
		}
	}
}

// Each host gets the program for its machine, by whatever name the kernel calls it.
func TestProgramOfAMachine(t *testing.T) {
	all := Programs{}
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_ARM, elf.EM_AARCH64, elf.EM_RISCV, elf.EM_PPC64, elf.EM_S390, elf.EM_LOONGARCH} {
		all[kind(m.String())] = File{name: m.String()}
	}
	for machine, want := range map[string]elf.Machine{"x86_64": elf.EM_X86_64, "i686": elf.EM_386, "armv7l": elf.EM_ARM, "aarch64": elf.EM_AARCH64,
		"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loongarch64": elf.EM_LOONGARCH, "alpha": elf.EM_NONE} {
		f, err := all.For(Info{Machine: machine})
		if known := want != elf.EM_NONE; (err == nil) != known || known && f.name != want.String() {
			t.Errorf("%s: %q, %v; want %v", machine, f.name, err, want)
		}
	}
}
