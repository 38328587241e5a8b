package node_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proxima/node"
	"proxima/node/console/browsertest"
	"proxima/scripts/lab"
)

var shots = flag.String("shots", "", "folder for pictures of the console, as the browser shows it")

// narrow asks the page what of it does not fit into the window.
const narrow = `(() => {
	const out = [], root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) { out.push("page " + root.scrollWidth + " wide in a window of " + root.clientWidth); }
	for (const e of document.querySelectorAll("main *, header *")) {
		const r = e.getBoundingClientRect();
		if (r.width > 0 && r.right > root.clientWidth + 1 && !e.closest(".scroll, nav, svg *, .u-wrap")) { out.push(e.tagName + "." + e.className + " ends at " + r.right); }
	}
	return out;
})()`

// hostile is a reason that would run if it were shown as markup.
const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// actions are what is done on the page of a node that crawls alone: the form, what is put into it, and what the page says then.
func actions() []struct{ path, input, body, said string } {
	return []struct{ path, input, body, said string }{
		{"/pause", "", "", "Done."}, {"/resume", "", "", "Done."},
		{"/seeds", "", "http://a.test/1", "Done."}, {"/seeds", "", "no URL", "URL"},
		{"/retry", "host=a.test", "", "Done."}, {"/drop", "host=a.test", "", "Done"}, {"/drop", "host=nobody.test", "", "no URLs here"},
		{"/block", "on=b.test&why=" + hostile, "", "changed: true"}, {"/unblock", "on=c.test", "", "changed: false"},
		{"/set", "key=crawl.fetchers&value=3", "", "Done"}, {"/set", "key=node.data&value=x", "", "cannot change"}, {"/reload", "", "", ""},
		{"/move", "host=a.test&to=x", "", "alone"}, {"/drain", "", "", "alone"}, {"/rotate", "", "", "alone"}, {"/go-alone", "", "", "alone"},
		{"/dismiss", "host=nobody.test", "", "nobody has asked"},
	}
}

// TestConsoleInABrowser opens the page of a node with a token, looks at every view wide and narrow, light and dark, and does everything that can be
// done there. Nothing is asked of another site, nothing that somebody wrote becomes markup, and every act stands in the log.
func TestConsoleInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no browser is started")
	}
	web := newWeb(t)
	c := config(t)
	c.Console.TokenFile = filepath.Join(t.TempDir(), "tokens")
	token := strings.Repeat("secret", 8)
	must(t, os.WriteFile(c.Console.TokenFile, []byte("anna "+token), 0o600))
	free, err := lab.Addresses("127.0.0.1", 1)
	must(t, err)
	c.Console.Listen = free[0]
	address := "http://" + c.Console.Listen + "/"
	b := browsertest.New(t, address)
	n, client := onSocket(t, c, depsOf(web), "http://a.test/0")
	if res, err := client.Get("http://node/api/v1/status"); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	b.Open(address)
	enter := func(token string) {
		b.Await("the question for a token", `document.getElementById("login").open`)
		browsertest.Evaluate[bool](b, fmt.Sprintf(`document.getElementById("token").value = %q; document.querySelector("#login button").click(); true`, token))
	}
	enter("wrong")
	enter(token)
	b.Await("the first sample", `document.getElementById("state").textContent.includes("pages/s")`)
	// Of many nodes the sum of their means is drawn, as long as all have told theirs; how often each has told makes no difference.
	b.Await("the sum of nodes", `(window.asked ||= import("./overview.js").then(m => { window.sum = JSON.stringify(m.total(
		[[[0, 5, 20, 25, 40], [1, 3, 4, null, 9]], [[1, 19, 21], [10, 20, 30]]])) })) && window.sum === "[[0,20],[12,29]]"`)
	// No point stands in the future, though a step of 20 s is told when half of it is over.
	b.Await("the last step", `(window.now ||= import("./overview.js").then(m => {
		const at = (t, dns, downloads) => ({t, boot: 1, stages: {dns, downloads}});
		window.last = JSON.stringify([m.total([[[0, 31], [1, 2]]]), m.stage({series: new Map([["x", [at(0, 0, 0), at(11000, 50, 1), at(31000, 90, 2)]]])}, "dns")])
	})) && window.last === "[[[0,31],[1,2]],[[20,31],[50,40]]]"`)
	// The figures of a node whose clock went back by an hour are those of now.
	b.Await("a clock that went back", `(window.led ||= import("./page.js").then(m => { for (const t of [36e5, 3601e3, 1000, 12e3]) { m.add("x", {t}); }
		window.clocks = JSON.stringify(m.world.series.get("x")); m.world.series.delete("x") })) && window.clocks === '[{"t":1000},{"t":12000}]'`)
	times(b)
	seen(t, b)
	if did := done(t, b, n); did == 0 {
		t.Error("nothing was done")
	}
}

