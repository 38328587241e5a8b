// Package report shows a comparison as one HTML page that needs nothing else: no network, no fonts, no files.
//
// It owns how figures are shown, and not the figures, which are in a compare.Result. It writes tables and maps. Lines over time and
// distributions are drawn by uPlot (MIT licence) in the reader's browser, where they can be zoomed.
package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"proxima/cmd/proxima/compare"
	"proxima/node/console/drawing"
)

//go:embed frame.html
var frameText string

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

// page is the data of page.html.
type page struct {
	*compare.Result
	frame
	Land      string // coastlines
	Facts     []pair
	Trust     *trust
	Intervals []interval
	Slots     map[string]int // colours of rows and nodes
	Groups    []group
	Worst     [][]string // servers
	More      int64      // servers not shown
	Maps      []worldMap
	Sections  []section
	Crawled   []pair
	UsedHeads []heading
	Used      [][]string // by node
	Made      []pair
}

// frame is the data of frame.html, which every page has.
type frame struct {
	Title   string
	Version string // of this program
	Style   template.CSS
	Script  template.JS
	Policy  string
}

type pair struct{ Name, Value string }

// heading is that of a column. Numbers are aligned to the right.
type heading struct {
	Name   string
	Number bool
}

type trust struct {
	Bad   bool
	Pairs []pair
}

// Write writes the page. version is that of this program. Errors are those of w.
func Write(w io.Writer, r *compare.Result, version string) error {
	slots := coloursOf(r)
	p := page{Result: r, frame: newFrame("assigners compared", version), Land: drawing.Land, Facts: facts(r), Trust: trusted(r.Testbed),
		Intervals: intervals(r), Slots: slots, Groups: groups(r), Maps: maps(r, slots), Sections: sections(r, slots), Crawled: crawled(r.Crawl),
		Made: made(r)}
	p.UsedHeads, p.Used = used(r.Nodes)
	p.Worst, p.More = worst(r)
	return fill(w, pageText, p)
}

