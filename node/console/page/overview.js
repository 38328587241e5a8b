// The overview: the whole overlay in figures, and the last hour in plots.
import {bytes, clock, h, millis, number, rate, short} from "./base.js";

const stages = [["DNS", "dns"], ["connect", "connect"], ["TLS", "tls"], ["first byte", "first_byte"], ["body", "body"]];

// rates are what a counter grew a second between two samples: [seconds, values], with a gap where the node started anew.
function rates(list, counter, per = 1) {
	const x = [], y = [];
	for (let i = 1; i < list.length; i++) {
		const a = list[i - 1], b = list[i];
		x.push(b.t / 1000);
		y.push(a.boot === b.boot ? Math.max(0, counter(b) - counter(a)) / (b.t - a.t) * 1000 * per : null);
	}
	return [x, y];
}

const values = (list, of) => [list.map(s => s.t / 1000), list.map(of)];

// The last step of 20 seconds is told when half of it is over: it stands at the last sample then, and not in the future.
const upTo = (at, last) => at.map(t => Math.min(t, last));

// stage is the mean of one stage over the downloads between two samples of all nodes.
export function stage(world, key) {
	const sums = new Map();
	let last = 0;
	for (const list of world.series.values()) {
		for (let i = 1; i < list.length; i++) {
			const a = list[i - 1], b = list[i], at = Math.round(b.t / 20000) * 20, sum = sums.get(at) || [0, 0];
			if (a.boot !== b.boot) { continue; }
			last = Math.max(last, b.t / 1000);
			sums.set(at, [sum[0] + b.stages[key] - a.stages[key], sum[1] + b.stages.downloads - a.stages.downloads]);
		}
	}
	const at = [...sums.keys()].sort((a, b) => a - b);
	return [upTo(at, last), at.map(t => sums.get(t)[1] > 0 ? sums.get(t)[0] / sums.get(t)[1] : null)];
}

