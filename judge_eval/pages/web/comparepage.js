import { el, quoted, link, num, signed, range, pvalue, count, day, verdictOf, table, typing } from "./dom.js";
import { scatter, ladderOf, pairStrips, legend, meaning } from "./draw.js";
import { topBar, statusChip } from "./runpage.js";

const CHANGES = { retrieval: "retrieval changed", verdicts: "verdict flipped", both: "retrieval and verdict", scores: "only the scores" };

function side(name, head, served) {
  const label = head.label || head.id.slice(0, 8);
  return el("section.panel.side", null,
    el("h2", null, el("span.letter", null, name), head.href ? link(label, head.href) : quoted("bdi", label)),
    el("p.chips", null, statusChip(head.status), head.tags.map((tag) => quoted("span.chip.tag", tag))),
    el("p.dim", null, quoted("bdi", head.dataset.name), ", ", quoted("bdi", head.model), head.prompt && [", ", quoted("bdi", head.prompt)], `, ${day(head.created)}`),
    head.failed > 0 && el("p.badtext", null, `${count(head.failed, "failed verdict")} in ${count(head.failed_traces, "trace")}`),
    served && el("p", null, el("a", { href: `/runs/${head.id}` }, "open this run")));
}

function moveWords(move) {
  if (move.a === null) return `new at rank ${move.b}`;
  if (move.b === null) return `gone (was rank ${move.a})`;
  return move.a === move.b ? `rank ${move.b}` : `rank ${move.a} → ${move.b}`;
}

function verdictWords(said, scale) {
  return said ? [meaning(said.sign, scale).glyph, " ", said.why ? `no verdict: ${said.why}` : meaning(said.sign, scale).word] : "–";
}

function changedCard(told, scales, names, served, ids) {
  const rows = told.moves.map((m) => [quoted("bdi", m.id), moveWords(m),
    verdictWords(m.was, scales[0]), el(m.flipped ? "b" : "span", null, verdictWords(m.now, scales[1])),
    el("span", null, m.was && m.flipped && m.was.reason && el("span.dim", null, "A: ", quoted("span", m.was.reason), " "), m.now && m.flipped && m.now.reason && el("span", null, "B: ", quoted("span", m.now.reason)))]);
  const lead = names[0];
  return el("article.card.pairing", { "data-trace": told.id },
    el("header", null, el(`span.flag.${told.change}`, null, CHANGES[told.change]), el("strong.query", { dir: "auto" }, told.q),
      el("span.facts", null, lead && el("span", null, `${lead} `, num(told.a.scores[lead]), " → ", el("b", null, num(told.b.scores[lead])), " ", el(`span.delta.${told.d[lead] > 1e-9 ? "up" : told.d[lead] < -1e-9 ? "down" : "even"}`, null, signed(told.d[lead]))), quoted("span.cid", told.id))),
    pairStrips(told, scales),
    el("details", null, el("summary", null, "Chunks and reasons"), table([{ name: "chunk" }, { name: "place" }, { name: "A" }, { name: "B" }, { name: "reasons" }], rows, { label: "chunks of both runs" }),
      served && el("p.chips", null, el("a", { href: `/runs/${ids[0]}#${encodeURIComponent(told.a.id)}` }, "trace in A"), el("a", { href: `/runs/${ids[1]}?baseline=${ids[0]}#${encodeURIComponent(told.id)}` }, "trace in B"))));
}

