package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"proxima/cmd/proxima/compare"
)

// sample is a comparison with every part: four assigners, nodes and servers on the globe, an event, and what it did to a node.
func sample(nodes, servers int) *compare.Result {
	names := []string{"nearest", "vivaldi", "random", "geographic"}
	line := func(label string, scale float64) compare.Series {
		s := compare.Series{Label: label}
		for i := range 300 {
			s.Points = append(s.Points, compare.Point{float64(i) + .5, scale * (1 + math.Sin(float64(i)/20))})
		}
		return s
	}
	r := &compare.Result{By: compare.ByAssigner, Reference: "random", Command: "proxima compare x",
		Runs: []compare.RunInfo{{Dir: "x", Scenario: "bandwidth", Seed: 7, Emulated: true, Started: time.Unix(1.8e9, 0), Seconds: 300, Nodes: nodes,
			Servers: servers, Cores: 2, Machine: "Some CPU", MadeBy: "proxima testbed run bandwidth", Assigners: names, Version: "v1",
			Config: "[crawl]\nfetchers = 3\n"}},
		Crawl:    compare.Crawl{Coverage: new(1.), Lost: new(int64(0)), Attempted: 900},
		Statuses: []compare.Status{{Label: "200 OK", Count: 900}, {Label: "DNS error"}},
		Testbed:  compare.Testbed{Trusted: new(true), DelayErrorP50Ms: new(.1), DelayErrorP99Ms: new(.4), Emulation: "tun", Calibrations: 3},
		Events:   []compare.Event{{AtS: 60, UntilS: 120, Label: "bandwidth ÷ 5", Target: "n1"}, {AtS: 200, UntilS: 200, Label: "heal"}},
		Affected: []compare.Affected{{Kind: "node", Name: "n1"}}, CoordError: []compare.Series{line("p50", .1), line("p90", .3)}}
	for i, name := range names {
		ms := 100 * float64(i+1)
		a := compare.Assigner{Name: name, URLs: 900, Downloaded: 900, Bytes: 1e7, P50Ms: &ms, P90Ms: new(2 * ms), P99Ms: new(4 * ms),
			MeanMs: new(1.2 * ms), ChoiceRatio: new(1 + .1*float64(i)), TotalRatio: new(1 + .2*float64(i)), Truncated: i == 1, Decisions: 20,
			Forced: int64(i)}
		for k := range 201 {
			a.Times = append(a.Times, compare.Point{ms * math.Exp(float64(k)/60), float64(k) / 200})
		}
		if name != "random" {
			a.Difference = &compare.Difference{To: "random", Ms: ms - 300, LowMs: ms - 350, HighMs: ms - 250, Rel: (ms - 300) / 300,
				Low: (ms - 350) / 300, High: (ms - 250) / 300, Pairs: 900, Servers: servers}
		}
		r.Assigners = append(r.Assigners, a)
		r.Affected[0].URLs = append(r.Affected[0].URLs, line(name, ms))
	}
	r.Assigners[1].Lead, r.Assigners[2].Lead, r.Assigners[3].Lead = r.Assigners[0].Difference, r.Assigners[0].Difference,
		r.Assigners[0].Difference
	for i := range nodes {
		n := compare.NodeUse{Name: fmt.Sprintf("n%d", i), City: "Rome", Pages: 100, Times: r.Assigners[i%4].Times,
			Geo: &compare.Point{float64(i*37%360 - 180), float64(i*13%120 - 60)}}
		r.Nodes, r.Speed = append(r.Nodes, n), append(r.Speed, line(n.Name, float64(100+i)))
	}
	for i := range servers {
		s := compare.Server{Addr: fmt.Sprintf("192.0.2.%d", i), Host: "http://a.test", City: "Oslo", Best: "n0", BestMs: 80,
			Geo: &compare.Point{float64(i*53%360 - 180), float64(i*17%120 - 60)}}
		for k, name := range names {
			s.Choices = append(s.Choices, compare.Choice{Row: name, Node: fmt.Sprintf("n%d", (i+k)%nodes), LossMs: new(float64(10 * k))})
		}
		r.Servers = append(r.Servers, s)
	}
	return r
}

