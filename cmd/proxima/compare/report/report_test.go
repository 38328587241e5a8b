package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func written(t *testing.T, d Data) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	svgs     = regexp.MustCompile(`(?s)<svg .*?</svg>`)
	cssURL   = regexp.MustCompile(`(?i)url\(|@import|expression\(`)
	controls = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x{202a}-\x{202e}]`)
)

// elements calls f for every element of a page.
func elements(t *testing.T, page string, f func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			f(n)
		}
	}
}

func TestPagesAreSelfContainedAndValid(t *testing.T) {
	for name, d := range pages() {
		t.Run(name, func(t *testing.T) {
			page := written(t, d)
			for _, svg := range svgs.FindAllString(page, -1) {
				if err := wellFormed(svg); err != nil {
					t.Fatalf("%v in %.300s", err, svg)
				}
			}
			if controls.MatchString(page) {
				t.Error("control characters in the page")
			}
			ids, labels, scripts := map[string]int{}, []string{}, 0
			elements(t, page, func(n *html.Node) {
				switch n.Data {
				case "script":
					scripts++
				case "iframe", "object", "embed", "img", "image", "use", "base", "form", "foreignObject", "audio", "video":
					t.Errorf("a page of figures has no <%s>", n.Data)
				case "style":
					if bad := cssURL.FindString(n.FirstChild.Data); bad != "" {
						t.Errorf("style has %q", bad)
					}
				}
				for _, a := range n.Attr {
					switch key := strings.ToLower(a.Key); {
					case key == "id":
						ids[a.Val]++
					case key == "aria-labelledby":
						labels = append(labels, strings.Fields(a.Val)...)
					case key == "href" && !strings.HasPrefix(a.Val, "#") && a.Val != "data:,", key == "src", key == "srcset",
						key == "action":
						t.Errorf("<%s %s=%q> leaves the page", n.Data, a.Key, a.Val)
					case strings.HasPrefix(key, "on"):
						t.Errorf("<%s> has %s", n.Data, key)
					case (key == "style" || key == "fill" || key == "stroke" || key == "class") && cssURL.MatchString(a.Val):
						t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
					}
				}
			})
			if scripts != 1 {
				t.Errorf("%d scripts, want the page's own", scripts)
			}
			for id, n := range ids {
				if n > 1 {
					t.Errorf("id %q stands %d times", id, n)
				}
			}
			for _, id := range labels {
				if ids[id] != 1 {
					t.Errorf("a picture is labelled by %q, which is not there", id)
				}
			}
		})
	}
}

// wellFormed reads text as XML to its end.
func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestAnchorsOfTheListOfPartsExist(t *testing.T) {
	ids, wanted := map[string]bool{}, []string{}
	elements(t, written(t, sample(6, 24, 60)), func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "id" {
				ids[a.Val] = true
			}
			if a.Key == "href" && strings.HasPrefix(a.Val, "#") {
				wanted = append(wanted, a.Val[1:])
			}
		}
	})
	if len(wanted) < 8 {
		t.Errorf("only %d parts are listed", len(wanted))
	}
	for _, id := range wanted {
		if !ids[id] {
			t.Errorf("#%s leads nowhere", id)
		}
	}
}

func TestEveryPlotNamesScenarioSeedAndUnits(t *testing.T) {
	page := written(t, sample(10, 80, 60))
	plots := 0
	for _, svg := range svgs.FindAllString(page, -1) {
		if !strings.Contains(svg, `class="plot`) {
			continue
		}
		plots++
		if !strings.Contains(svg, "scenario bandwidth, seed 7") {
			t.Errorf("no scenario and seed in %.200s", svg)
		}
		if !strings.Contains(svg, `class="plot facet"`) && !strings.Contains(svg, `class="origin">scenario bandwidth, seed 7<`) {
			t.Errorf("scenario and seed are not to be seen in %.200s", svg) // facets have them in the head that they share
		}
		if !strings.Contains(svg, "<title ") || !strings.Contains(svg, "<desc ") {
			t.Errorf("no title or desc in %.200s", svg)
		}
	}
	if plots != 2*10+4*3 { // ten line and ratio plots in two forms, three kinds of panels for four assigners
		t.Errorf("%d plots", plots)
	}
	for _, want := range []string{"URLs/min", "ms of round trip", "relative error", "kB/s", "download time (log scale)",
		"time since the start (min:s)", "ms, both directions", "s in downloads"} {
		if !strings.Contains(page, ">"+want+"<") {
			t.Errorf("no axis says %q", want)
		}
	}
	if got := strings.Count(page, "<summary>"); got != 10+3 {
		t.Errorf("%d tables behind the plots", got)
	}
}

func TestWordsFromTheWebStayWords(t *testing.T) {
	page := written(t, hostile())
	for _, bad := range []string{"<script>document", "<img", "</style>\ufffd", "onerror=alert(1)>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;document.title") {
		t.Error("the hostile words are not shown either")
	}
}

func TestMissingFiguresAreNotShownAsFigures(t *testing.T) {
	page := written(t, Data{})
	for _, want := range []string{"Nothing was downloaded", "No emulation", "The logs name no assigner", "The scenario has no events",
		"no coordinates to draw", "The logs name no nodes"} {
		if !strings.Contains(page, want) {
			t.Errorf("an empty report does not say %q", want)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("an empty report has figures that are none")
	}
	unknown := sample(3, 3, 3)
	for i := range unknown.Assigners {
		a := &unknown.Assigners[i]
		a.P50MS, a.MeanMS, a.ChoiceRatio, a.TotalRatio, a.BestShare = Unknown(), Unknown(), Unknown(), Unknown(), Unknown()
		a.TotalRatioWithEstimates, a.Repeats = Unknown(), nil
	}
	for i := range unknown.Progress {
		for k := range unknown.Progress[i].Points {
			unknown.Progress[i].Points[k].Y = Unknown()
		}
	}
	page = written(t, unknown)
	if strings.Contains(page, "NaN") {
		t.Error("unknown figures are written as NaN")
	}
	for _, want := range []string{"There is no truth to compare with", "The logs have nothing to draw here"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestTrustIsPlain(t *testing.T) {
	d := sample(3, 3, 3)
	if page := written(t, d); !strings.Contains(page, "Testbed: to be trusted") || strings.Contains(page, "not to be trusted") {
		t.Error("a good run is not said to be good")
	}
	d.Testbed.Trusted = false
	if page := written(t, d); !strings.Contains(page, `class="trust bad"`) || strings.Count(strings.ToLower(page), "not to be trusted") < 2 {
		t.Error("a bad run is not said to be bad in headline and badge")
	}
}

func TestManyPointsMakeASmallPage(t *testing.T) {
	page := written(t, sample(200, 300, 10_000))
	if len(page) > 2<<20 {
		t.Errorf("%d bytes", len(page))
	}
}

// broken is a writer that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteHandsOnErrors(t *testing.T) {
	if err := Write(broken{}, Data{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v", err)
	}
	var a, b bytes.Buffer
	d := sample(4, 8, 30)
	if Write(&a, d) != nil || Write(&b, d) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same figures make two different pages")
	}
}
