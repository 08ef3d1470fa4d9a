import { el, page, topBar, statusChip, quoted, sentence, link, num, shownMean, signed, range, phrase, failedNote, day, wayOf, changeOf, lessNote, typing, tagChip, plain, markup } from "./dom.js";
import { legend, meaning, square, whisker } from "./draw.js";
import { strip } from "./strips.js";
import { marked } from "./card.js";
import { Blocks, api } from "./source.js";

const ROWS = 100;
const lettered = (i) => el("span.letter", { "aria-hidden": "true" }, String.fromCharCode(65 + i));
const called = (head) => head.label || head.id.slice(0, 8);

// How far apart the runs are; below 0 where fewer than two have a value.
function spread(row, metric) {
  const known = row.cells.flatMap((cell) => (cell && typeof cell.scores[metric] === "number" ? [cell.scores[metric]] : []));
  return known.length > 1 ? Math.max(...known) - Math.min(...known) : -1;
}

// The same rules as the server's.
export function matrixRows(rows, metrics, { filter = "", sort = "order", metric = metrics[0] }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (row, word) => (word.startsWith("tag:") ? row.tags.some((tag) => tag.toLowerCase() === word.slice(4))
    : word === "differs" ? metrics.some((name) => spread(row, name) > 1e-9)
      : row.id.toLowerCase().includes(word) || row.query.toLowerCase().includes(word));
  const found = rows.filter((row) => words.every((word) => holds(row, word)));
  if (sort === "apart") found.sort((a, b) => spread(b, metric) - spread(a, metric));
  else if (sort !== "order") {
    const value = (row) => row.cells[sort]?.scores[metric] ?? null;
    found.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return x === null || y === null ? (x === null) - (y === null) : x - y;
    });
  }
  return found;
}

export class EmbeddedMatrix {
  constructor(data) {
    this.data = data;
    this.blocks = new Blocks();
    this.metrics = data.metrics.map((m) => m.name);
    this.places = new Map(data.rows.map((row, i) => [row.place, i]));
  }
  async page() { return this.data; }
  async rows({ offset = 0, limit = ROWS, ...asked }) {
    const found = matrixRows(this.data.rows, this.metrics, asked);
    return { total: found.length, rows: found.slice(offset, offset + limit) };
  }
  async trace(place) { return this.blocks.item(this.places.get(place)); }
}

export class ServedMatrix {
  constructor(runs) { this.runs = runs; }
  page() { return api("/matrix", { run: this.runs }); }
  rows(asked) { return api("/matrix/rows", { run: this.runs, ...asked }); }
  trace(place) { return api("/matrix/trace", { run: this.runs, place }); }
}

function figureCell(told, metric, i) {
  if (told.mean === null) return el("td", { role: "cell", "data-run": i }, el("span.headed", null, lettered(i), "–"));
  const pair = told.pair;
  return el("td", { role: "cell", "data-run": i }, el("span.headed", null, lettered(i),
    el("span.figure", null, el("b", null, shownMean(told)), " ", el("span.dim.whole", null, range(told.interval)),
      whisker(told.mean, told.interval, pair ? pair.baseline : null),
      pair && el("span.against", { title: phrase("matrixpage.over", { name: metric.name, n: pair.n }) }, changeOf("b.pairing", pair.difference, pair.way, metric.less_is_better), " ",
        el("span.dim.whole", null, range(pair.interval, 3, signed))),
      told.n_failed > 0 && [" ", el("span.badtext", null, phrase("dom.without", { n: told.n_failed }))])));
}

function heading(head, i, served) {
  const name = called(head);
  return el("th", { scope: "col", role: "columnheader", title: plain(name) }, el("span.headed", null, lettered(i),
    served ? el("a.clamp", { href: `/runs/${head.id}` }, quoted("bdi", name)) : head.href ? el("span.clamp", null, link(name, head.href)) : quoted("bdi.clamp", name)));
}

function about(head, i) {
  return el("section.panel.side", null,
    el("h2", null, lettered(i), head.href ? link(called(head), head.href) : quoted("bdi", called(head))),
    el("p.chips", null, statusChip(head.status), head.tags.map(tagChip)),
    el("p.dim", null, quoted("bdi", head.dataset.name), ", ", quoted("bdi", head.imported || head.model), head.prompt && [", ", quoted("bdi", head.prompt)], `, ${day(head.created)}`),
    failedNote(head));
}

