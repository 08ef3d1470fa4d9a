import { el, quoted, phrase, plain } from "./dom.js";

const SIGNS = { "+": ["✓", "yes"], "~": ["~", "some"], x: ["×", "against"], ".": ["·", "no"], "!": ["!", "failed"] };
const SOME_CLAIMS = 12;

function mark(sign) {
  const [glyph, kind] = SIGNS[sign];
  return el(`span.sq.${kind}`, { "aria-hidden": "true" }, glyph);
}

// What is to be heard, and read below the grid, of one cell.
function sentenceOf(claim, rank) {
  return rank === 0 ? claim.together[1] : phrase(`claims.cell${claim.signs[rank - 1]}`, { rank });
}

// The claims of a trace as a grid, one row a claim, one column a rank; arrow keys move in it.
export function claimGrid(told, chunks) {
  if (!told) return null;
  const head = el("h3.ranks", { id: "claims-title" }, phrase("claims.title"), " ", el("span.dim", null, told.sentence));
  if (!told.list.length) return el("section.claims", { "aria-labelledby": "claims-title" }, head);
  const ranks = [...chunks.keys()].map((i) => i + 1), columns = told.together ? [...ranks, 0] : ranks;
  const detail = el("p.claimdetail", { id: "claim-detail" });
  let shownCell = null;

  function tell(claim, rank, cell) {
    shownCell?.classList.remove("told");
    shownCell = cell;
    cell.classList.add("told");
    const [quote, found] = claim.quotes[rank] || ["", null];
    detail.replaceChildren(el("b", null, sentenceOf(claim, rank)), ": ", quoted("span", claim.text),
      quote && el("span", null, " ", quoted("q", quote)), quote && found === false ? el("span.badtext", null, " ", phrase("claims.not_found")) : "",
      rank ? el("button.linkish", { type: "button", onclick: () => toCard(rank) }, phrase("claims.rank", { rank })) : "");
  }
  function toCard(rank) {
    const card = document.getElementById(`rank-${rank}`);
    card.scrollIntoView({ block: "center" });
    card.tabIndex = -1;
    card.focus({ preventScroll: true });
  }

  const body = el("tbody", { role: "rowgroup" });
  function cellOf(claim, rank) {
    const sign = rank ? claim.signs[rank - 1] : claim.together[0];
    const [quote] = claim.quotes[rank] || [""];
    const cell = el("td", { role: "gridcell", tabindex: "-1", "data-rank": rank, "aria-label": plain(sentenceOf(claim, rank) + (quote ? `: “${quote}”` : "")),
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
  } }, phrase("claims.more", { n: left.length }));

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
  detail.append(phrase(columns.length ? "claims.hint" : "claims.empty"));
  return el("section.claims", { "aria-labelledby": "claims-title" }, head,
    el("p.legend", null, Object.keys(SIGNS).map((sign) => el("span", null, mark(sign), " ", phrase(`claims.said${sign}`))), told.together && el("span", null, el("b", null, "all"), " ", phrase("claims.all"))),
    el("div.scroll", null, el("table.claimgrid", { role: "grid", "aria-labelledby": "claims-title" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "claim"),
        columns.map((rank) => el("th", { scope: "col", role: "columnheader", title: rank ? plain(phrase("claims.column", { rank, id: chunks[rank - 1].id })) : phrase("claims.all_title") }, rank || "all")))), body)),
    more, detail);
}
