// The frame of the page: what is known of all nodes, kept up by one stream of events, and the views that show it.
import {act, clock, everywhere, get, h, number, rate, short, stream} from "./base.js";
import {overview} from "./overview.js";
import {overlay} from "./overlay.js";
import {batches, events, hosts, members, servers} from "./tables.js";
import {steer} from "./steer.js";

const keep = 3600e3; // ms of history
const step = 10e3; // between two samples that are kept

// world is what the views draw. series has the samples of each node by id, the latest last; slot is the number of its colour.
export const world = {
	self: "", members: [], series: new Map(), events: [],
	get ids() { return this.members.filter(m => m.phase === "alive").map(m => m.id).sort(); },
	slot(id) { return Math.max(0, this.members.findIndex(m => m.id === id)) % 8; },
	latest(id) { return this.series.get(id)?.at(-1); },
	// perSecond is how fast a counter of a node grows: over the last ten seconds or so.
	perSecond(id, counter) {
		const list = this.series.get(id) || [], b = list.at(-1), a = list.findLast(x => b && x.boot === b.boot && b.t - x.t > 4000);
		return a ? Math.max(0, counter(b) - counter(a)) / (b.t - a.t) * 1000 : 0;
	},
	sum(of) { return this.ids.reduce((n, id) => n + (of(id) || 0), 0); },
};

// add keeps a sample. The last one is replaced until it is a step away from the one before, so that an hour stays small. Samples later than it are of
// a clock that has gone back.
export function add(id, sample) {
	let list = world.series.get(id);
	if (!list) { world.series.set(id, list = []); }
	while (list.length && sample.t <= list.at(-1).t) { list.pop(); }
	if (list.length > 1 && list.at(-1).t - list.at(-2).t < step) { list.pop(); }
	list.push(sample);
	while (list[0].t < sample.t - keep) { list.shift(); }
}

const views = {Overview: overview, Overlay: overlay, Hosts: hosts, Servers: servers, Batches: batches, Members: members, Events: events, Steer: steer};
let shown; // {name, element, update(), refresh()}

function show() {
	const name = Object.keys(views).find(v => "#" + v.toLowerCase() === location.hash) || "Overview";
	if (shown?.name === name) { return; }
	shown?.leave?.();
	shown = {name, ...views[name](world)};
	document.querySelector("main").replaceChildren(shown.element);
	for (const a of document.querySelectorAll("nav a")) {
		if (a.textContent === name) { a.setAttribute("aria-current", "page"); } else { a.removeAttribute("aria-current"); }
	}
	document.title = name + " · Proxima";
	shown.update?.();
	refresh();
}

// refresh has the view ask the nodes for what the stream does not bring.
let busy = false;
async function refresh() {
	if (busy || document.hidden || !shown?.refresh) { return; }
	busy = true;
	const asking = shown;
	try { await asking.refresh(); } catch { /* the state line tells of a lost connection */ }
	busy = false;
	if (shown !== asking) { refresh(); } // another view was opened meanwhile
}

async function loadMembers() {
	const list = await get("/members");
	const known = new Set(world.members.map(m => m.id));
	world.members = list.sort((a, b) => a.id < b.id ? -1 : 1);
	const fresh = world.ids.filter(id => !known.has(id));
	for (const [id, samples] of await everywhere(fresh, "/history")) {
		world.series.set(id, []);
		for (const s of samples) { add(id, s); }
	}
}

function header(lost) {
	const state = document.getElementById("state"), own = world.latest(world.self);
	if (lost || !own) {
		state.className = lost ? "bad" : "";
		state.textContent = lost ? "no connection to the node: it is tried again" : "connecting …";
		return;
	}
	const trouble = own.paused || own.trouble;
	state.className = trouble ? "bad" : "";
	state.textContent = `node ${short(world.self)} · ${world.ids.length} ${world.ids.length === 1 ? "node" : "nodes"} · ${rate(world.sum(id => world.perSecond(id, x => x.pages)))} pages/s` +
		` · ${number(world.sum(id => world.latest(id)?.pending))} URLs pending` + (trouble ? " · " + trouble : "") + " · " + clock(own.t);
	const quick = document.getElementById("quick"), wanted = own.held ? "Resume" : "Pause";
	if (quick.textContent !== wanted) { quick.replaceChildren(h("button", {onclick: () => act("/" + wanted.toLowerCase())}, wanted)); }
}

document.querySelector("nav").append(...Object.keys(views).map(v => h("a", {href: "#" + v.toLowerCase()}, v)));
addEventListener("hashchange", show);
addEventListener("keydown", e => {
	if (e.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(e.target.tagName)) {
		const search = document.querySelector("main input[type=search]");
		if (search) { e.preventDefault(); search.focus(); }
	}
});
show();
setInterval(refresh, 5000);
let next = 0;
stream("/stream", async tick => {
	if (!tick) { next = 0; return header(true); }
	world.self = tick.node;
	world.events = [...world.events, ...tick.events].slice(-300);
	if (Date.now() > next) {
		const first = !next;
		next = Date.now() + 10e3;
		await loadMembers().catch(() => {});
		if (first) { refresh(); }
	}
	for (const [id, sample] of Object.entries(tick.nodes)) { add(id, sample); }
	header(false);
	if (!document.hidden) { shown.update?.(tick); }
});
