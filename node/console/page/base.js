// What all views use: elements, figures in words, and calls of the API. Text from elsewhere becomes text nodes, never markup.

// h makes an element: h("td", {class: "n"}, child, …). Attributes that begin with "on" are listeners.
export function h(name, attributes = {}, ...children) {
	const e = document.createElement(name);
	return fill(e, attributes, children);
}

// s is h for SVG.
export function s(name, attributes = {}, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(e, attributes, children) {
	for (const [key, value] of Object.entries(attributes)) {
		if (key.startsWith("on")) {
			e.addEventListener(key.slice(2), value);
		} else if (value !== false && value != null) {
			e.setAttribute(key, value === true ? "" : value);
		}
	}
	e.append(...children.flat().filter(c => c != null && c !== false));
	return e;
}

export const number = (v, digits = 0) => v == null || !isFinite(v) ? "–" : v.toLocaleString("en", {maximumFractionDigits: digits});
export const rate = v => number(v, v < 10 ? 1 : 0);
export const bytes = v => v >= 1e9 ? number(v / 1e9, 1) + " GB" : v >= 1e6 ? number(v / 1e6, v < 1e7 ? 1 : 0) + " MB" : number(v / 1e3) + " kB";
export const millis = v => v == null ? "–" : v >= 10000 ? number(v / 1000) + " s" : v >= 1000 ? number(v / 1000, 1) + " s" : number(v, v < 10 ? 1 : 0) + " ms";
export const lasting = sec => sec >= 172800 ? number(sec / 86400) + " d" : sec >= 7200 ? number(sec / 3600) + " h" : sec >= 120 ? number(sec / 60) + " min" : number(sec) + " s";
export const clock = t => new Date(t).toLocaleTimeString("en-GB");
export const short = id => (id || "").slice(0, 8);

// said tells the result of an act.
export function said(text) {
	const e = document.getElementById("said");
	e.textContent = text;
	e.hidden = false;
	clearTimeout(said.timer);
	said.timer = setTimeout(() => { e.hidden = true; }, 6000);
}

async function send(method, path, body) {
	for (;;) {
		const token = sessionStorage.getItem("token"), headers = token ? {Authorization: "Bearer " + token} : {};
		const res = await fetch("/api/v1" + path, {method, body, headers});
		if (res.status !== 401) { return res; }
		await login();
	}
}

let asking;
function login() {
	const dialog = document.getElementById("login"), input = document.getElementById("token");
	asking ??= new Promise(done => {
		dialog.showModal();
		dialog.addEventListener("close", () => {
			sessionStorage.setItem("token", input.value.trim());
			input.value = "";
			asking = undefined;
			done();
		}, {once: true});
	});
	return asking;
}

async function call(method, path, body) {
	const res = await send(method, path, body);
	const answer = await res.json().catch(() => ({error: res.statusText}));
	if (!res.ok) { throw new Error(answer.error || res.statusText); }
	return answer;
}

export const get = path => call("GET", path);

// act makes a call that changes something, and says what came of it.
export async function act(path, body) {
	try {
		const answer = await call("POST", path, body);
		const parts = Object.entries(answer).map(([k, v]) => k + ": " + (typeof v === "object" ? JSON.stringify(v) : v));
		said("Done" + (parts.length ? " – " + parts.join(", ") : "") + ".");
		return true;
	} catch (e) {
		said(e.message);
		return false;
	}
}

// everywhere makes a call of each of the nodes, and gives [id, answer] of those that answer.
export async function everywhere(ids, path) {
	const join = path.includes("?") ? "&" : "?";
	const answers = await Promise.all(ids.map(id => get(path + join + "node=" + encodeURIComponent(id)).then(a => [id, a], () => null)));
	return answers.filter(a => a);
}

// stream calls back with each event of the server, and with null when the connection is lost; then it tries again.
export async function stream(path, each) {
	for (;;) {
		try {
			const res = await send("GET", path);
			if (!res.ok) { throw new Error(res.statusText); }
			let rest = "";
			for await (const part of chunks(res.body.pipeThrough(new TextDecoderStream()))) {
				const events = (rest + part).split("\n\n");
				rest = events.pop();
				for (const e of events) { each(JSON.parse(e.slice("data: ".length))); }
			}
		} catch { /* it is told below */ }
		each(null);
		await new Promise(done => setTimeout(done, 2000));
	}
}

async function* chunks(body) {
	const reader = body.getReader();
	for (;;) {
		const {done, value} = await reader.read();
		if (done) { return; }
		yield value;
	}
}

// Table shows rows in columns {name, value(row), show(row), n: number?, wide: left out on a phone?, words: breaks anywhere?}. A click on a head sorts; where more is given, a click on
// a row shows more(row) below it.
export class Table {
	constructor(columns, {key, more, sort = 0, down = false}) {
		Object.assign(this, {columns, key, more, sort, down, rows: [], body: h("tbody")});
		this.heads = columns.map((c, i) => h("th", {class: css(c), scope: "col"}, h("button", {onclick: () => {
			this.down = this.sort === i ? !this.down : !!c.n;
			this.sort = i;
			this.draw();
		}}, c.name)));
		this.element = h("div", {class: "scroll"}, h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.body));
	}

	show(rows) {
		this.rows = rows;
		this.draw();
	}

	draw() {
		const by = this.columns[this.sort].value, sign = this.down ? -1 : 1;
		const order = (a, b) => a === b ? 0 : a == null ? 1 : b == null ? -1 : (a < b ? -1 : 1) * sign;
		const focused = this.body.contains(document.activeElement) && document.activeElement.dataset.key;
		this.heads.forEach((e, i) => e.setAttribute("aria-sort", i !== this.sort ? "none" : this.down ? "descending" : "ascending"));
		this.body.replaceChildren(...[...this.rows].sort((a, b) => order(by(a), by(b))).slice(0, 300).flatMap(row => this.lines(row)));
		if (focused) { this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus(); }
	}

	lines(row) {
		const key = this.key(row), open = this.more && this.opened === key;
		const cells = this.columns.map((c, i) => {
			const shown = c.show ? c.show(row) : String(c.value(row) ?? "");
			return h("td", {class: css(c)}, i === 0 && this.more ? h("button", {"data-key": key, "aria-expanded": String(open), onclick: () => this.toggle(key)}, shown) : shown);
		});
		const lines = [h("tr", {class: open ? "open" : null}, cells)];
		if (open) { lines.push(h("tr", {}, h("td", {class: "more", colspan: this.columns.length}, this.more(row)))); }
		return lines;
	}

	toggle(key) {
		this.opened = this.opened === key ? undefined : key;
		this.draw();
	}
}

const css = c => [c.n && "n", c.wide && "wide", c.words && "words", c.name === "At" && "t"].filter(Boolean).join(" ") || null;
