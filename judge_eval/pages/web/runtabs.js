import { el, quoted, num, range, count, table } from "./dom.js";
import { probabilities } from "./reliability.js";

const FIGURES = {
  kappa: "Cohen's kappa", kappa_linear: "kappa, linear weights", kappa_quadratic: "kappa, quadratic weights", ac1: "Gwet's AC1",
  accuracy: "accuracy", bias: "bias (judge − human)", precision: "precision", recall: "recall",
};

function figureName(name) {
  const [stem, grade] = name.split("_ge");
  return (FIGURES[stem] || stem) + (grade ? ` at grade ≥ ${grade}` : "");
}

function traceLink(id, rank) {
  return el("a", { href: "#" + encodeURIComponent(id) + (rank ? "@" + rank : "") }, quoted("bdi", id));
}

function listed(told) {
  return told.count > told.list.length && el("p.note", null, `The first ${told.list.length} of ${told.count}.`);
}

export function disagreements(told) {
  if (!told) return el("p.note", null, "No chunk of this run carries a human label, so there is nothing to agree or disagree with.");
  const most = Math.max(1, ...told.matrix.flat());
  const matrix = el("table.matrix", null,
    el("caption", null, "Rows: the judge's grade. Columns: the human label."),
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "judge \\ human"), told.categories.map((c) => el("th", { scope: "col" }, c)))),
    el("tbody", null, told.matrix.map((row, i) => el("tr", null, el("th", { scope: "row" }, told.categories[i]),
      row.map((n, j) => {
        const cell = el(i === j ? "td.same" : "td", null, n);
        cell.style.setProperty("--heat", String(Math.round((n / most) * 36)) + "%");
        return cell;
      })))));
  return el("div", null,
    el("div.columns", null, el("section.panel", null, el("h3", null, "Confusion matrix"), matrix, el("p.dim", null, `${count(told.pairs, "labelled chunk")} with a verdict`)),
      el("section.panel", null, el("h3", null, "Agreement"), table([{ name: "figure" }, { name: "value", right: true }, { name: "95% interval" }],
        told.figures.map((f) => [figureName(f.name), num(f.value), range(f.interval)]), { label: "figures of agreement" }),
      el("p.dim", null, "Intervals resample whole traces."))),
    probabilities(told),
    el("h3", null, `${count(told.count, "disagreement")} on relevance`),
    told.list.length > 0 && table([{ name: "trace" }, { name: "rank", right: true }, { name: "chunk" }, { name: "judge" }, { name: "human", right: true }, { name: "reason" }],
      told.list.map((d) => [traceLink(d.trace, d.rank), d.rank, quoted("bdi", d.chunk), (d.relevant ? "+ relevant" : "· not relevant") + ` (${d.grade})`, d.label, quoted("span", d.reason)]), { label: "disagreements" }),
    listed(told));
}

export function failures(told) {
  if (!told.count) return el("p.note", null, "Every chunk has a verdict.");
  return el("div", null,
    el("p.chips", null, Object.entries(told.whys).map(([why, n]) => el("span.chip", null, why + " ", el("b", null, n)))),
    table([{ name: "trace" }, { name: "rank", right: true }, { name: "chunk" }, { name: "why" }, { name: "what happened" }],
      told.list.map((f) => [traceLink(f.trace, f.rank), f.rank, quoted("bdi", f.chunk), f.why, quoted("span", f.detail)]), { label: "failed verdicts" }),
    listed(told));
}

export function provenance(groups) {
  return el("div.columns", null, groups.filter((group) => group.rows.length).map((group) =>
    el("section.panel", null, el("h3", null, group.name), el("dl.facts", null,
      group.rows.map(([name, value]) => [el("dt", null, name), el("dd", null, quoted("span", value))])))));
}
