import { el, quoted, count, num, table, plain } from "./dom.js";

const SIGNS = { "+": ["+", "yes"], "~": ["~", "some"], x: ["×", "against"], ".": ["·", "no"], "!": ["!", "failed"] };
const ALL = { true: "+", false: ".", null: "!" };
const SOME_CLAIMS = 12;

function mark(sign) {
  const [glyph, kind] = SIGNS[sign];
  return el(`span.sq.${kind}`, { "aria-hidden": "true" }, glyph);
}

function marks(signs) {
  return el("span.strip", null, [...signs].map(mark));
}

// What is to be heard, and read below the grid, of one cell.
function sentenceOf(claim, rank, words) {
  if (rank === 0) return !claim.asked ? "Nobody asked whether all chunks cover it together" : claim.together === null ? "All chunks together: no verdict"
    : claim.together ? "All chunks together cover it" : "All chunks together do not cover it";
  return `Rank ${rank} ${claim.signs[rank - 1] === "!" ? "has " : ""}${words[claim.signs[rank - 1]]}`;
}

// The claims of a trace as a grid, one row a claim, one column a rank; arrow keys move in it.
export function claimGrid(told, chunks) {
  if (!told) return null;
  const head = el("h3.ranks", { id: "claims-title" }, "Claims of the reference ", el("span.dim", null, told.sentence));
  if (!told.list.length) return el("section.claims", { "aria-labelledby": "claims-title" }, head);
  const ranks = [...chunks.keys()].map((i) => i + 1), columns = told.together ? [...ranks, 0] : ranks;
  const detail = el("p.claimdetail", { id: "claim-detail" });
  let shownCell = null;

  function tell(claim, rank, cell) {
    shownCell?.classList.remove("told");
    shownCell = cell;
    cell.classList.add("told");
    const [quote, found] = claim.quotes[rank] || ["", null];
    detail.replaceChildren(el("b", null, sentenceOf(claim, rank, told.words)), ": ", quoted("span", claim.text),
      quote && el("span", null, " ", quoted("q", quote)), quote && found === false ? el("span.badtext", null, " (quote not found in the chunk, or too short)") : "",
      rank ? el("button.linkish", { type: "button", onclick: () => toCard(rank) }, `show rank ${rank}`) : "");
  }
  function toCard(rank) {
    const card = document.getElementById(`rank-${rank}`);
    card.scrollIntoView({ block: "center" });
    card.tabIndex = -1;
    card.focus({ preventScroll: true });
  }

  const body = el("tbody", { role: "rowgroup" });
  function cellOf(claim, rank) {
    const sign = rank ? claim.signs[rank - 1] : claim.asked ? ALL[claim.together] : null;
    const [quote] = claim.quotes[rank] || [""];
    const cell = el("td", { role: "gridcell", tabindex: "-1", "data-rank": rank, "aria-label": plain(sentenceOf(claim, rank, told.words) + (quote ? `: “${quote}”` : "")),
      onfocus: () => tell(claim, rank, cell), onmousemove: () => shownCell === cell || tell(claim, rank, cell), onclick: () => cell.focus(),
      onkeydown: (event) => { if (event.key === "Enter" && rank) { event.preventDefault(); toCard(rank); } } }, sign ? mark(sign) : el("span.dim", { "aria-hidden": "true" }, "–"));
    return cell;
  }
  function rowOf(claim) {
    return el(`tr.${claim.cover}`, { role: "row", "data-claim": claim.id }, el("th", { scope: "row", role: "rowheader" },
      el("span.coverage", null, el("b.cover", null, claim.word), el("span.dim", null, `, ${claim.vital}`)), quoted("span.claimtext", claim.text)),
    columns.map((rank) => cellOf(claim, rank)));
  }
  const left = [...told.list];
  const draw = (n) => body.append(...left.splice(0, n).map(rowOf));
  draw(SOME_CLAIMS);
  const more = left.length > 0 && el("button.quiet", { type: "button", onclick: () => {
    const at = body.children.length;
    draw(left.length);
    more.remove();
    go(at, 0);
  } }, `Show ${count(left.length, "more claim")}`);

  function go(row, column) {
    const cell = body.children[row]?.querySelectorAll("td")[column];
    if (!cell) return;
    for (const other of body.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  body.addEventListener("focusin", (event) => {
    if (!event.target.matches("td")) return;
    for (const other of body.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  body.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = [...body.children].indexOf(cell.parentNode), column = cell.cellIndex - 1;
    const to = { ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1], ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], Home: [row, 0], End: [row, columns.length - 1] }[event.key];
    if (!to) return;
    event.preventDefault();
    if (to[0] >= 0 && to[1] >= 0) go(...to);
  });
  const first = body.querySelector("td");
  if (first) first.tabIndex = 0;
  detail.append(columns.length ? "A cell, looked at, shows its quote; arrow keys move." : "Nothing was retrieved, so nothing is covered.");
  return el("section.claims", { "aria-labelledby": "claims-title" }, head,
    el("p.legend", null, Object.entries(told.words).map(([sign, word]) => el("span", null, mark(sign), " ", word)), told.together && el("span", null, el("b", null, "all"), " all chunks together")),
    el("div.scroll", null, el("table.claimgrid", { role: "grid", "aria-labelledby": "claims-title" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "claim"),
        columns.map((rank) => el("th", { scope: "col", role: "columnheader", title: rank ? plain(`rank ${rank}: ${chunks[rank - 1].id}`) : "whether all chunks cover it together" }, rank || "all")))), body)),
    more, detail);
}