// total adds up what many nodes have, in steps of 20 seconds: of each node the mean of a step.
export function total(lists) {
	const steps = new Map();
	for (const [x, y] of lists) {
		const own = new Map();
		x.forEach((t, i) => {
			const at = Math.round(t / 20) * 20, [sum, n] = own.get(at) || [0, 0];
			if (y[i] != null) { own.set(at, [sum + y[i], n + 1]); }
		});
		for (const [at, [sum, n]] of own) {
			const [all, nodes] = steps.get(at) || [0, 0];
			steps.set(at, [all + sum / n, nodes + 1]);
		}
	}
	const at = [...steps.keys()].sort((a, b) => a - b);
	if (at.length > 1 && steps.get(at.at(-1))[1] < steps.get(at.at(-2))[1]) { at.pop(); } // some have not told theirs yet
	return [upTo(at, Math.max(...lists.map(([x]) => x.at(-1) ?? 0))), at.map(t => steps.get(t)[0])];
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// whole are the steps in s between the times below a plot, which are told in whole seconds.
const whole = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

// Plot draws lines of [label, colour slot, [seconds, values]] over time.
export class Plot {
	constructor(title, how, show) {
		this.show = show;
		this.at = h("div");
		this.element = h("section", {class: "card"}, h("h2", {}, title, " ", h("small", {}, how)), this.at);
	}

	draw(lines) {
		lines = lines.filter(l => l[2][0].length > 1);
		const labels = lines.map(l => l[0]).join("\n") + this.at.clientWidth;
		if (!lines.length || !this.at.clientWidth) { return; }
		const data = uPlot.join(lines.map(l => l[2]));
		if (this.u && this.labels === labels) { return this.u.setData(data); }
		this.u?.destroy();
		this.labels = labels;
		const axis = {stroke: colour("muted"), grid: {stroke: colour("grid"), width: 1}, ticks: {stroke: colour("rule"), width: 1}, font: "12px system-ui, sans-serif"};
		this.u = new uPlot({
			width: this.at.clientWidth, height: 190, cursor: {y: false, drag: {setScale: false}}, scales: {y: {range: (u, min, max) => [0, (max || 1) * 1.1]}},
			series: [{label: "time", value: (u, v) => v == null ? "" : clock(v * 1000)}, ...lines.map(l => ({
				label: l[0], stroke: colour("s" + l[1] % 8), width: 2, spanGaps: true, points: {show: false}, value: (u, v) => v == null ? "–" : this.show(v)}))],
			axes: [{...axis, space: 70, incrs: whole, values: (u, list, i, space, by) => list.map(v => clock(v * 1000).slice(0, by < 60 ? 8 : 5))},
				{...axis, size: 64, values: (u, list) => list.map(this.show)}],
		}, data, this.at);
	}
}

export function overview(world) {
	const cards = h("dl", {class: "cards"}), waits = h("div", {class: "waits"});
	// Of many nodes a plot shows the sum, else a line each.
	const byNode = of => {
		const ids = [...world.series.keys()].sort();
		if (ids.length <= 8) { return ids.map(id => [short(id), world.slot(id), of(world.series.get(id))]); }
		return [["all nodes", 0, total(ids.map(id => of(world.series.get(id))))]];
	};
	const plots = [
		[new Plot("Pages", "a second", rate), () => byNode(l => rates(l, s => s.pages))],
		[new Plot("Errors", "pages a minute without an answer, or with 5xx", rate), () => byNode(l => rates(l, s => s.failed, 60))],
		[new Plot("Stages of a download", "mean, all nodes", millis), () => stages.map(([name, key], i) => [name, i, stage(world, key)])],
		[new Plot("URLs that wait", "", v => number(v)), () => byNode(l => values(l, s => s.pending))],
		[new Plot("Memory", "resident", bytes), () => byNode(l => values(l, s => s.rss))],
		[new Plot("Processor", "share of a core", v => number(v, 1) + " %"), () => byNode(l => rates(l, s => s.cpu_s, 100))],
	];
	const update = () => {
		const sum = of => world.sum(id => world.latest(id) && of(world.latest(id))), speed = of => world.sum(id => world.perSecond(id, of));
		const pages = speed(s => s.pages);
		cards.replaceChildren(...[
			["pages a second", rate(pages)], ["received a second", bytes(speed(s => s.bytes))], ["errors", pages ? number(100 * speed(s => s.failed) / pages, 1) + " %" : "–"],
			["pages since the start", number(sum(s => s.pages))], ["URLs pending", number(sum(s => s.pending))], ["hosts in memory", number(sum(s => s.hosts))],
			["servers", number(sum(s => s.servers))], ["under way", number(sum(s => s.in_flight))], ["links on their way", number(sum(s => s.outbox))], ["memory", bytes(sum(s => s.rss))],
		].map(([name, value]) => h("div", {class: "card"}, h("dt", {}, name), h("dd", {}, value))));
		const kinds = new Map();
		for (const id of world.ids) { for (const [kind, n] of Object.entries(world.latest(id)?.waits || {})) { kinds.set(kind, (kinds.get(kind) || 0) + n); } }
		const most = Math.max(1, ...kinds.values());
		waits.replaceChildren(...[...kinds].sort((a, b) => b[1] - a[1]).flatMap(([kind, n]) => [h("span", {}, kind), h("meter", {max: most, value: n}), h("span", {class: "n"}, number(n))]));
		for (const [plot, lines] of plots) { plot.draw(lines()); }
	};
	const redraw = () => {
		for (const [plot] of plots) { plot.labels = ""; }
		update();
	};
	const dark = matchMedia("(prefers-color-scheme: dark)");
	dark.addEventListener("change", redraw);
	addEventListener("resize", redraw);
	return {
		element: h("div", {}, cards, h("div", {class: "plots"}, plots.map(p => p[0].element), h("section", {class: "card"}, h("h2", {}, "Hosts ", h("small", {}, "by what they do or wait for, all nodes")), waits))), update,
		leave() {
			dark.removeEventListener("change", redraw);
			removeEventListener("resize", redraw);
		},
	};
}
