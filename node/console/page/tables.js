// The views that are lists: hosts, servers, batches, members, events. Each shows all nodes.
import {act, bytes, clock, everywhere, get, h, lasting, millis, number, rate, short, Table} from "./base.js";

const search = (label, heard) => h("input", {type: "search", placeholder: label, "aria-label": label, oninput: heard});
const node = (world, id) => id ? h("span", {class: "t c" + world.slot(id), title: id}, h("span", {class: "dot"}), short(id)) : "–";
const flat = answers => answers.flatMap(([id, list]) => list.map(x => ({...x, from: id})));

export function hosts(world) {
	let wait;
	const part = search("Part of a host's name", () => {
		clearTimeout(wait);
		wait = setTimeout(refresh, 250);
	}), count = h("span", {class: "how"});
	const table = new Table([
		{name: "Host", value: x => x.host},
		{name: "Waits for", value: x => x.wait, show: x => h("span", {class: x.wait === "backoff" ? "bad" : null}, x.wait)},
		{name: "URLs", n: true, value: x => x.in_memory, show: x => number(x.in_memory) + (x.on_disk ? " +" : "")},
		{name: "Owner", value: x => x.owner, show: x => node(world, x.owner)},
		{name: "Replica", wide: true, value: x => x.replica, show: x => node(world, x.replica)},
		{name: "Server", wide: true, value: x => x.server},
		{name: "Failures", wide: true, n: true, value: x => x.failures},
	], {key: x => x.host, sort: 2, down: true, more: x => detail(x)});

	function detail(x) {
		const line = h("div");
		everywhere(world.ids, "/events").then(answers => line.replaceChildren(...flat(answers).filter(e => e.host === x.host).sort((a, b) => b.t - a.t).slice(0, 20)
			.map(e => h("div", {}, clock(e.t), " ", h("b", {}, e.kind), " ", e.reason || "", " ", h("small", {}, "at " + short(e.from))))));
		const name = encodeURIComponent(x.host), please = async path => { if (await act(path)) { refresh(); } };
		const button = (label, listener) => h("button", {onclick: listener, "data-key": x.host + label}, label);
		return [h("p", {}, x.sentence + "."), h("p", {class: "how"}, `Crawl-delay ${lasting(x.delay_ns / 1e9)}; server ${x.server || "not known yet"}; `,
			x.on_disk ? "more URLs wait on disk." : "all its URLs are in memory."),
		h("div", {class: "row"}, x.from === world.self ? [
			button("Retry", () => please("/retry?host=" + name)),
			button("Move", () => {
				const to = prompt(`To which node is ${x.host} to move? The id, or its beginning:`);
				if (to) { please(`/move?host=${name}&to=${encodeURIComponent(to)}`); }
			}),
			button("Drop", () => { if (confirm(`Give up ${x.in_memory} URLs or more of ${x.host}?`)) { please("/drop?host=" + name); } }),
		] : h("small", {}, "To retry, move or drop it, open the page of its owner."),
		button("Block", () => {
			const why = prompt(`Why are all nodes to leave ${x.host} alone, with all below it?`);
			if (why != null) { please(`/block?on=${encodeURIComponent(new URL(x.host).hostname)}&why=${encodeURIComponent(why)}`); }
		})), line];
	}

	async function refresh() {
		const answers = await everywhere(world.ids, "/hosts?part=" + encodeURIComponent(part.value.trim()));
		const rows = answers.flatMap(([id, a]) => a.hosts.map(x => ({...x, from: id})));
		count.textContent = `${number(rows.length)} of ${number(answers.reduce((n, [, a]) => n + a.all, 0))} hosts in memory`;
		table.show(rows);
	}

	return {element: h("section", {class: "card"}, h("div", {class: "tools"}, part, count), table.element), refresh};
}

export function servers(world) {
	const part = search("Address, host or node", () => table.show(found())), predicted = p => h("span", {class: "c" + world.slot(p.node)}, h("span", {class: "dot"}), short(p.node) + " " + millis(p.ms));
	let rows = [];
	const found = () => rows.filter(x => [x.addr, x.from, ...x.hosts || []].some(t => t.includes(part.value.trim())));
	const gain = x => x.predicted?.length > 1 ? x.predicted.find(p => p.node !== x.from)?.ms - x.predicted.find(p => p.node === x.from)?.ms : null;
	const table = new Table([
		{name: "Server", value: x => x.addr},
		{name: "Crawled by", value: x => x.from, show: x => node(world, x.from)},
		{name: "Expected there", n: true, value: x => x.predicted?.find(p => p.node === x.from)?.ms, show: x => millis(x.predicted?.find(p => p.node === x.from)?.ms)},
		{name: "Next best", value: x => gain(x), show: x => {
			const other = x.predicted?.find(p => p.node !== x.from);
			return other ? predicted(other) : "–";
		}},
		{name: "Lease", n: true, value: x => x.lease_ms, show: x => x.lease_ms ? lasting(x.lease_ms / 1000) : x.lacks ? h("span", {class: "bad"}, "none") : "–"},
		{name: "Granted by", wide: true, value: x => x.grantor, show: x => node(world, x.grantor)},
		{name: "Hosts", wide: true, words: true, value: x => x.hosts?.[0], show: x => (x.hosts || []).map(t => t.split("://")[1]).join(", ")},
	], {key: x => x.addr + x.from, more: x => [
		h("p", {}, x.lacks ? `No lease: ${x.lacks}.` : x.in_flight ? `${x.in_flight} requests are under way.` : x.wait_ms ? `Politeness: it may be asked in ${millis(x.wait_ms)}.` : "It may be asked now."),
		x.predicted && h("div", {}, h("b", {}, "Expected time of a page, best first"), x.predicted.map(p => h("div", {}, predicted(p), h("small", {}, ` ± ${number(100 * p.error)} %, ` +
			(p.seen ? `${p.seen} downloads seen` : "never asked from there")), p.node === x.from ? " ← crawls it" : ""))),
		x.updates > 0 && h("p", {class: "how"}, `Coordinate ${x.vector.map(v => number(v, 1)).join(", ")} ms, height ${millis(x.height_ms)}, error ${number(100 * x.accuracy)} %, ${x.updates} samples.`)]});
	return {element: h("section", {class: "card"}, h("div", {class: "tools"}, part), table.element), async refresh() {
		rows = flat(await everywhere(world.ids, "/servers"));
		table.show(found());
	}};
}

