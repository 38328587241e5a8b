// Steering: a form for each call of the API that changes something, made from its description.
import {act, get, h} from "./base.js";

export function steer() {
	const element = h("div", {class: "plots"});
	const form = (path, call) => {
		const params = (call.parameters || []).map(p => [p, h("input", {name: p.name, required: p.required})]);
		const body = call.requestBody && h("textarea", {name: "body", required: true, "aria-label": call.requestBody.description, placeholder: call.requestBody.description});
		const name = path.slice(1).replaceAll("-", " ");
		return h("form", {onsubmit: async e => {
			e.preventDefault();
			if (!confirm(`${name}?`)) { return; }
			const query = new URLSearchParams(params.filter(([, input]) => input.value.trim()).map(([p, input]) => [p.name, input.value.trim()]));
			if (await act(path + (query.size ? "?" + query : ""), body?.value)) { e.target.reset(); }
		}}, h("fieldset", {}, h("legend", {}, name[0].toUpperCase() + name.slice(1)), h("p", {class: "how"}, call.summary),
			params.map(([p, input]) => h("label", {}, p.name, " ", h("small", {}, p.description), input)), body, h("button", {"data-act": path}, "Do it")));
	};
	get("/openapi.json").then(doc => element.append(h("p", {class: "how"}, "What is done here is done at this node, and stands in its log with who did it."),
		...Object.entries(doc.paths).filter(([, on]) => on.post).map(([path, on]) => form(path, on.post))));
	return {element};
}
