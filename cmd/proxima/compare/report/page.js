"use strict";
// Draws each plot with uPlot. Plots over time of one run share an axis: zooming one zooms all.
(() => {
	const root = document.documentElement, plots = [];
	const colour = name => getComputedStyle(root).getPropertyValue("--" + name).trim();
	const clock = s => {
		const n = Math.round(Math.abs(s)), two = v => String(v).padStart(2, "0");
		return (s < 0 ? "−" : "") + (n >= 3600 ? Math.floor(n / 3600) + ":" + two(Math.floor(n / 60) % 60) : Math.floor(n / 60)) + ":" + two(n % 60);
	};
	const millis = v => v == null ? "" : v >= 1000 ? +(v / 1000).toPrecision(3) + " s" : +v.toPrecision(3) + " ms";
	const figure = v => v == null ? "–" : v.toLocaleString("en", {maximumSignificantDigits: 4});
	const fonts = "12px system-ui, sans-serif";

	// events shades the time of the scenario's events, and names them at the top.
	const events = list => u => {
		const c = u.ctx, {left, top, width, height} = u.bbox, ratio = devicePixelRatio;
		c.save();
		c.beginPath();
		c.rect(left, top, width, height);
		c.clip();
		c.font = 11 * ratio + "px system-ui, sans-serif";
		let free = [-1e9, -1e9, -1e9];
		for (const e of list) {
			const x = u.valToPos(e.AtS, "x", true), to = Math.max(u.valToPos(e.UntilS, "x", true), x + ratio);
			c.fillStyle = colour("event");
			c.globalAlpha = e.UntilS > e.AtS ? .12 : .8;
			c.fillRect(x, top, to - x, height);
			const words = e.Label + " " + e.Target, row = free.findIndex(f => f < x);
			if (row >= 0 && x + c.measureText(words).width < left + width) {
				c.globalAlpha = 1;
				c.fillText(words, x + 3 * ratio, top + (12 + 13 * row) * ratio);
				free[row] = x + c.measureText(words).width + 8 * ratio;
			}
		}
		c.restore();
	};

	const wholes = {}; // by run: from the first point of its plots to the last
	let busy = false;
	const together = u => {
		if (busy || u.status !== 1) { return; }
		const {min, max} = u.scales.x;
		busy = true;
		const run = plots.find(p => p.u === u)?.data.run;
		for (const p of plots) { if (p.time && p.u && p.u !== u && p.data.run === run) { p.u.setScale("x", {min, max}); } }
		busy = false;
	};
	// A plot that shows all its points shows the whole time of the run.
	const timeRange = whole => (u, min, max) => min == null || min === u.data[0][0] && max === u.data[0].at(-1) ? whole : [min, max];
	const decades = (u, i, min, max) => {
		const list = [];
		for (let d = 10 ** Math.floor(Math.log10(min)); d <= max; d *= 10) { list.push(...[d, 2 * d, 5 * d].filter(v => v >= min && v <= max)); }
		return list;
	};

	const draw = p => {
		const d = p.data, across = p.time ? clock : d.kind === "counts" ? figure : millis, axis = {stroke: colour("muted"), grid: {stroke: colour("grid"), width: 1}, ticks: {stroke: colour("rule"), width: 1}, font: fonts,
			labelFont: fonts, labelSize: 20};
		const series = [{label: p.time ? "at" : d.kind === "counts" ? "number" : "time", value: (u, v) => v == null ? "–" : across(v)}];
		const tables = d.Lines.map(l => {
			series.push({label: l.label, stroke: colour("s" + l.slot % 6), width: 2, spanGaps: true, points: {show: l.points.length < 3},
				dash: l.over ? [6, 6 * l.over] : [[], [8, 4], [2, 3]][Math.floor(l.slot / 6) % 3], value: (u, v) => p.time ? figure(v) : v == null ? "–" : (100 * v).toFixed(1) + " %",
				paths: p.time ? undefined : uPlot.paths.stepped({align: 1})});
			const points = p.time ? l.points : l.points.filter(v => v[0] > 0);
			const steps = p.time ? points : points.filter((v, i) => i + 1 === points.length || points[i + 1][0] !== v[0]);
			return [steps.map(v => v[0]), steps.map(v => v[1])];
		});
		p.u = new uPlot({
			width: p.at.clientWidth, height: 280, series, cursor: {sync: p.time ? {key: "time" + d.run} : undefined, drag: {x: true, y: false}},
			scales: {x: p.time ? {time: false, range: timeRange(wholes[d.run])} :
				{time: false, distr: 3, range: (u, min, max) => [min * .95, max * 1.05]},
				y: {range: (u, min, max) => p.time ? uPlot.rangeNum(Math.min(0, min ?? 0), max ?? 1, .08, true) : [0, 1]}},
			axes: [{...axis, label: p.time ? "time since the start, min:s" : d.kind === "counts" ? "number, logarithmic" : "download time, logarithmic", values: (u, list) => list.map(across),
				...(p.time ? {incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]} :
					{splits: decades, filter: (u, list) => list})},
				{...axis, label: d.unit, size: 56, values: (u, list) => list.map(v => p.time ? figure(v) : Math.round(100 * v) + " %")}],
			hooks: {drawClear: p.time ? [events(d.events || [])] : [], setScale: p.time ? [(u, key) => key === "x" && together(u)] : []},
		}, uPlot.join(tables), p.at);
	};

	for (const figure of document.querySelectorAll("figure:has(.data)")) {
		const data = JSON.parse(figure.querySelector(".data").textContent);
		plots.push({data, time: data.kind === "time", at: figure.querySelector(".plot")});
	}
	for (const p of plots) {
		for (const l of p.time ? p.data.Lines : []) {
			const first = l.points[0][0], last = l.points[l.points.length - 1][0];
			const whole = wholes[p.data.run];
			wholes[p.data.run] = whole ? [Math.min(whole[0], first), Math.max(whole[1], last)] : [Math.min(0, first), last];
		}
	}
	const all = () => plots.forEach(p => {
		if (p.u) { p.u.destroy(); }
		draw(p);
	});
	all();
	let wait;
	addEventListener("resize", () => {
		clearTimeout(wait);
		wait = setTimeout(() => plots.forEach(p => p.u.setSize({width: p.at.clientWidth, height: 280})), 100);
	});
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
	document.getElementById("theme").addEventListener("click", () => {
		const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
		root.dataset.theme = dark ? "light" : "dark";
		all();
	});
})();
