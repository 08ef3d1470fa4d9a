import { el, quoted, sentence, num, range, phrase, table, markup } from "./dom.js";
import { gradeWord } from "./draw.js";
import { probabilities } from "./reliability.js";

function traceLink(id, rank) {
  return el("a", { href: "#" + encodeURIComponent(id) + (rank ? "@" + rank : "") }, quoted("bdi", id));
}

function listed(told) {
  return told.count > told.list.length && el("p.note", null, phrase("runtabs.first", { n: told.list.length, of: told.count }));
}

// The first sentences about the judge, as `agree` says them.
function trust(source) {
  const node = el("div", { id: "trust" });
  source.agreement().then(
    (said) => node.replaceChildren(...[said.trust, said.floor_sentence, said.evidence].filter(Boolean).map((text) => sentence("p", text))),
    (error) => node.replaceChildren(el("p.note", null, error.message)));
  return node;
}

export function disagreements(told, source) {
  if (!told) return el("p.note", null, phrase("runtabs.unlabelled"));
  const most = Math.max(1, ...told.matrix.flat());
  const matrix = el("table.matrix", null,
    el("caption", null, phrase("runtabs.sides")),
    el("thead", null, el("tr", null, el("th", { scope: "col" }, phrase("runtabs.corner")), told.categories.map((c) => el("th", { scope: "col" }, c)))),
    el("tbody", null, told.matrix.map((row, i) => el("tr", null, el("th", { scope: "row" }, told.categories[i]),
      row.map((n, j) => {
        const cell = el(i === j ? "td.same" : "td", null, n);
        cell.style.setProperty("--heat", String(Math.round((n / most) * 36)) + "%");
        return cell;
      })))));
  return el("div", null, trust(source),
    el("div.columns", null, el("section.panel", null, el("h3", null, phrase("runtabs.confusion")), matrix, el("p.dim", null, phrase("runtabs.pairs", { n: told.pairs }))),
      el("section.panel", null, el("h3", null, "Agreement"), table([{ name: "figure" }, { name: "value", right: true }, { name: "95% interval" }],
        told.figures.map((f) => [f.label, num(f.value), range(f.interval)]), { label: phrase("runtabs.figures") }),
      el("p.dim", null, phrase("runtabs.intervals")))),
    probabilities(told),
    told.slices && el("details", { id: "agreement-slices" }, el("summary", null, phrase("dom.slices")), markup(told.slices)),
    el("h3", null, phrase("runtabs.disagreements", { n: told.count })),
    told.list.length > 0 && table([{ name: "trace" }, { name: "rank", right: true }, { name: "chunk" }, { name: "judge" }, { name: "human", right: true }, { name: "reason" }],
      told.list.map((d) => [traceLink(d.trace, d.rank), d.rank, quoted("bdi", d.chunk), `${d.relevant ? "+" : "·"} ${gradeWord(d.relevant, d.grade, null)} (${d.grade})`, d.label, sentence("span", d.reason)]), { label: "disagreements" }),
    listed(told));
}

export function failures(told) {
  if (!told.count) return el("p.note", null, phrase("runtabs.complete"));
  return el("div", null,
    el("p.chips", null, Object.entries(told.whys).map(([why, n]) => el("span.chip", null, why + " ", el("b", null, n)))),
    table([{ name: "trace" }, { name: "rank", right: true }, { name: "chunk" }, { name: "why" }, { name: phrase("runtabs.happened") }],
      told.list.map((f) => [traceLink(f.trace, f.rank), f.rank, quoted("bdi", f.chunk), f.why, sentence("span", f.detail)]), { label: phrase("runtabs.failed") }),
    listed(told));
}

export function provenance(groups) {
  return el("div.columns", null, groups.filter((group) => group.rows.length).map((group) =>
    el("section.panel", null, el("h3", null, group.name), el("dl.facts", null,
      group.rows.map(([name, value]) => [el("dt", null, name), el("dd", null, quoted("span", value))])))));
}