// TestFigures: each scenario fills its figures, those without a run say so, and the page names where each comes from.
func TestFigures(t *testing.T) {
	var all []*compare.Result
	for _, scenario := range []string{"bandwidth", "single", "fourteen", "demo"} {
		r := sample(4, 12)
		r.Runs[0].Scenario = scenario
		a := &r.Affected[0]
		a.Distance, a.Error, a.Rate, r.SpeedBy, r.CPU = a.URLs, a.URLs, a.URLs, a.URLs, a.URLs
		r.Assigners[1].Updates = r.Assigners[1].Times
		r.Homes = []compare.HomeUse{{Node: "n0", Row: "vivaldi", Batches: 1, Servers: 8, UpdatesP50: new(67.)}}
		all = append(all, r)
	}
	var b strings.Builder
	if err := Figures(&b, all, "v1", "proxima figures x"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"Distance of the node that is hit", "vivaldi ", "the figures of 2009", "proxima figures x", "8,353", "seed 7",
		"not run", ">67.0<", "to be trusted"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if all, without := strings.Count(page, "why they differ"), strings.Count(page, "; not run"); all != 12 || without != 3 { // load and server
		t.Errorf("%d figures, %d of them not run", all, without)
	}
}

// hostile has words from the web that would like to be more than words.
func hostile() *compare.Result {
	const evil = `"><script>document.title='owned'</script><img src=x onerror=alert(1)>'` + "]]>--><!--</svg></style>\x00\x1b\u202egnp.\xff{{.}}"
	r := sample(4, 12)
	r.Command, r.Testbed.Emulation, r.Testbed.Why, r.Crawl.Withheld = evil, evil, []string{evil}, evil
	r.Runs[0].Scenario, r.Runs[0].Config, r.Runs[0].Differs, r.Runs[0].Dir = evil, evil, evil, evil
	r.Affected[0].Name, r.Events[0].Label, r.Events[0].Target, r.Statuses[0].Label = evil, evil, evil, evil
	r.Assigners[0].Name, r.Nodes[0].Name, r.Nodes[0].City, r.Speed[0].Label = evil, evil, evil, evil
	r.Speed[1].Points[7][1] = math.Inf(1)
	for i := range r.Servers {
		r.Servers[i].Host, r.Servers[i].City, r.Servers[i].Best = evil, evil, evil
		r.Servers[i].Choices[0].Node, r.Servers[i].Choices[0].Row = evil, evil
	}
	return r
}

// pages are the reports that must be right.
func pages() map[string]*compare.Result {
	one := sample(3, 1)
	one.Assigners, one.Events, one.Affected, one.Servers, one.Testbed = one.Assigners[2:3], nil, nil, nil, compare.Testbed{}
	bad := sample(6, 24)
	bad.Testbed.Trusted, bad.Testbed.Why = new(false), []string{"The error of delays reached 3.40 ms at p99; 1 ms is allowed."}
	return map[string]*compare.Result{"usual": sample(10, 80), "one": one, "bad": bad, "many": sample(200, 300), "hostile": hostile(), "empty": {}}
}

func written(t *testing.T, r *compare.Result) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r, "v9"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var controls = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x{202a}-\x{202e}]`)

// TestPagesAreSelfContained: nothing in a page leads out of it, and words from the web stay words.
func TestPagesAreSelfContained(t *testing.T) {
	for name, r := range pages() {
		t.Run(name, func(t *testing.T) {
			page := written(t, r)
			if controls.MatchString(page) {
				t.Error("control characters in the page")
			}
			root, err := html.Parse(strings.NewReader(page))
			if err != nil {
				t.Fatal(err)
			}
			leads := []string{"src", "srcset", "action"}
			foreign := []string{"iframe", "object", "embed", "img", "image", "use", "base", "form", "foreignObject"}
			ids, scripts := map[string]bool{}, 0
			for n := range root.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				for _, a := range n.Attr {
					if key := strings.ToLower(a.Key); slices.Contains(leads, key) || strings.HasPrefix(key, "on") || key == "href" && a.Val != "data:," {
						t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
					}
				}
				if id := attribute(n, "id"); id != "" && ids[id] {
					t.Errorf("id %q stands twice", id)
				} else {
					ids[id] = true
				}
				switch {
				case slices.Contains(foreign, n.Data):
					t.Errorf("a page of figures has no <%s>", n.Data)
				case n.Data == "script" && attribute(n, "type") != "application/json":
					scripts++
				case n.Data == "style" && (strings.Contains(n.FirstChild.Data, "url(") || strings.Contains(n.FirstChild.Data, "@import")):
					t.Error("the style loads something")
				}
			}
			if scripts != 1 {
				t.Errorf("%d scripts, want the page's own", scripts)
			}
			body := page[strings.Index(page, "<body>"):strings.LastIndex(page, "<script>")]
			if none := regexp.MustCompile(`NaN|Inf|<nil>`).FindString(body); none != "" && name != "hostile" {
				t.Errorf("the page has %s", none)
			}
			if len(page) > 4<<20 {
				t.Errorf("%d bytes", len(page))
			}
		})
	}
}

// TestEachCardHasData: a table has a row with a figure, a plot a line of two points, a map a server, a list an entry.
func TestEachCardHasData(t *testing.T) {
	for name, r := range pages() {
		root, err := html.Parse(strings.NewReader(written(t, r)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == "section" && !slices.ContainsFunc(slices.Collect(n.Descendants()), isCard) && !isCard(n) {
				t.Errorf("%s: a section without a card: %s", name, words(n))
			}
			if isCard(n) {
				if fault := emptiness(n); fault != "" {
					t.Errorf("%s: a card with %s: %.60s", name, fault, words(n))
				}
			}
		}
	}
}

func isCard(n *html.Node) bool { return slices.Contains(strings.Fields(attribute(n, "class")), "card") }

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// words are all texts below a node.
func words(n *html.Node) string {
	var list []string
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			list = append(list, strings.Fields(d.Data)...)
		}
	}
	return strings.Join(list, " ")
}

// emptiness says what of a card has no data, "" if all has.
func emptiness(card *html.Node) string {
	holds := map[string]string{"table": "td", "ul": "li", "dl": "dd", "map": "title"} // by tag or class: the tag of an entry
	parts := 0
	for n := range card.Descendants() {
		class := attribute(n, "class")
		entry := cmp.Or(holds[n.Data], holds[class])
		if n.Type != html.ElementNode || entry == "" && class != "data" {
			continue
		}
		parts++
		data := false
		for d := range n.Descendants() {
			data = data || d.Type == html.ElementNode && d.Data == entry && words(d) != "" && words(d) != dash
		}
		if class == "data" {
			var p plot
			data = json.Unmarshal([]byte(n.FirstChild.Data), &p) == nil && len(p.Lines) > 0 &&
				!slices.ContainsFunc(p.Lines, func(l plotLine) bool { return len(l.Points) < 2 })
		}
		if !data {
			return "an empty " + n.Data
		}
	}
	if parts == 0 {
		return "nothing"
	}
	return ""
}

// TestSections: what was not measured has no heading; the differences come first. All rows of a comparison download the same pages at
// the same time, so that their course would say nothing.
func TestSections(t *testing.T) {
	sections := func(page string) (ids []string) {
		for _, m := range regexp.MustCompile(`<section id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			ids = append(ids, m[1])
		}
		return ids
	}
	if got, want := sections(written(t, &compare.Result{})), "made"; strings.Join(got, " ") != want {
		t.Errorf("an empty report has %s, want %s", got, want)
	}
	page := written(t, sample(6, 24))
	if got, want := sections(page), "differences figures times at-n1 course servers maps crawl nodes made"; strings.Join(got, " ") != want {
		t.Errorf("the report has %s, want %s", got, want)
	}
	if strings.Contains(page, "a steeper line") {
		t.Error("the course of a comparison is shown by row")
	}
	for _, want := range []string{"proxima v9", "proxima compare x", "bandwidth, seed 7", "nodes of version v1", "2 processors",
		"fetchers = 3", "Some CPU", "testbed run bandwidth"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestEachSeedHasItsFigures: where an assigner was not run with a seed, those of its other seeds do not move up.
func TestEachSeedHasItsFigures(t *testing.T) {
	share := func(seed uint64, choice float64) compare.SeedShare {
		return compare.SeedShare{Seed: seed, Choice: &choice, Total: new(2 * choice)}
	}
	unknown := compare.SeedShare{Seed: 4, P50Ms: new(9.)} // real machines have no truth
	all := groups(&compare.Result{Assigners: []compare.Assigner{
		{Name: "nearest", Seeds: []compare.SeedShare{share(1, 1.1), share(2, 1.2), share(3, 1.3), unknown}},
		{Name: "random", Seeds: []compare.SeedShare{share(1, 2.1), share(3, 2.3), unknown}}}})
	got := fmt.Sprint(all[len(all)-1])
	if want := "{By seed [{choice, total seed 1 [1.10, 2.20 2.10, 4.20]} {choice, total seed 2 [1.20, 2.40 –]} " +
		"{choice, total seed 3 [1.30, 2.60 2.30, 4.60]}]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTrustIsPlain(t *testing.T) {
	measured := sample(3, 3)
	measured.Testbed.WaitP99Ms = 2
	const waits = "wait for a core"
	if !strings.Contains(written(t, measured), waits) || strings.Contains(written(t, sample(3, 3)), waits) {
		t.Error("waits for a core are those that were measured")
	}
	if page := written(t, sample(3, 3)); !strings.Contains(page, "Testbed: to be trusted") || strings.Contains(page, "ot to be trusted") {
		t.Error("a good run is not said to be good")
	}
	if page := written(t, pages()["bad"]); strings.Count(page, "ot to be trusted") != 2 {
		t.Error("a bad run is not said to be bad in headline and card")
	}
}

// TestNamesCoverNothing: a name that would lie on another, or on a node, is left out.
func TestNamesCoverNothing(t *testing.T) {
	nodes := []mark{{X: 100, Y: 90, Name: "a"}, {X: 108, Y: 90, Name: "b"}, {X: 108, Y: 90, Name: "the same place"}, {X: 358, Y: 5, Name: "edge"}}
	name(nodes)
	if nodes[0].Name != "a" || nodes[0].Anchor != "end" || nodes[1].Anchor != "start" || nodes[2].Name != "" || nodes[3].Anchor != "end" {
		t.Errorf("%+v", nodes)
	}
}

// broken is a writer that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteHandsOnErrors(t *testing.T) {
	if err := Write(broken{}, &compare.Result{}, ""); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v", err)
	}
	first, again := written(t, sample(4, 8)), written(t, sample(4, 8))
	if first != again {
		t.Error("the same figures make two different pages")
	}
}