export function batches(world) {
	const empty = h("p", {class: "how"}), table = new Table([
		{name: "At", value: x => x.t, show: x => clock(x.t)},
		{name: "Host", value: x => x.host},
		{name: "To", value: x => x.owner, show: x => node(world, x.owner)},
		{name: "What", words: true, value: x => x.decided, show: x => x.decided ? "chosen by " + x.assigner : "handed over" + (x.reason ? ": " + x.reason : "")},
		{name: "Expected", n: true, value: x => x.predicted_ms, show: x => x.predicted_ms ? millis(x.predicted_ms) : "–"},
		{name: "Estimates", wide: true, n: true, value: x => x.estimates},
		{name: "After", wide: true, n: true, value: x => x.seconds, show: x => x.decided ? lasting(x.seconds) : "–"},
		{name: "URLs", wide: true, n: true, value: x => x.urls},
		{name: "Batch", wide: true, value: x => x.batch},
	], {key: x => [x.t, x.host, x.assigner, x.owner].join(), down: true});
	return {element: h("section", {class: "card"}, empty, table.element), async refresh() {
		const rows = flat(await everywhere(world.ids, "/decisions"));
		empty.textContent = rows.length ? "The latest decisions of all nodes about where hosts are crawled." : "Nothing has been decided yet: hosts stay where they are until a batch is.";
		table.show(rows);
	}};
}

export function members(world) {
	const latest = (x, of) => world.latest(x.id) && of(world.latest(x.id));
	const table = new Table([
		{name: "Node", value: x => x.id, show: x => node(world, x.id)},
		{name: "State", value: x => x.phase, show: x => h("span", {class: x.phase === "alive" ? "good" : "bad"}, x.phase, h("small", {}, " " + lasting(x.for_s)))},
		{name: "Round trip", n: true, value: x => x.rtt_ms, show: x => x.id === world.self ? "this node" : millis(x.rtt_ms)},
		{name: "Pages/s", n: true, value: x => world.perSecond(x.id, s => s.pages), show: x => rate(world.perSecond(x.id, s => s.pages))},
		{name: "Load", n: true, value: x => x.queue_ms, show: x => millis(x.queue_ms)},
		{name: "Leases", n: true, value: x => latest(x, s => s.leases)},
		{name: "Memory", wide: true, n: true, value: x => latest(x, s => s.rss), show: x => latest(x, s => bytes(s.rss)) || "–"},
		{name: "Core", wide: true, n: true, value: x => world.perSecond(x.id, s => s.cpu_s), show: x => number(100 * world.perSecond(x.id, s => s.cpu_s)) + " %"},
		{name: "Version", wide: true, value: x => latest(x, s => s.version)},
	], {key: x => x.id, more: x => [h("p", {}, `${x.id}, peers at ${x.addr || "–"}; reach: ${x.reach}; ${x.settled ? "settled" : "not settled yet"}; ${x.links} links wait for it here.`),
		x.vector && h("p", {class: "how"}, `Coordinate ${x.vector.map(v => number(v, 1)).join(", ")} ms, height ${millis(x.height_ms)}, error ${number(100 * x.accuracy)} %.`),
		latest(x, s => s.paused || s.trouble) && h("p", {class: "bad"}, latest(x, s => s.paused || s.trouble))]});
	const refresh = async () => table.show(await get("/members"));
	return {element: h("section", {class: "card"}, table.element), refresh};
}

export function events(world) {
	const part = search("Part of an event", () => table.show(found())), words = x => [x.kind, x.host, x.peer, x.by, x.reason].join(" ");
	let rows = [];
	const found = () => rows.filter(x => words(x).toLowerCase().includes(part.value.trim().toLowerCase()));
	const table = new Table([
		{name: "At", value: x => x.t, show: x => clock(x.t)},
		{name: "Node", value: x => x.from, show: x => node(world, x.from)},
		{name: "Event", value: x => x.kind, show: x => h("span", {class: x.level ? "bad" : null}, x.kind.replaceAll("_", " "))},
		{name: "Host", value: x => x.host},
		{name: "Why", words: true, value: x => x.reason, show: x => [x.reason || "", x.by ? h("small", {}, " by " + x.by) : "", x.peer ? h("small", {}, " " + short(x.peer)) : ""]},
	], {key: x => x.from + x.seq, down: true});
	return {
		element: h("section", {class: "card"}, h("div", {class: "tools"}, part), table.element),
		async refresh() {
			rows = flat(await everywhere(world.ids, "/events"));
			table.show(found());
		},
		update(tick) {
			if (!tick?.events.length) { return; }
			const known = new Set(rows.filter(x => x.from === tick.node).map(x => x.seq));
			rows.push(...tick.events.filter(e => !known.has(e.seq)).map(e => ({...e, from: tick.node})));
			table.show(found());
		},
	};
}
