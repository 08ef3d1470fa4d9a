import { el, svg, num, signed, phrase, wayOf } from "./dom.js";

// All grades of a scale, the lowest first.
export function gradesOf(scale) {
  const least = (scale && scale.minimum) || 0;
  return Array.from({ length: (scale ? scale.maximum : 1) - least + 1 }, (_, i) => least + i);
}

const traces = (n) => phrase("dom.traces", { n });

export function gradeWord(relevant, grade, scale) {
  const word = phrase(relevant ? "draw.relevant" : "draw.irrelevant");
  const level = scale && scale.levels ? scale.levels[grade - (scale.minimum || 0)] : null;
  if (level) return phrase("draw.level", { word, grade, level });
  return scale && scale.maximum > 1 ? phrase("draw.graded", { word, grade }) : word;
}

// What a sign of a strip means: a shape, a word and a colour for each.
export function meaning(sign, scale) {
  if (sign === "!") return { word: phrase("draw.failed"), kind: "failed", glyph: "!" };
  if (sign === "?") return { word: phrase("draw.hidden"), kind: "hidden", glyph: "?" };
  const grade = { "+": 1, ".": 0, X: 10 }[sign] ?? Number(sign);
  const graded = scale && scale.maximum > 1;
  const relevant = grade >= (scale ? scale.relevant : 1);
  const word = gradeWord(relevant, grade, scale);
  const glyph = graded ? String(grade) : relevant ? "+" : "·";
  const shade = relevant ? 1 + Math.round((3 * (grade - scale.relevant)) / Math.max(1, scale.maximum - scale.relevant)) : 0;
  return { word, kind: relevant ? "yes" : grade > ((scale && scale.minimum) || 0) ? "some" : "no", glyph, shade: graded ? shade : 4 };
}

export function square(sign, scale, off) {
  const told = meaning(sign, scale);
  return el(`span.sq.${told.kind}.shade${told.shade ?? 0}${off ? ".off" : ""}`, { "aria-hidden": "true" }, told.glyph);
}

export function legend(scale, labels, cutoff) {
  const signs = scale && scale.maximum > 1 ? gradesOf(scale).map(String) : ["1", "0"];
  return el("p.legend", null,
    signs.map((sign) => el("span", null, square(sign, scale), " ", meaning(sign, scale).word)),
    el("span", null, square("!", scale), " ", phrase("draw.failed")),
    labels && el("span", null, square("1", scale, true), " ", phrase("draw.off")),
    cutoff && el("span", null, el("span.cut", { "aria-hidden": "true" }), " ", phrase("draw.cutoff")));
}

// A mean with its interval on a line from 0 to 1.
export function whisker(mean, interval, baseline) {
  if (mean === null || mean === undefined || mean > 1) return null;
  const x = (v) => 4 + 192 * Math.min(1, Math.max(0, v));
  return svg("svg", { viewBox: "0 0 200 16", class: "whisker", "aria-hidden": "true" },
    svg("line", { x1: 4, x2: 196, y1: 8, y2: 8, class: "axis" }),
    [0, 0.5, 1].map((v) => svg("line", { x1: x(v), x2: x(v), y1: 5, y2: 11, class: "axis" })),
    baseline !== undefined && baseline !== null && svg("line", { x1: x(baseline), x2: x(baseline), y1: 1, y2: 15, class: "base" }),
    interval && svg("line", { x1: x(interval[0]), x2: x(interval[1]), y1: 8, y2: 8, class: "span" }),
    svg("circle", { cx: x(mean), cy: 8, r: 4, class: "dot" }));
}

export function histogram(told, name, onpick) {
  const most = Math.max(1, ...told.counts);
  const [w, h, bottom] = [340, 104, 18];
  const step = w / told.counts.length;
  const total = told.counts.reduce((a, b) => a + b, 0);
  const bars = told.counts.map((n, i) => {
    const height = n ? Math.max(2, (n / most) * (h - bottom - 14)) : 0;
    const title = phrase("draw.bin", { name, low: num(told.edges[i], 2), high: num(told.edges[i + 1], 2), traces: traces(n) });
    return svg("g", { class: "bar", onclick: n ? () => onpick(told.edges[i], told.edges[i + 1], i === told.counts.length - 1) : null },
      svg("title", null, title),
      svg("rect", { x: i * step, y: 0, width: step, height: h - bottom, class: "hit" }),
      svg("rect", { x: i * step + 1, y: h - bottom - height, width: step - 2, height, rx: 1.5, class: "fill" }),
      n > 0 && n === most && svg("text", { x: i * step + step / 2, y: h - bottom - height - 3, "text-anchor": "middle" }, n));
  });
  const low = told.edges[0], high = told.edges[told.edges.length - 1];
  return svg("svg", { viewBox: `0 0 ${w} ${h}`, class: "histogram", role: "img", "aria-label": phrase("draw.histogram", { name, traces: traces(total) }) },
    bars, svg("line", { x1: 0, x2: w, y1: h - bottom, y2: h - bottom, class: "axis" }),
    [[0, "start", low], [w / 2, "middle", (low + high) / 2], [w, "end", high]].map(([x, anchor, v]) =>
      svg("text", { x, y: h - 4, "text-anchor": anchor }, num(v, 1))));
}

