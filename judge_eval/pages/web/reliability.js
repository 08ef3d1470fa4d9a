import { el, svg, sentence, num, range, phrase, table } from "./dom.js";

const [SIDE, MARGIN, RIM] = [340, 44, 12];

// What the judge's probabilities said against what people found, a point a bin; on the diagonal both are the same.
function diagram(told, sentence) {
  const x = (v) => MARGIN + v * (SIDE - MARGIN - RIM);
  const y = (v) => SIDE - MARGIN - v * (SIDE - MARGIN - RIM);
  const points = told.bins.map((bin) => {
    const [cx, ends] = [x(bin.probability), bin.rate.interval];
    const words = phrase("reliability.bin", { chunks: phrase("dom.chunks", { n: bin.rate.n }), low: num(bin.low, 2), high: num(bin.high, 2), said: num(bin.probability), found: num(bin.rate.value), range: range(ends) });
    return svg("g", { class: "bin" }, svg("title", null, words),
      ends && [svg("line", { x1: cx, x2: cx, y1: y(ends[0]), y2: y(ends[1]), class: "span" }),
        ends.map((v) => svg("line", { x1: cx - 4, x2: cx + 4, y1: y(v), y2: y(v), class: "span" }))],
      svg("circle", { cx, cy: y(bin.rate.value), r: 3 + 6 * Math.sqrt(bin.rate.n / told.n), class: ends ? "dot" : "dot bare" }));
  });
  return svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "reliability", role: "img", "aria-labelledby": "reliability-title reliability-desc" },
    svg("title", { id: "reliability-title" }, phrase("reliability.title")),
    svg("desc", { id: "reliability-desc" }, phrase("reliability.desc", { sentence, n: told.bins.length })),
    [0, 0.25, 0.5, 0.75, 1].map((v) => [
      svg("line", { x1: x(v), x2: x(v), y1: y(0), y2: y(1), class: "grid" }),
      svg("line", { x1: x(0), x2: x(1), y1: y(v), y2: y(v), class: "grid" })]),
    svg("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "diagonal" }),
    [0, 0.5, 1].map((v) => [
      svg("text", { x: x(v), y: SIDE - MARGIN + 14, "text-anchor": "middle" }, num(v, 1)),
      svg("text", { x: MARGIN - 6, y: y(v) + 4, "text-anchor": "end" }, num(v, 1))]),
    svg("text", { x: x(0.5), y: SIDE - 6, "text-anchor": "middle", class: "name" }, phrase("reliability.axis")),
    svg("text", { x: 12, y: y(0.5), "text-anchor": "middle", transform: `rotate(-90 12 ${y(0.5)})`, class: "name" }, phrase("reliability.share")),
    points);
}

export function probabilities(told) {
  const known = told.reliability;
  if (!known) return sentence("p.note", told.certainty);
  return [
    sentence("p.note", told.certainty),
    el("div.columns", null,
      el("section.panel", null, el("h3", null, "Reliability"), diagram(known, told.certainty),
        el("p.dim", null, phrase("reliability.note"))),
      el("section.panel", null, el("h3", null, "Probabilities"),
        table([{ name: "figure" }, { name: "value", right: true }, { name: "95% interval" }],
          Object.entries(known.figures).map(([name, f]) => [phrase(`reliability.${name}`), num(f.value), range(f.interval)]), { label: phrase("reliability.figures") }),
        el("h4", null, phrase("reliability.points")),
        table([{ name: "probabilities" }, { name: "said", right: true }, { name: "found", right: true }, { name: "95% interval" }, { name: "chunks", right: true }],
          known.bins.map((b) => [phrase("dom.to", { low: num(b.low, 2), high: num(b.high, 2) }), num(b.probability), num(b.rate.value), range(b.rate.interval), b.rate.n]), { label: phrase("reliability.table") }),
        el("p.dim", null, phrase(known.without ? "reliability.without" : "reliability.of", { chunks: phrase("dom.labelled", { n: known.n }), traces: phrase("dom.traces", { n: known.traces }), without: known.without })))),
  ];
}