export async function matrixPage(root, source, served) {
  const data = await source.page();
  const heads = data.runs, names = data.metrics.map((m) => m.name), scales = heads.map((head) => head.scale);
  const fewer = new Set(data.metrics.filter((m) => m.less_is_better).map((m) => m.name));
  let metric = names[0] ?? null, rows = [], total = 0, turn = 0;
  document.title = `${phrase("matrixpage.title", { n: heads.length })} · judge_eval`;

  function figures() {
    return el("div.scroll.first", { tabindex: "0", role: "region", "aria-label": phrase("matrixpage.means") }, el("table.means", { role: "table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "metric"), heads.map((head, i) => heading(head, i, served)))),
      el("tbody", { role: "rowgroup" }, data.metrics.map((m) => el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, m.name, lessNote(m)), m.runs.map((told, i) => figureCell(told, m, i)))))));
  }

  function cellOf(row, i) {
    const cell = row.cells[i], id = (cell && cell.id) || row.id;
    if (!cell) return el("td.lacking", { role: "cell", "data-run": i }, lettered(i), el("span.dim", null, phrase("matrixpage.alone")));
    const value = cell.scores[metric] ?? null, first = row.cells[0] && (row.cells[0].scores[metric] ?? null);
    const delta = i && value !== null && typeof first === "number" ? value - first : null;
    const number = el("b.value", null, value === null ? "none" : num(value, 2));
    return el("td", { role: "cell", "data-run": i }, el("span.score", null, lettered(i),
      served ? el("a", { href: `/runs/${heads[i].id}#${encodeURIComponent(id)}`, "aria-label": phrase("matrixpage.cell", { name: metric ?? "trace", value: number.textContent, run: called(heads[i]) }) }, number) : number,
      delta !== null && changeOf("span.delta", delta, wayOf(delta, fewer.has(metric)), fewer.has(metric), 2, phrase("matrixpage.versus"))),
    strip(cell, scales[i]));
  }

  function chunkCell(cell, i) {
    if (!cell) return el("td.lacking", { role: "cell", "data-run": i }, lettered(i), el("span.dim", null, "–"));
    const word = meaning(cell.sign, scales[i]).word;
    return el("td", { role: "cell", "data-run": i }, el("span.score", null, lettered(i), square(cell.sign, scales[i], false), phrase("matrixpage.chunk", { rank: cell.rank, word }), cell.stage && el("span.chip.stage", null, phrase("dom.stage", { stage: cell.stage }))), cell.reason && sentence("span.dim.why", cell.reason));
  }

  async function open(row, holder, button) {
    const shut = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!shut));
    holder.hidden = shut;
    if (shut || holder.dataset.filled) return;
    holder.dataset.filled = "true";
    const cell = holder.firstChild;
    try {
      const told = await source.trace(row.place);
      cell.replaceChildren(...[
        told.reference && el("p.dim.reference", null, "Reference: ", quoted("bdi", told.reference)),
        el("table.chunks", { role: "table", "aria-label": "chunks" }, el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "chunk"), heads.map((head, i) => el("th", { scope: "col", role: "columnheader" }, el("span.headed", null, lettered(i), quoted("bdi.clamp", called(head))))))),
          el("tbody", { role: "rowgroup" }, told.chunks.map((chunk) => el("tr", { role: "row" },
            el("th", { scope: "row", role: "rowheader" }, quoted("span.cid", chunk.id), " ", marked([chunk.text], "span.snippet")),
            chunk.cells.map(chunkCell)))))].filter(Boolean));
    } catch (error) {
      delete holder.dataset.filled;
      cell.replaceChildren(el("p.warn", { role: "alert" }, error.message));
    }
  }

  function rowsOf(row) {
    const id = `chunks-${row.place}`;
    const button = el("button.quiet.opens", { type: "button", "aria-expanded": "false", "aria-controls": id, onclick: () => open(row, holder, button) }, "Chunks");
    const holder = el("tr.opened", { id, role: "row", hidden: true }, el("td", { role: "cell", colspan: heads.length + 1 }));
    return [el("tr.trace-row", { role: "row", "data-trace": row.id, tabindex: "-1" },
      el("th", { scope: "row", role: "rowheader" }, el("span.query.clamp", { dir: "auto", title: plain(row.query) }, row.query),
        el("span.under", null, button, quoted("span.cid.crop", row.id), row.tags.map(tagChip))),
      row.cells.map((_, i) => cellOf(row, i))), holder];
  }

  const body = el("tbody", { role: "rowgroup" }), told = el("p.told", { role: "status" });
  const box = el("input", { type: "search", id: "filter", placeholder: phrase("matrixpage.place"), "aria-label": phrase("dom.filter"), autocomplete: "off", spellcheck: "false", oninput: () => later() });
  const sort = el("select", { id: "sort", "aria-label": phrase("dom.sort"), onchange: () => fill(true) },
    [["apart", phrase("matrixpage.apart")], ["order", phrase("dom.order")], ...heads.map((_, i) => [String(i), phrase("matrixpage.lowest", { run: String.fromCharCode(65 + i) })])].map(([value, text]) => el("option", { value }, text)));
  const which = el("select", { id: "metric", "aria-label": phrase("dom.metric"), onchange: () => { metric = which.value; fill(true); } }, names.map((name) => el("option", { value: name }, name)));
  const more = el("button.quiet.moar", { type: "button", hidden: true, onclick: () => fill(false) }, phrase("dom.more"));

  let timer = null;
  function later() {
    clearTimeout(timer);
    body.setAttribute("aria-busy", "true");
    timer = setTimeout(() => { timer = null; fill(true); }, 120);
  }

  async function fill(fresh) {
    if (!fresh && body.getAttribute("aria-busy") === "true") return;
    const mine = ++turn;
    body.setAttribute("aria-busy", "true");
    try {
      const found = await source.rows({ filter: box.value, sort: sort.value, metric, offset: fresh ? 0 : rows.length, limit: ROWS });
      if (mine !== turn) return;
      rows = fresh ? found.rows : [...rows, ...found.rows];
      total = found.total;
      const nodes = found.rows.flatMap(rowsOf);
      if (fresh) body.replaceChildren(...nodes);
      else body.append(...nodes);
      told.textContent = phrase(!total ? "dom.none" : box.value ? "dom.matching" : "dom.traces", { n: total });
      more.hidden = rows.length >= total;
    } catch (error) {
      told.textContent = error.message;
    } finally {
      if (mine === turn && timer === null) body.setAttribute("aria-busy", "false");
    }
  }

  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, el("h1", null, phrase("matrixpage.title", { n: heads.length })), el("p.sub", null, phrase("matrixpage.scope"))),
    data.conclusion && el("p", { id: "conclusion" }, el("b", null, quoted("bdi", `${data.conclusion}.`))),
    data.warnings.length > 0 && el("section.banner.late", { role: "note", "aria-label": "Warnings" }, el("h2", null, phrase("matrixpage.doubt")), el("ul", null, data.warnings.map((text) => sentence("li", text)))),
    data.notes.map((text) => sentence("p.dim", text)),
    el("details.abouts", null, el("summary", null, phrase("matrixpage.about")), el("div.columns", null, heads.map(about))),
    el("p.runkey.first", { "aria-hidden": "true" }, heads.map((head, i) => el("span.headed", null, lettered(i), quoted("bdi.clamp", called(head))))),
    names.length ? figures() : el("p.note", null, phrase("matrixpage.nothing")),
    data.read && el("section", { id: "read" }, markup(data.read)),
    data.slices && el("details", { id: "slices" }, el("summary", null, phrase("dom.slices")), markup(data.slices)),
    el("section", { id: "traces", "aria-label": "Traces" }, el("h2", null, "Traces"),
      data.shown && el("p.note.left", null, phrase("matrixpage.shown", data.shown)),
      legend(scales[0], true),
      el("div.controls", null, box, sort, which), told,
      el("div.scroll", { tabindex: "0", role: "region", "aria-label": phrase("matrixpage.table") }, el("table.several", { role: "table" },
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "trace"), heads.map((head, i) => heading(head, i, served)))), body)),
      more)));
  await fill(true);
  new IntersectionObserver((seen) => { if (seen.some((s) => s.isIntersecting)) fill(false); }, { rootMargin: "400px" }).observe(more);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") box.blur();
    if (typing(event)) return;
    if (event.key === "/") { event.preventDefault(); box.focus(); }
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const all = [...body.querySelectorAll(".trace-row")];
    const now = all.indexOf(document.activeElement.closest(".trace-row"));
    const next = all[Math.min(all.length - 1, Math.max(0, now + step))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  });
  document.documentElement.dataset.ready = "true";
}

page("matrix", (root, data) => matrixPage(root, data ? new EmbeddedMatrix(data) : new ServedMatrix(new URLSearchParams(location.search).getAll("run")), !data));