// A against B for each trace; triangles point the way the trace went.
export function scatter(points, name, fewer, onpick) {
  const [size, pad] = [340, 44];
  const most = Math.max(1, ...points.flatMap((p) => [p.a, p.b]));
  const x = (v) => pad + (v / most) * (size - pad - 14);
  const y = (v) => size - pad - (v / most) * (size - pad - 14);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((t) => t * most);
  const marks = points.map((point) => {
    const r = 3.5 + 1.6 * Math.sqrt(point.n);
    const [cx, cy] = [x(point.a), y(point.b)];
    const kind = wayOf(point.b - point.a, fewer);
    const up = point.b > point.a ? -1 : 1;
    const shape = kind === "even" ? svg("circle", { cx, cy, r: r * 0.8 })
      : svg("path", { d: `M${cx - r} ${cy - up * r * 0.7}L${cx + r} ${cy - up * r * 0.7}L${cx} ${cy + up * r}Z` });
    return svg("g", { class: `mark ${kind}`, onclick: () => onpick(point) },
      svg("title", null, phrase("draw.point", { a: num(point.a), b: num(point.b), traces: traces(point.n) })), shape);
  });
  const total = points.reduce((sum, p) => sum + p.n, 0);
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "scatter", role: "img",
    "aria-label": phrase(fewer ? "draw.below" : "draw.above", { name, traces: traces(total) }) },
    ticks.map((t) => [
      svg("line", { x1: x(t), x2: x(t), y1: y(0), y2: y(most), class: "grid" }),
      svg("line", { x1: x(0), x2: x(most), y1: y(t), y2: y(t), class: "grid" })]),
    svg("line", { x1: x(0), y1: y(0), x2: x(most), y2: y(most), class: "diagonal" }),
    [0, 0.5, 1].map((t) => [
      svg("text", { x: x(t * most), y: size - pad + 14, "text-anchor": "middle" }, num(t * most, 1)),
      svg("text", { x: pad - 6, y: y(t * most) + 4, "text-anchor": "end" }, num(t * most, 1))]),
    svg("text", { x: x(most / 2), y: size - 3, "text-anchor": "middle", class: "name" }, phrase("draw.baseline", { name })),
    svg("text", { x: 12, y: y(most / 2), "text-anchor": "middle", transform: `rotate(-90 12 ${y(most / 2)})`, class: "name" }, phrase("draw.candidate", { name })),
    marks);
}

// Every difference that is not zero, ascending; the zeros are a gap with their number.
export function ladderOf(told, fewer, onpick) {
  const list = told.list;
  const [w, h] = [520, 200];
  const gap = told.zero ? 44 : 0;
  const step = list.length ? Math.min(16, (w - gap) / list.length) : 1;
  const used = step * list.length + gap;
  const start = (w - used) / 2;
  const most = Math.max(0.05, ...list.map(([, d]) => Math.abs(d)));
  const y = (d) => h / 2 - (d / most) * (h / 2 - 14);
  let x = start, passed = false, zeroAt = null;
  const bars = [];
  for (const [id, d] of list) {
    if (d > 0 && !passed) { zeroAt = x; x += gap; passed = true; }
    const top = Math.min(y(d), y(0));
    bars.push(svg("g", { class: `mark ${wayOf(d, fewer)}`, onclick: () => onpick(id) },
      svg("title", null, `${id}: ${signed(d)}`),
      svg("rect", { x: x + step * 0.08, y: top, width: Math.max(0.6, step * 0.84), height: Math.max(1, Math.abs(y(d) - y(0))) })));
    x += step;
  }
  if (!passed) zeroAt = x;
  return svg("svg", { viewBox: `0 0 ${w} ${h}`, class: "ladder", role: "img",
    "aria-label": phrase("draw.ladder", { lower: list.filter(([, d]) => d < 0).length, equal: told.zero, higher: list.filter(([, d]) => d > 0).length }) },
    svg("line", { x1: 0, x2: w, y1: h / 2, y2: h / 2, class: "axis" }), bars,
    gap > 0 && svg("text", { x: zeroAt + gap / 2, y: h / 2 - 6, "text-anchor": "middle" }, `${told.zero} ±0`),
    svg("text", { x: 2, y: 12 }, signed(most, 2)), svg("text", { x: 2, y: h - 4 }, signed(-most, 2)));
}