// times looks at the times below a plot that is seconds or minutes old: none stands there twice, and none reaches into the next one.
func times(b *browsertest.Browser) {
	b.Window(400, "screen", "light")
	for _, seconds := range []string{"[0, 1, 2.4]", "[0, 10, 31]", "[0, 600, 3600]"} {
		b.Await("the times below a plot of "+seconds+" s", fmt.Sprintf(`(() => {
			window.drawn ||= import("./overview.js").then(m => {
				window.plot = new m.Plot("test", "", String);
				document.querySelector("main").append(window.plot.element);
			});
			if (!window.plot) { return false; }
			window.plot.draw([["a", 0, [%s, [1, 2, 3]]]]);
			const {_splits: at, _values: said} = window.plot.u.axes[0];
			return said?.length > 1 && new Set(said).size === said.length &&
				at.every((t, i) => i === 0 || window.plot.u.valToPos(t, "x") - window.plot.u.valToPos(at[i - 1], "x") >= 60);
		})()`, seconds))
	}
	browsertest.Evaluate[bool](b, `window.plot.element.remove(), true`)
}

// seen looks at every view.
func seen(t *testing.T, b *browsertest.Browser) {
	for i, view := range []string{"overview", "overlay", "hosts", "servers", "batches", "members", "events", "steer"} {
		for width, scheme := range map[int64]string{1280: "light", 400: "dark"} {
			b.Window(width, "screen", scheme)
			browsertest.Evaluate[bool](b, fmt.Sprintf(`location.hash = %q; true`, view))
			b.Await(view, fmt.Sprintf(`document.querySelectorAll("nav a")[%d].ariaCurrent === "page" && document.querySelector("main").innerText.length > 10`, i))
			// Plots follow the window with its next frame.
			b.Await(fmt.Sprintf("%s, %d wide, within the window", view, width), "("+narrow+").length === 0")
			if *shots != "" {
				b.Shoot(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", view, width, scheme)), 0, float64(width), 900)
			}
		}
	}
	browsertest.Evaluate[bool](b, `location.hash = "hosts"; true`)
	b.Await("the search by keyboard", `document.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true})), document.activeElement.type === "search"`)
	for _, wrong := range b.Wrongs() {
		if !strings.Contains(wrong, "status of 401") { // the wrong token
			t.Error(wrong)
		}
	}
}

// done does all actions, and says how many acts of anna the log has.
func done(t *testing.T, b *browsertest.Browser, n *node.Node) (logged int) {
	browsertest.Evaluate[bool](b, `confirm = () => true; location.hash = "steer"; true`)
	tried := map[string]bool{}
	for _, d := range actions() {
		tried[d.path] = true
		b.Await(d.path, fmt.Sprintf(`!!document.querySelector('[data-act="%s"]')`, d.path))
		browsertest.Evaluate[bool](b, fmt.Sprintf(`(() => {
			const form = document.querySelector('[data-act="%s"]').form;
			for (const [name, value] of %s) { form.elements[name].value = value; }
			if (form.elements.body) { form.elements.body.value = %q; }
			document.getElementById("said").textContent = "";
			form.querySelector("button").click();
			return true;
		})()`, d.path, pairs(d.input), d.body))
		b.Await("an answer to "+d.path, `document.getElementById("said").textContent !== ""`)
		if said := browsertest.Evaluate[string](b, `document.getElementById("said").textContent`); !strings.Contains(said, d.said) {
			t.Errorf("%s %s: the page says %q, want %q", d.path, d.input, said, d.said)
		}
	}
	b.Await("the block in the list, as text", `document.querySelector("main").innerText.includes("<img src=x")`)
	browsertest.Evaluate[bool](b, `location.hash = "events"; true`)
	b.Await("the block among the events, as text", `document.querySelector("main").innerText.includes("<script>")`)
	if found := browsertest.Evaluate[string](b, `document.title + document.querySelectorAll("main img, main script").length`); found != "Events · Proxima0" {
		t.Errorf("a reason became markup: %s", found)
	}
	for _, wrong := range b.Wrongs() {
		if !strings.Contains(wrong, "status of 4") { // acts that are refused
			t.Error(wrong)
		}
	}
	for path, item := range description(t, node.OpenAPI()).Paths {
		if item["post"] != nil && !tried[path] {
			t.Errorf("%s is not done in the browser", path)
		}
	}
	logged = len(readLogs(t, n.LogDir()).events.actsOf("anna"))
	if logged < len(actions())-2 { // what was refused before it was an act: no URL, and what nobody has asked for
		t.Errorf("%d lines in the log about %d acts", logged, len(actions()))
	}
	return logged
}

// pairs writes "a=b&c=d" as a list of pairs in JavaScript.
func pairs(input string) string {
	var list []string
	for _, pair := range strings.Split(input, "&") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			list = append(list, fmt.Sprintf("[%q, %q]", name, value))
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}