// newFrame returns the frame of a page. Its policy allows only its own script, and no connection: foreign text in it could do nothing.
func newFrame(title, version string) frame {
	script := drawing.Script + "\n" + scriptText
	sum := sha256.Sum256([]byte(script))
	return frame{title, version, template.CSS(drawing.Style + styleText), template.JS(script), "default-src 'none'; style-src 'unsafe-inline'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

func fill(w io.Writer, text string, data any) error {
	t := template.Must(template.New("page").Funcs(template.FuncMap{"count": humanize.Comma}).Parse(frameText + text)) // tests parse every page
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("fill the page of the report: %w", err)
	}
	if _, err := io.WriteString(w, harmless(b.String())); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// facts describe the run at the top of the page.
func facts(r *compare.Result) (list []pair) {
	if len(r.Runs) == 0 {
		return nil
	}
	first := r.Runs[0]
	if first.Scenario != "" {
		list = append(list, pair{"scenario", first.Scenario})
	}
	if first.Emulated {
		list = append(list, pair{"seed", strings.Join(seeds(r), ", ")})
	}
	if len(r.Runs) > 1 {
		list = append(list, pair{"runs", fmt.Sprint(len(r.Runs))})
	}
	list = append(list, pair{"length", clock(first.Seconds)}, pair{"nodes", humanize.Comma(int64(first.Nodes))},
		pair{"servers", humanize.Comma(int64(first.Servers))})
	if !first.Started.IsZero() {
		list = append(list, pair{"begun", first.Started.UTC().Format("2006-01-02 15:04 UTC")})
	}
	return list
}

func seeds(r *compare.Result) (list []string) {
	for _, run := range r.Runs {
		if s := fmt.Sprint(run.Seed); run.Emulated && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// trusted says whether the testbed can be trusted, nil for real machines.
func trusted(t compare.Testbed) *trust {
	if t.Trusted == nil {
		return nil
	}
	v := &trust{Bad: !*t.Trusted}
	if t.DelayErrorP99Ms != nil {
		v.Pairs = []pair{{"emulation", t.Emulation}, {"delay error p50", millis(t.DelayErrorP50Ms)}, {"delay error p99", millis(t.DelayErrorP99Ms)},
			{"packets dropped unplanned", humanize.Comma(t.Dropped)}, {"processors busy", fmt.Sprintf("%.0f%s%%", 100*t.Busy, gap)}}
		if t.WaitP99Ms > 0 {
			v.Pairs = append(v.Pairs, pair{"wait for a core p99", millis(&t.WaitP99Ms)})
		}
	}
	if t.Calibrations > 0 {
		v.Pairs = append(v.Pairs, pair{"measured / truth", fmt.Sprintf("%.2f (%.2f to %.2f)", t.CalibrationP50, t.CalibrationP10, t.CalibrationP90)})
	}
	return v
}

// made says where the figures come from.
func made(r *compare.Result) (list []pair) {
	if r.Command != "" {
		list = append(list, pair{"command", r.Command})
	}
	for _, run := range r.Runs {
		machine := "real machines"
		if run.Emulated {
			machine = fmt.Sprintf("emulated on a machine of %d processors", run.Cores)
			if run.Machine != "" {
				machine += " (" + run.Machine + ")"
			}
		}
		text := fmt.Sprintf("%s, seed %d, %s, nodes of version %s", cmp.Or(run.Scenario, "no scenario"), run.Seed, machine, cmp.Or(run.Version,
			"unknown"))
		if run.MadeBy != "" {
			text += ", made by " + run.MadeBy
		}
		if run.Differs != "" {
			text += "; " + run.Differs
		}
		list = append(list, pair{run.Dir, text})
	}
	g := r.Reading
	return append(list, pair{"logs", fmt.Sprintf("%s lines, %s", humanize.Comma(g.Lines), size(g.Bytes))})
}

// crawled lists the figures of the crawl that are known.
func crawled(k compare.Crawl) (list []pair) {
	if k.Attempted == 0 {
		return nil
	}
	add := func(name, value string) {
		if value != dash {
			list = append(list, pair{name, value})
		}
	}
	add("URLs attempted", humanize.Comma(k.Attempted))
	add("coverage", percent(k.Coverage))
	add("of the generator's pages", percent(k.CoverageGenerated))
	add("downloaded again", percent(k.Overlap))
	if k.Lost != nil {
		add("lost", humanize.Comma(*k.Lost))
	}
	add("hosts re-assigned", humanize.Comma(k.Reassigned))
	add("URLs between nodes per page", figure(k.URLsExchangedPerPage))
	add("messages per page", figure(k.MessagesPerPage))
	add("bytes between nodes per page", figure(k.BytesPerPage))
	return list
}

// shown bounds the rows of the tables of servers and nodes.
const shown = 100

// used is the table of nodes, without columns that have no figures.
func used(nodes []compare.NodeUse) (heads []heading, rows [][]string) {
	of := []struct {
		head string
		cell func(n compare.NodeUse) string
	}{
		{"node", func(n compare.NodeUse) string { return n.Name }},
		{"place", func(n compare.NodeUse) string { return cmp.Or(n.City, dash) }},
		{"pages", func(n compare.NodeUse) string { return humanize.Comma(n.Pages) }},
		{"bytes", func(n compare.NodeUse) string { return size(n.Bytes) }},
		{"busy", func(n compare.NodeUse) string { return seconds(n.BusyS) }},
		{"CPU", func(n compare.NodeUse) string { return seconds(n.CPUSeconds) }},
		{"CPU per page", func(n compare.NodeUse) string {
			if n.Pages == 0 || n.CPUSeconds == 0 {
				return dash
			}
			return fmt.Sprintf("%.1f", 1000*n.CPUSeconds/float64(n.Pages)) + gap + "ms"
		}},
		{"memory", func(n compare.NodeUse) string {
			if n.RSSBytes == 0 {
				return dash
			}
			return size(n.RSSBytes)
		}},
		{"coordinate error", func(n compare.NodeUse) string { return figure(n.CoordError) }},
	}
	rows = make([][]string, min(len(nodes), shown))
	for i, column := range of {
		cells, any := make([]string, len(rows)), false
		for k := range rows {
			cells[k] = column.cell(nodes[k])
			any = any || cells[k] != dash
		}
		if !any {
			continue
		}
		heads = append(heads, heading{column.head, i > 1})
		for k := range rows {
			rows[k] = append(rows[k], cells[k])
		}
	}
	return heads, rows
}
