(function () {
"use strict";
var root = document.documentElement, tip = document.getElementById("tip"), button = document.getElementById("theme");
if (!tip || !button || !window.matchMedia) { return; }

button.hidden = false;
button.addEventListener("click", function () {
	var now = root.getAttribute("data-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
	root.setAttribute("data-theme", now === "dark" ? "light" : "dark");
});

function axis(words) {
	var p = words.split("|");
	return { log: p[0] === "log", lo: +p[1], hi: +p[2], from: +p[3], to: +p[4], kind: p[5], unit: p[6] || "" };
}
function value(a, px) {
	var t = (px - a.from) / (a.to - a.from);
	return a.log ? Math.exp(Math.log(a.lo) + t * (Math.log(a.hi) - Math.log(a.lo))) : a.lo + t * (a.hi - a.lo);
}
function round(v) { return v === 0 ? "0" : Math.abs(v) >= 100 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3)); }
function write(a, v) {
	if (a.kind === "clock") {
		var s = Math.round(v), m = Math.floor(s / 60), h = Math.floor(m / 60), two = function (n) { return (n < 10 ? "0" : "") + n; };
		return h > 0 ? h + ":" + two(m % 60) + ":" + two(s % 60) : m + ":" + two(s % 60);
	}
	if (a.kind === "ms") { return v >= 1000 ? round(v / 1000) + " s" : round(v) + " ms"; }
	if (a.kind === "share") { return round(100 * v) + " %"; }
	return round(v) + (a.unit ? " " + a.unit : "");
}
function corners(line) {
	if (!line.corners) {
		line.corners = line.getAttribute("points").split(" ").map(function (p) { return p.split(",").map(Number); });
	}
	return line.corners;
}
// at reads a line at a pixel; null outside of it.
function at(points, px) {
	var lo = 0, hi = points.length - 1;
	if (px < points[0][0] - 2 || px > points[hi][0] + 2) { return null; }
	while (hi - lo > 1) {
		var mid = (lo + hi) >> 1;
		if (points[mid][0] <= px) { lo = mid; } else { hi = mid; }
	}
	var a = points[lo], b = points[hi], t = b[0] > a[0] ? Math.min(Math.max((px - a[0]) / (b[0] - a[0]), 0), 1) : 0;
	return a[1] + (b[1] - a[1]) * t;
}
var cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
cross.setAttribute("class", "cross");
function hide() { tip.hidden = true; if (cross.parentNode) { cross.parentNode.removeChild(cross); } }
function show(e, words) {
	tip.textContent = words;
	tip.hidden = false;
	var x = e.clientX + 14, y = e.clientY + 14;
	if (x + tip.offsetWidth > root.clientWidth - 4) { x = Math.max(4, e.clientX - 14 - tip.offsetWidth); }
	if (y + tip.offsetHeight > root.clientHeight - 4) { y = Math.max(4, e.clientY - 14 - tip.offsetHeight); }
	tip.style.left = x + "px";
	tip.style.top = y + "px";
}
function lines(e, svg) {
	var box = svg.getBoundingClientRect(), x = axis(svg.getAttribute("data-x")), y = axis(svg.getAttribute("data-y"));
	var px = (e.clientX - box.left) / box.width * svg.viewBox.baseVal.width, words = [];
	if (!(px >= x.from && px <= x.to)) { hide(); return; }
	svg.querySelectorAll("polyline[data-n]").forEach(function (line) {
		var py = at(corners(line), px);
		if (py !== null) { words.push(line.getAttribute("data-n") + ": " + write(y, value(y, py))); }
	});
	if (words.length === 0) { hide(); return; }
	cross.setAttribute("x1", px); cross.setAttribute("x2", px);
	cross.setAttribute("y1", y.from); cross.setAttribute("y2", y.to);
	svg.appendChild(cross);
	show(e, write(x, value(x, px)) + "\n" + words.join("\n"));
}
document.addEventListener("pointermove", function (e) {
	var t = e.target;
	if (!t || !t.closest) { hide(); return; }
	var mark = t.closest("[data-t]"), svg = t.closest("svg[data-x]");
	if (mark) { show(e, mark.getAttribute("data-t")); } else if (svg) { lines(e, svg); } else { hide(); }
});
document.addEventListener("pointerleave", hide);
addEventListener("scroll", hide, { passive: true });
})();
