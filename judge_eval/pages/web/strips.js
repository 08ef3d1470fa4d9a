import { el, svg, phrase } from "./dom.js";
import { meaning, square } from "./draw.js";

const FOLD = 8; // fewer chunks in a row that are not relevant are drawn one by one

function folded(n) { return phrase("strips.fold", { n }); }

// The parts of a strip: squares, long stretches of chunks that are not relevant, the mark of the cutoff.
export function partsOf(signs, scale, cutoff, isOff) {
  const parts = [];
  let i = 0;
  while (i < signs.length) {
    if (i === cutoff) parts.push({ cut: true });
    let end = i;
    while (end < signs.length && !(end > i && end === cutoff) && meaning(signs[end], scale).kind === "no" && !isOff(end)) end++;
    if (end - i >= FOLD) {
      parts.push({ from: i, to: end });
      i = end;
    } else {
      for (end = Math.max(end, i + 1); i < end; i++) parts.push({ at: i });
    }
  }
  return parts;
}

function offWord(sign, scale, off) {
  const { word } = meaning(sign, scale);
  return off ? phrase("strips.off", { word }) : word;
}

// What is to be heard of a strip.
function heard(signs, scale, cutoff, isOff) {
  return partsOf(signs, scale, cutoff, isOff).map((part) =>
    part.cut ? phrase("strips.cut", { rank: cutoff })
      : part.at !== undefined ? `${part.at + 1} ${offWord(signs[part.at], scale, isOff(part.at))}`
        : phrase("strips.from_to", { low: part.from + 1, high: part.to })).join("; ");
}

// A square a rank, with one sentence for those who hear it.
export function strip(row, scale, cutoff) {
  const signs = [...row.strip];
  const isOff = (i) => row.off[i] === "1";
  const node = el("span.strip", { role: "img", "aria-label": signs.length ? phrase("strips.ranks", { ranks: heard(signs, scale, cutoff, isOff) }) : phrase("strips.nothing") },
    partsOf(signs, scale, cutoff, isOff).map((part) =>
      part.cut ? el("span.cut", { title: phrase("strips.cutoff", { rank: cutoff }), "aria-hidden": "true" })
        : part.at !== undefined ? square(signs[part.at], scale, isOff(part.at))
          : el("span.fold", { "aria-hidden": "true" }, folded(part.to - part.from))));
  if (row.ranks > signs.length) node.append(el("span.more", { "aria-hidden": "true" }, `+${row.ranks - signs.length}`));
  if (!signs.length) node.append(el("span.more", { "aria-hidden": "true" }, phrase("strips.nothing")));
  return node;
}

// The strip of a row; where the baseline's was another, both, one above the other.
export function strips(row, scale, cutoff) {
  if (row.before === null || row.before === undefined || (row.before === row.strip && row.ranks_before === row.ranks)) return strip(row, scale, cutoff);
  const line = (when, told) => el("span.turn", null, el("span.when", null, when), strip(told, scale, cutoff));
  return el("span.turns", null, line("before", { strip: row.before, off: "", ranks: row.ranks_before }), line("after", row));
}

// Two strips one above the other, with a line between the same chunks.
export function pairStrips(told, scales, cutoff) {
  const [cell, left, top, below, height] = [24, 26, 4, 58, 84];
  const layOut = (signs, scale) => {
    const parts = partsOf(signs.map((sign) => sign.sign), scale, cutoff, (i) => signs[i].off);
    const middles = [], folds = new Set();
    let x = left;
    for (const part of parts) {
      part.x = x;
      if (part.cut) x += 9;
      else if (part.at !== undefined) {
        middles[part.at] = x + 10;
        x += cell;
      } else {
        part.width = 12 + 6.4 * folded(part.to - part.from).length;
        for (let i = part.from; i < part.to; i++) {
          middles[i] = x + part.width / 2;
          folds.add(i);
        }
        x += part.width + 4;
      }
    }
    return { parts, middles, folds, end: x };
  };
  const [a, b] = [layOut(told.a.strip, scales[0]), layOut(told.b.strip, scales[1])];
  const width = Math.max(a.end, b.end, left + cell) + 6;
  const lines = told.moves.filter((m) => m.a && m.b && (m.flipped || !a.folds.has(m.a - 1) || !b.folds.has(m.b - 1))).map((m) => {
    const kind = m.flipped ? "flip" : m.a === m.b ? "stay" : "move";
    return svg("line", { class: `tie ${kind}`, x1: a.middles[m.a - 1], y1: top + 21, x2: b.middles[m.b - 1], y2: below - 1 });
  });
  const row = (signs, laid, y, scale) => laid.parts.map((part) => {
    if (part.cut) return svg("line", { class: "cutline", x1: part.x + 2, x2: part.x + 2, y1: y - 2, y2: y + 22 });
    if (part.at === undefined) {
      return [svg("rect", { x: part.x, y: y + 1, width: part.width, height: 18, rx: 9, class: "foldbox" }),
        svg("text", { x: part.x + part.width / 2, y: y + 14, "text-anchor": "middle" }, folded(part.to - part.from))];
    }
    const sign = signs[part.at];
    const box = square(sign.sign, scale, sign.off);
    box.title = phrase("strips.square", { id: sign.id, rank: part.at + 1, word: offWord(sign.sign, scale, sign.off) });
    return svg("foreignObject", { x: part.x, y, width: 20, height: 20 }, box);
  });
  const say = (name, signs, scale) => `${name}: ` + (heard(signs.map((sign) => sign.sign), scale, cutoff, (i) => signs[i].off) || "nothing");
  return el("div.scroll", { tabindex: "0", role: "region", "aria-label": phrase("strips.both", { id: told.id }) }, svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "pairs", role: "img",
    "aria-label": say("A", told.a.strip, scales[0]) + ". " + say("B", told.b.strip, scales[1]) },
    lines,
    svg("text", { x: 4, y: top + 15, class: "name" }, "A"), svg("text", { x: 4, y: below + 15, class: "name" }, "B"),
    row(told.a.strip, a, top, scales[0]), row(told.b.strip, b, below, scales[1])));
}
