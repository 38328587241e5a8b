// Steering: a form for each call of the API that changes something, made from its description.
import {act, clock, get, h, Table} from "./base.js";

export function steer() {
	const forms = h("div", {class: "forms"});
	const form = (path, call) => {
		const params = (call.parameters || []).map(p => [p, h("input", {name: p.name, required: p.required})]);
		const body = call.requestBody && h("textarea", {name: "body", required: true, "aria-label": call.requestBody.description, placeholder: call.requestBody.description});
		const word = path.slice(1).replaceAll("-", " "), name = word[0].toUpperCase() + word.slice(1);
		return h("form", {onsubmit: async e => {
			e.preventDefault();
			if (!confirm(`${name}?`)) { return; }
			const query = new URLSearchParams(params.filter(([, input]) => input.value.trim()).map(([p, input]) => [p.name, input.value.trim()]));
			if (await act(path + (query.size ? "?" + query : ""), body?.value)) {
				e.target.reset();
				refresh();
			}
		}}, h("fieldset", {}, h("legend", {}, name), h("p", {class: "how"}, call.summary),
			params.map(([p, input]) => h("label", {}, p.name, " ", h("small", {}, p.description), input)), body, h("button", {"data-act": path}, name)));
	};
	const button = (label, path) => h("button", {onclick: async () => { if (await act(path)) { refresh(); } }}, label);
	const requests = new Table([
		{name: "Asked for", value: r => r.host},
		{name: "Note", words: true, value: r => r.note},
		{name: "From", value: r => r.from},
		{name: "", value: r => r.host, show: r => h("div", {class: "row"}, button("Block", `/block?on=${encodeURIComponent(r.host)}&why=${encodeURIComponent("its owner asked")}`),
			button("Dismiss", "/dismiss?host=" + encodeURIComponent(r.host)))},
	], {key: r => r.host}), wished = h("section", {class: "card", hidden: true}, h("h2", {}, "Web masters ask to be left alone ", h("small", {}, "without proof that the site is theirs")), requests.element);
	const blocks = new Table([
		{name: "Left alone", value: b => b.on},
		{name: "Why", words: true, value: b => b.why},
		{name: "By", value: b => b.by},
		{name: "Since", value: b => b.at, show: b => new Date(b.at).toLocaleDateString("en-GB") + " " + clock(b.at)},
		{name: "", value: b => b.on, show: b => button("Unblock", "/unblock?on=" + encodeURIComponent(b.on))},
	], {key: b => b.on}), list = h("section", {class: "card", hidden: true}, h("h2", {}, "Blocked, on all nodes"), blocks.element);
	const refresh = async () => {
		for (const [path, table, at] of [["/requests", requests, wished], ["/blocks", blocks, list]]) {
			const all = await get(path) || [];
			at.hidden = !all.length;
			table.show(all);
		}
	};
	get("/openapi.json").then(doc => forms.append(...Object.entries(doc.paths).filter(([, on]) => on.post).map(([path, on]) => form(path, on.post))));
	return {element: h("div", {}, h("p", {class: "how"}, "What is done here is done at this node, and stands in its log with who did it."), wished, list, forms), refresh};
}