function traceLinks(ids) {
  return ids.map((id, i) => [i ? ", " : "", el("a", { href: "#" + encodeURIComponent(id) }, quoted("bdi", id))]);
}

// What the run misses most, and what is covered by tag.
export function missedClaims(told, against) {
  const numbers = [{ name: "covered", right: true }, { name: "partly", right: true }, { name: "not covered", right: true }, { name: "not known", right: true }];
  const cells = (each) => [each.covered, each.partly, each.missing, each.unknown];
  return el("div.missed", null,
    el("p.told", null, told.sentence), (against || []).map((text) => el("p.told", null, "Against the baseline, ", quoted("span", text))),
    el("h3", null, told.distinct ? `${count(told.distinct, "claim")} missed, the most missed first` : "No claim is known to be missed"),
    told.distinct > told.missed.length && el("p.note", null, `The first ${told.missed.length} of ${told.distinct.toLocaleString("en")}.`),
    told.missed.length > 0 && el("div.claimlist", null, table([{ name: "claim" }, { name: "kind" }, { name: "missed" }, { name: "question" }, { name: "traces" }],
      told.missed.map((m) => [quoted("span.claimtext", m.text), el("span.whole", null, m.vital), el("span.tracesof", null, m.told), quoted("span.dim.question", m.q), el("span", null, traceLinks(m.traces), m.partly + m.missing > m.traces.length && ", …")]), { label: "missed claims" })),
    told.tags.length > 0 && el("section", null, el("h3", null, "Claims by tag"),
      table([{ name: "tag" }, { name: "share covered", right: true }, ...numbers],
        told.tags.map((t) => [quoted("bdi", t.tag), num(t.share), ...cells(t)]), { label: "claims by tag" }),
      el("p.dim", null, "A claim of each trace counts by itself; those not known, since a verdict is missing, are in no share.")));
}

// Claims that were won or lost between two runs, all of them or those of one trace.
export function changedClaims(list, trace = null) {
  return el("div.claimlist", null, table([{ name: "what" }, { name: "kind" }, { name: "claim" }, { name: "A" }, { name: "B" }, ...(trace ? [] : [{ name: "trace" }])],
    list.map((c) => [el(`b.whole.${c.kind === "lost" ? "fail" : "pass"}`, null, c.kind === "lost" ? "▼ lost" : "▲ won"), el("span.whole", null, c.vital), quoted("span.claimtext", c.text), said(c.before), said(c.after),
      ...(trace ? [] : [quoted("span.cid", c.trace)])]), { label: trace ? `claims won and lost in ${plain(trace)}` : "list of claims won and lost" }));
}

const HEARD = { "+": "in full", "~": "in part", x: "contradicts", ".": "not", "!": "no verdict" };

function said(signs) {
  const node = marks(signs);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", [...signs].map((sign, i) => `${i + 1} ${HEARD[sign]}`).join("; ") || "nothing retrieved");
  return node;
}

export function movedClaims(told) {
  return el("section", { id: "claims", "aria-label": "Claims won and lost" }, el("h2", null, "Claims won and lost"), el("p.told", null, quoted("span", told.sentence), "."),
    told.list.length > 0 && changedClaims(told.list), told.count > told.list.length && el("p.note", null, `The first ${told.list.length} of ${told.count.toLocaleString("en")}.`));
}
