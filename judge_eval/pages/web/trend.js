import { el, svg, num, range, phrase, day, plain } from "./dom.js";

const [HEIGHT, LEFT, RIGHT, TOP, BELOW] = [230, 40, 16, 10, 46];
const SLOT = 92; // pixels that a point's name takes
const SIGN = 7; // and one of its letters, about

function cut(text, room) {
  const signs = [...text];
  return signs.length * SIGN <= room ? text : signs.slice(0, Math.max(3, Math.floor(room / SIGN) - 1)).join("") + "…";
}

// Which points are named where not all have room: every k-th, counted from the newest.
function named(points, step) {
  const every = Math.max(1, Math.ceil(SLOT / step));
  return points.map((_, i) => (points.length - 1 - i) % every === 0);
}

function draw(points, name, threshold, width, tell) {
  const values = points.flatMap((p) => [p.mean, ...(p.interval || [])]).concat(threshold ?? []);
  const low = Math.max(0, Math.floor((Math.min(...values) - 0.02) * 10) / 10);
  const high = Math.min(1, Math.ceil((Math.max(...values) + 0.02) * 10) / 10) || 1;
  const inner = width - LEFT - RIGHT, side = Math.min(110, inner / 6);
  const step = points.length > 1 ? (inner - 2 * side) / (points.length - 1) : inner;
  const x = (i) => (points.length > 1 ? LEFT + side + i * step : LEFT + inner / 2);
  const y = (v) => TOP + (1 - (v - low) / Math.max(1e-9, high - low)) * (HEIGHT - TOP - BELOW);
  const begins = points.map((p, i) => !i || p.judgedAs !== points[i - 1].judgedAs); // of another judge than the run before
  const path = points.map((p, i) => `${begins[i] ? "M" : "L"}${x(i)} ${y(p.mean)}`).join("");
  const shown = named(points, step);
  const room = Math.min(2 * side, Math.max(SLOT, step)) - 8;
  return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "trend", role: "group", "aria-label": phrase("trend.over", { name, n: points.length }) },
    [low, (low + high) / 2, high].map((v) => [
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, num(v, 2))]),
    threshold !== null && threshold !== undefined && svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(threshold), y2: y(threshold), class: "limit" }),
    svg("path", { d: path, class: "line" }),
    points.map((p, i) => i > 0 && begins[i] && svg("line", { x1: x(i) - step / 2, x2: x(i) - step / 2, y1: TOP, y2: HEIGHT - BELOW, class: "break" })),
    points.map((p, i) => {
      const words = `${plain(p.label)}, ${day(p.created)}: ${name} ${p.shown} ${range(p.interval)}; ${plain(p.judge)}`;
      return svg("a", { class: "point", href: p.href, "aria-label": words, onfocus: () => tell(p), onmouseenter: () => tell(p) },
        svg("title", null, words),
        svg("circle", { cx: x(i), cy: y(p.mean), r: 12, class: "hit" }),
        p.interval && svg("line", { x1: x(i), x2: x(i), y1: y(p.interval[0]), y2: y(p.interval[1]), class: "span" }),
        svg("circle", { cx: x(i), cy: y(p.mean), r: 4, class: "dot" }));
    }),
    points.map((p, i) => shown[i] && svg("g", { "aria-hidden": "true" },
      svg("text", { x: x(i), y: HEIGHT - 22, "text-anchor": "middle", class: "name" }, cut(p.label, room)),
      svg("text", { x: x(i), y: HEIGHT - 7, "text-anchor": "middle" }, p.created.slice(0, 10)))));
}

// A metric over runs in time, with intervals, as wide as there is room.
export function trend(points, name, threshold) {
  const place = el("div.trendplace"), told = el("p.dim.pointed");
  const tell = (p) => told.replaceChildren(el("b", { dir: "auto" }, p.label), ` ${day(p.created)}: ${p.shown} ${range(p.interval)}; ${plain(p.judge)}`);
  tell(points[points.length - 1]);
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(place.clientWidth);
    if (!now || now === width) return;
    width = now;
    const at = [...place.querySelectorAll("a")].indexOf(document.activeElement);
    place.replaceChildren(draw(points, name, threshold, width, tell));
    if (at >= 0) place.querySelectorAll("a")[at].focus();
  }).observe(place);
  return el("div", null, place, told);
}
