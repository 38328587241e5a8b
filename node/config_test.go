package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/node"
)

// TestBrokenFiles reads each broken file of testdata/config. Its first lines are the errors that it must give, all of
// them, FILE standing for its name.
func TestBrokenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/config/*.toml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			want := wanted(t, file)
			for range 5 { // maps have no order, errors must have one
				_, err := node.Load(file)
				if err == nil {
					t.Fatal("no error")
				}
				if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
					t.Fatalf("errors (-want +got):\n%s", d)
				}
			}
		})
	}
}

// wanted are the errors in the head of a fixture; each names file, line and key.
func wanted(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	form := regexp.MustCompile(`^FILE:[1-9][0-9]*: [-A-Za-z0-9_.\[\]]+: .+`)
	var want []string
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\uFEFF")) {
		w, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "# want: ")
		if !ok {
			break
		}
		if !form.MatchString(w) {
			t.Fatalf("%q does not name file, line and key", w)
		}
		want = append(want, strings.Replace(w, "FILE", file, 1))
	}
	return want
}

// TestEverySectionIsValidated holds that no section's Validate is forgotten: each has a fixture of its name, with an
// error of its own key.
func TestEverySectionIsValidated(t *testing.T) {
	sections := []string{"fetch.dns"}
	c := reflect.TypeFor[node.Config]()
	for i := range c.NumField() {
		if section := c.Field(i).Tag.Get("toml"); section != "-" {
			sections = append(sections, section)
		}
	}
	for _, section := range sections {
		name := section[strings.LastIndex(section, ".")+1:]
		files, err := filepath.Glob("testdata/config/" + name + "_*.toml")
		if err != nil || len(files) == 0 {
			t.Errorf("no fixture for section %s (%v)", section, err)
		}
		for _, file := range files {
			for _, want := range wanted(t, file) {
				if _, rest, _ := strings.Cut(want, ": "); !strings.HasPrefix(rest, section+".") && !strings.HasPrefix(rest, section+"[") {
					t.Errorf("%s: %q is not of section %s", file, want, section)
				}
			}
		}
	}
}

func TestDefaultFileIsDefault(t *testing.T) {
	same(t, "default.toml", node.Default(), node.DefaultFile)
	if errs := node.Default().Validate(); len(errs) > 0 {
		t.Errorf("the default is not valid: %v", errs)
	}
}

// same complains unless a text is read as a configuration.
func same(t *testing.T, what string, want node.Config, text string) {
	t.Helper()
	got, err := node.Parse(what, text)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || d != "" {
		t.Errorf("%s: %v (-want +got):\n%s", what, err, d)
	}
}

func TestTextRoundTrips(t *testing.T) {
	same(t, "default", node.Default(), node.Default().Text())
	c := node.Default()
	c.Node.Run = "a \"quoted\" name, \t and ünicode"
	c.Crawl.Seeds = []string{"a.txt", "b.txt"}
	c.Scope.Include.Hosts = []string{"example.org"}
	c.Politeness.MinGap, c.Politeness.RetryPage = 1500*time.Millisecond, []time.Duration{time.Second, 90 * time.Minute}
	c.Politeness.Factor = 3
	c.Fetch.Contact, c.Fetch.From = "https://example.org/bot", "bot@example.org"
	c.Fetch.DNS.Hosts = map[string][]string{"www.example.org": {"192.0.2.1", "2001:db8::1"}}
	c.Geo.Latitude, c.Geo.Longitude = 90, -180
	same(t, "changed", c, c.Text())
	c.Geo.Latitude, c.Geo.Longitude = -90, 180
	same(t, "changed again", c, c.Text())
}

// TestHasten: the times of the overlay keep the proportions that they need, however fast; what a file says itself is left.
func TestHasten(t *testing.T) {
	once := node.Default()
	once.Hasten(1)
	same(t, "once as fast", once, node.DefaultFile)
	for _, by := range []float64{1, 2.5, 6.5, 7.5, 15, 20} {
		c, err := node.Parse("f", fmt.Sprintf("[member]\nfaster = %v\nsettle_after = \"2s\"\n", by))
		must(t, err)
		m, o, l := c.Member, c.Ownership, c.Lease
		for what, holds := range map[string]bool{
			"an owner that misses one message stops":           o.SuspendAfter >= 2*o.RenewEvery,
			"two nodes crawl one host":                         o.TakeAfter > o.SuspendAfter,
			"a new home knows too little":                      o.Collect > o.RenewEvery,
			"a node that is cut off grants beside the others":  l.Skew > m.HearWithin,
			"a lease ends before all know of its end":          l.Time > l.Skew,
			"probes once a second are too seldom to be heard":  m.HearWithin >= 3*time.Second,
			"a dead node is forgotten before it stops to vote": m.MajorityWindow > m.ForgetAfter,
			"what the file says is lost":                       m.SettleAfter == 2*time.Second && m.Faster == by,
		} {
			if !holds {
				t.Errorf("%v times as fast: %s: %+v %+v %+v", by, what, m, o, l)
			}
		}
		same(t, fmt.Sprint(by, " times as fast"), c, c.Text())
	}
	c, err := node.Parse("f", "[member]\nfaster = 7.5\n")
	if want := 12 * time.Second; err != nil || c.Ownership.TakeAfter != want || c.Lease.Time != 8*time.Second {
		t.Errorf("hosts are taken over after %v, want %v; leases last %v; %v", c.Ownership.TakeAfter, want, c.Lease.Time, err)
	}
}

// FuzzParse holds that what is taken is valid and survives its own text, and that every error names file and line.
func FuzzParse(f *testing.F) {
	f.Add(node.DefaultFile)
	files, _ := filepath.Glob("testdata/config/*.toml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(f, err)
		f.Add(string(text))
	}
	placed := regexp.MustCompile(`^FILE:\d+: \S`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := node.Parse("FILE", text)
		if err != nil {
			if !placed.MatchString(err.Error()) {
				t.Errorf("%q names no place", err)
			}
			return
		}
		if errs := c.Validate(); len(errs) > 0 {
			t.Errorf("taken, but not valid: %v", errs)
		}
		again, err := node.Parse("FILE", c.Text())
		if err != nil {
			t.Fatalf("its own text is refused: %v\n%s", err, c.Text())
		}
		if d := cmp.Diff(c, again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
