// The overlay on a map: nodes, and the servers that each crawls, on the globe or in the space of coordinates; now, or at a moment of the last hour.
import {clock, everywhere, h, s, short} from "./base.js";

const land = fetch("land.path").then(res => res.text());

// plane gives the two directions in which vectors differ most, by power iteration: a function from a vector to [x, y].
function plane(vectors) {
	const n = vectors.length, dims = 4, mean = Array.from({length: dims}, (_, k) => vectors.reduce((t, v) => t + v[k], 0) / n);
	const rows = vectors.map(v => v.map((x, k) => x - mean[k])), axes = [];
	const dot = (a, b) => a.reduce((t, x, k) => t + x * b[k], 0);
	for (let a = 0; a < 2; a++) {
		let axis = [1, .9, .8, .7];
		for (let i = 0; i < 50; i++) {
			let to = [0, 0, 0, 0];
			for (const r of rows) {
				const d = dot(r, axis);
				to = to.map((x, k) => x + d * r[k]);
			}
			for (const known of axes) {
				const d = dot(to, known);
				to = to.map((x, k) => x - d * known[k]);
			}
			const size = Math.hypot(...to);
			if (size < 1e-9) { break; }
			axis = to.map(x => x / size);
		}
		axes.push(axis);
	}
	return v => axes.map(axis => dot(v.map((x, k) => x - mean[k]), axis));
}

// frame fits points into a box of 360 by 180 with one scale for both axes.
function frame(points) {
	const span = k => [Math.min(...points.map(p => p[k])), Math.max(...points.map(p => p[k]))], [x0, x1] = span(0), [y0, y1] = span(1);
	const scale = Math.min(320 / Math.max(x1 - x0, 1e-6), 150 / Math.max(y1 - y0, 1e-6));
	return p => [180 + scale * (p[0] - (x0 + x1) / 2), 90 + scale * (p[1] - (y0 + y1) / 2)];
}

export function overlay(world) {
	const svg = s("svg", {class: "map", viewBox: "0 0 360 180", role: "img", "aria-label": "Nodes and the servers that they crawl"});
	const kind = h("select", {"aria-label": "Where", onchange: () => draw()}, h("option", {value: "space"}, "space of coordinates"), h("option", {value: "world"}, "map of the world"));
	const ago = h("input", {type: "range", min: -60, max: 0, value: 0, "aria-label": "Minutes ago", oninput: () => { words(); refresh(); }});
	const when = h("span", {class: "how"}), counts = h("p", {class: "how"}), names = h("div", {class: "row"});
	let places = [], picked = false;
	const words = () => { when.textContent = ago.value === "0" ? "now" : clock(Date.now() + ago.value * 60e3); };
	words();

	async function refresh() {
		const t = Math.round(Date.now() + ago.value * 60e3);
		places = await everywhere(world.ids, "/places" + (ago.value === "0" ? "" : "?t=" + t));
		if (!picked && world.members.filter(m => m.at).length > 1) { kind.value = "world"; }
		picked ||= world.members.length > 0;
		await draw();
	}

	async function draw() {
		const globe = kind.value === "world", where = x => globe ? x.at && [x.at[1], -x.at[0]] : x.vector;
		const nodes = world.members.filter(m => m.phase === "alive" && where(m));
		const servers = places.flatMap(([id, p]) => p.places.map(x => ({...x, owner: id})));
		const all = [...nodes, ...servers.filter(where)];
		counts.textContent = all.length ? `${nodes.length} nodes and ${servers.length} servers, in the colour of the node that crawls them` +
			(globe ? "." : ". Distances are round trips, in the plane in which they differ most.") + (servers.every(where) ? "" : " Servers whose place is not known stand around their node.") :
			globe ? "Nobody knows where nodes or servers are: geo.database, geo.latitude and geo.longitude say so." : "No coordinates are known yet.";
		svg.replaceChildren();
		names.replaceChildren(...world.members.filter(m => m.phase === "alive").map(m => h("span", {class: "c" + world.slot(m.id)}, h("span", {class: "dot"}), short(m.id),
			h("small", {}, ` ${servers.filter(x => x.owner === m.id).length} servers`))));
		if (!all.length) { return; }
		let to;
		if (globe) {
			to = ([x, y]) => [180 + x, 90 + y];
			svg.append(s("path", {class: "land", transform: "translate(180 90) scale(.5)", d: await land}));
		} else {
			const flat = plane(all.map(where)), fit = frame(all.map(x => flat(where(x))));
			to = v => fit(flat(v));
		}
		const at = new Map(nodes.map(m => [m.id, to(where(m))]));
		for (const [i, x] of servers.entries()) {
			const c = "c" + world.slot(x.owner), owner = at.get(x.owner);
			if (!where(x) && !owner) { continue; }
			const [x1, y1] = where(x) ? to(where(x)) : [owner[0] + 7 * Math.cos(2.4 * i), owner[1] + 7 * Math.sin(2.4 * i)], [x2, y2] = owner || [x1, y1];
			svg.append(s("line", {class: "link " + c, x1, y1, x2, y2}), s("circle", {class: c, cx: x1, cy: y1, r: 1.3}, s("title", {}, `${x.server}, crawled by ${short(x.owner)}`)));
		}
		const taken = []; // places of names: one that finds no room is left out, the square still says it
		for (const m of nodes) {
			const [x, y] = at.get(m.id);
			svg.append(s("rect", {class: "c" + world.slot(m.id), x: x - 2, y: y - 2, width: 4, height: 4}, s("title", {}, m.id)));
			const left = [x + 4, x - 28].find(l => l > 0 && l < 335 && !taken.some(([tx, ty]) => Math.abs(tx - l) < 25 && Math.abs(ty - y) < 5));
			if (left == null) { continue; }
			taken.push([left, y]);
			svg.append(s("text", {x: left < x ? x - 4 : left, y: y + 1.7, "text-anchor": left < x ? "end" : "start"}, short(m.id)));
		}
	}

	return {element: h("section", {class: "card"}, h("div", {class: "tools"}, kind, h("label", {class: "row"}, "an hour ago", ago, when)), svg, counts, names), refresh};
}