export async function comparePage(root, source, served) {
  const data = await source.page();
  const names = data.metrics.map((m) => m.name);
  const [a, b] = [data.a, data.b];
  const scales = [a.scale, b.scale];
  document.title = `${a.label || a.id.slice(0, 8)} against ${b.label || b.id.slice(0, 8)} · judge_eval`;
  let ids = null;
  const list = el("div.changed"), told = el("p.told", { role: "status" });
  const more = el("button.quiet", { type: "button", hidden: true, onclick: () => fill(false) }, "Show more");
  const clear = el("button.quiet", { type: "button", hidden: true, onclick: () => { ids = null; fill(true); } }, "Show all changed traces");
  const box = el("input", { type: "search", id: "filter", placeholder: "retrieval, verdicts, both, or text of the question", "aria-label": "Filter changed traces", autocomplete: "off", oninput: () => { clearTimeout(box.timer); box.timer = setTimeout(() => fill(true), 120); } });
  let turn = 0;
  async function fill(fresh) {
    const mine = ++turn;
    let answer;
    try {
      answer = await source.changed({ filter: box.value, ids, offset: fresh ? 0 : list.children.length, limit: 25 });
    } catch (error) {
      told.textContent = error.message;
      return;
    }
    if (mine !== turn) return;
    const cards = answer.rows.map((row) => changedCard(row, scales, names, served, [a.id, b.id]));
    if (fresh) list.replaceChildren(...cards);
    else list.append(...cards);
    told.textContent = answer.total ? count(answer.total, "changed trace") + (ids ? " at this point" : "") : ids ? "no changed trace at this point" : "no changed trace fits";
    more.hidden = list.children.length >= answer.total;
    clear.hidden = ids === null;
  }
  async function only(wanted) {
    ids = wanted;
    await fill(true);
    document.getElementById("changed").scrollIntoView({ block: "start" });
  }
  const columns = [{ name: "metric" }, { name: "A", right: true }, { name: "B", right: true }, { name: "difference", right: true }, { name: "95% interval" }, { name: "p", right: true }, { name: "p (Holm)", right: true }, { name: "wins", right: true }, { name: "ties", right: true }, { name: "losses", right: true }, { name: "n", right: true }, { name: "detectable", right: true }];
  const rows = data.metrics.map((m) => {
    const way = verdictOf(m.interval);
    return [m.name, num(m.baseline), num(m.candidate), el(`b.pairing.${way}`, null, { better: "▲ ", worse: "▼ " }[way] || "", signed(m.difference)), range(m.interval, 3, signed), pvalue(m.p), pvalue(m.p_holm), m.wins, m.ties, m.losses, m.n, num(m.detectable)];
  });
  const charts = el("div.columns");
  function draw(name) {
    charts.replaceChildren(
      el("section.panel", null, el("h3", null, `${name}: B against A`), scatter(data.points[name], name, (point) => only(point.ids)), el("p.dim", null, "Above the diagonal B is better. The larger the mark, the more traces. A mark, clicked, lists its changed traces.")),
      el("section.panel", null, el("h3", null, "Sorted differences"), ladderOf(data.differences[name], (id) => only([id])), el("p.dim", null, "One bar a trace", data.shown && " of those that moved most", ", candidate minus baseline.")));
  }
  const choose = names.length > 1 && el("p.choose", null, el("select", { "aria-label": "Metric of the charts", onchange: (event) => draw(event.target.value) }, names.map((n) => el("option", { value: n }, n))));
  if (names.length) draw(names[0]);
  const missing = [data.only_a && `${count(data.only_a, "trace")} only in A`, data.only_b && `${count(data.only_b, "trace")} only in B`].filter(Boolean);
  const changes = Object.entries(data.changes).filter(([name]) => name !== "same");
  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, el("h1", null, "Comparison"), el("p.sub", null, "Differences are B (candidate) minus A (baseline), over ", count(data.common, "trace"), " in common", missing.length ? `; ${missing.join(", ")}` : "", ".")),
    data.warnings.length > 0 && el("section.banner", { role: "note", "aria-label": "Warnings" }, el("h2", null, "⚠ A difference in scores may not come from the retriever"),
      el("p", null, "In brackets, “there” is A (the baseline) and “here” is B (the candidate)."),
      el("ul", null, data.warnings.map((text) => quoted("li", text)))),
    data.notes.map((text) => quoted("p.dim", text)),
    el("div.columns", null, side("A", a, served), side("B", b, served)),
    names.length ? table(columns, rows, { label: "paired comparison" }) : el("p.note", null, "The runs have no metric and trace in common."),
    el("p.dim", null, "p: randomisation test; Holm: the same, adjusted for all metrics shown. Detectable: the smallest true difference these traces would show with 80% power. Coloured only where the interval leaves 0 out."),
    choose, charts,
    el("section", { id: "changed" }, el("h2", null, "Changed traces"),
      data.shown && el("p.note.left", null, `This file holds the ${data.shown.n.toLocaleString("en")} changed traces that moved most, of ${data.shown.of.toLocaleString("en")}; all figures are of all traces.`),
      el("p.chips", null, changes.map(([name, n]) => el("span.chip", null, CHANGES[name] + " ", el("b", null, n))), el("span.chip", null, "same ", el("b", null, data.changes.same || 0))),
      legend(scales[1], true),
      el("p.legend", null, el("span", null, "lines join the same chunk: thin where it stayed, dashed where it moved, thick where its verdict flipped")),
      el("div.controls", null, box, clear), told, list, more)));
  await fill(true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") box.blur();
    if (typing(event)) return;
    const step = { j: 1, k: -1 }[event.key];
    if (event.key === "/") { event.preventDefault(); box.focus(); }
    if (!step) return;
    const cards = [...list.children];
    const now = cards.indexOf(document.activeElement.closest(".card"));
    const next = cards[Math.min(cards.length - 1, Math.max(0, now + step))];
    if (next) { next.tabIndex = -1; next.focus(); next.scrollIntoView({ block: "nearest" }); }
  });
  document.documentElement.dataset.ready = "true";
}