// TestColoursCanBeRead: text and lines keep a contrast of at least 4.5 (text) and 3 (lines) to page and panel, in light and dark (WCAG).
func TestColoursCanBeRead(t *testing.T) {
	luminance := func(hex string) (sum float64) {
		if len(hex) == 4 {
			hex = "#" + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:3], 2) + strings.Repeat(hex[3:4], 2)
		}
		var c [3]uint8
		if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
			t.Fatalf("%s: %v", hex, err)
		}
		for i, weight := range []float64{.2126, .7152, .0722} {
			x := float64(c[i]) / 255
			if c[i] < 11 {
				x /= 12.92
			} else {
				x = math.Pow((x+.055)/1.055, 2.4)
			}
			sum += x * weight
		}
		return sum
	}
	blocks := regexp.MustCompile(`color-scheme:(light|dark);([^}]*)`).FindAllStringSubmatch(styleText, -1)
	if len(blocks) != 3 || blocks[1][2] != blocks[2][2] {
		t.Fatalf("%d sets of colours, of which the dark ones differ", len(blocks))
	}
	for _, b := range blocks[:2] {
		of := map[string]float64{}
		for v := range strings.SplitSeq(b[2], ";") {
			if name, hex, ok := strings.Cut(v, ":"); ok {
				of[name] = luminance(hex)
			}
		}
		for name, l := range of {
			least := 3.0
			switch {
			case name == "text" || name == "muted" || name == "good" || name == "bad":
				least = 4.5
			case len(name) != 2:
				continue
			}
			for _, ground := range []string{"page", "panel"} {
				if c := (max(l, of[ground]) + .05) / (min(l, of[ground]) + .05); c < least {
					t.Errorf("%s: %s on %s has a contrast of %.2f", b[1], name, ground, c)
				}
			}
		}
	}
}

// TestEqualLinesAreSeen: a line on another one with the same points is dashed, so that both are seen.
func TestEqualLinesAreSeen(t *testing.T) {
	same := []compare.Point{{1, .5}, {2, 1}}
	list := appendPlot(nil, &compare.Result{}, nil, plot{Kind: "times"}, []compare.Series{{Label: "a", Points: same},
		{Label: "b", Points: []compare.Point{{1, .5}, {3, 1}}}, {Label: "c", Points: same}, {Label: "d", Points: same}})
	var over []int
	for _, l := range list[0].Lines {
		over = append(over, l.Over)
	}
	if !slices.Equal(over, []int{0, 0, 1, 2}) {
		t.Errorf("lines over equal ones: %v", over)
	}
}
