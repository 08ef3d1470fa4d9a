import { el, quoted, link, num, signed, range, pvalue, count, day, wayOf, changeOf, lessNote, table, typing, tagChip } from "./dom.js";
import { scatter, ladderOf, legend, meaning, square } from "./draw.js";
import { pairStrips } from "./strips.js";
import { clamped } from "./clamp.js";
import { changedClaims, movedClaims } from "./claims.js";
import { topBar, statusChip } from "./runpage.js";

const CHANGES = { retrieval: "retrieval changed", verdicts: "verdict flipped", both: "retrieval and verdict", claims: "claim won or lost", scores: "only the scores" };

function side(name, head, served) {
  const label = head.label || head.id.slice(0, 8);
  return el("section.panel.side", null,
    el("h2", null, el("span.letter", null, name), head.href ? link(label, head.href) : quoted("bdi", label)),
    el("p.chips", null, statusChip(head.status), head.tags.map(tagChip)),
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

function reasonOf(name, said) {
  if (said && said.no_reason) return el("p.reason.dim", null, name, said.no_reason);
  return said && said.reason ? clamped(el("p.reason", null, el("b", null, said.why ? `${name}what happened: ` : `${name}reason: `), quoted("span", said.reason)), 3) : null;
}

// Which judge of a cascade said it, in A and in B where both had one.
function stagesOf(m) {
  const told = [m.was, m.now].map((said) => (said && said.stage ? `${said.stage} judge` : null));
  if (!told[0] && !told[1]) return null;
  return el("span.chip.stage", null, m.was && m.now && told[0] !== told[1] ? `A: ${told[0] || "no cascade"}, B: ${told[1] || "no cascade"}` : told[1] || told[0]);
}

// A chunk that moved, came, went or got another verdict: what it says, and why the judge said so.
function movedChunk(m, scales) {
  const last = m.now || m.was, scale = m.now ? scales[1] : scales[0];
  const same = m.was && m.now && m.was.reason === m.now.reason && m.was.no_reason === m.now.no_reason && m.was.sign === m.now.sign;
  return el(`li.moved${m.flipped ? ".flipped" : ""}`, null,
    el("p.place", null, m.flipped ? [square(m.was.sign, scales[0]), " → ", square(m.now.sign, scales[1])] : square(last.sign, scale),
      " ", el("b", null, moveWords(m)), " ",
      el("span", null, m.flipped ? [verdictWords(m.was, scales[0]).slice(1), " → ", verdictWords(m.now, scales[1]).slice(1)] : verdictWords(last, scale).slice(1)),
      quoted("span.cid", m.id), stagesOf(m)),
    m.title && quoted("p.snippet.named", m.title),
    el("p.snippet", { dir: "auto" }, m.text.map((piece, i) => i % 2 ? quoted("mark", piece) : piece)),
    same || !m.was || !m.now ? reasonOf("", last) : [reasonOf("A, ", m.was), reasonOf("B, ", m.now)]);
}

const SOME_CHUNKS = 3;

function movedChunks(told, scales) {
  const list = el("ul.movedlist", { "aria-label": "chunks that moved or changed" });
  const left = told.notable.map((place) => told.moves[place]);
  const draw = (n) => list.append(...left.splice(0, n).map((m) => movedChunk(m, scales)));
  draw(SOME_CHUNKS);
  const more = left.length > 0 && el("button.quiet", { type: "button", onclick: () => {
    const at = list.children.length;
    draw(left.length);
    more.remove();
    list.children[at].tabIndex = -1;
    list.children[at].focus();
  } }, `Show ${count(left.length, "more chunk")} that moved or changed`);
  return told.notable.length ? [list, more] : el("p.note.left", null, `The same chunks with the same verdicts; only ${told.change === "claims" ? "claims" : "the scores"} differ.`);
}

function changedCard(told, scales, lead, served, ids) {
  const rows = told.moves.map((m) => [quoted("bdi", m.id), moveWords(m), verdictWords(m.was, scales[0]), el(m.flipped ? "b" : "span", null, verdictWords(m.now, scales[1]))]);
  const delta = lead ? told.d[lead.name] : undefined;
  return el("article.card.pairing", { "data-trace": told.id },
    el("header", null, el(`span.flag.${told.change}`, null, CHANGES[told.change]),
      el("span.facts", null, lead && el("span", null, `${lead.name} `, num(told.a.scores[lead.name]), " → ", el("b", null, num(told.b.scores[lead.name])), " ", changeOf("span.delta", delta, wayOf(delta, lead.less_is_better), lead.less_is_better)), quoted("span.cid", told.id))),
    clamped(quoted("h3.query", told.q), 2),
    pairStrips(told, scales, lead ? lead.cutoff : null),
    told.claims.length > 0 && changedClaims(told.claims, told.id),
    movedChunks(told, scales),
    el("details", null, el("summary", null, `All ${count(told.moves.length, "chunk")}`), table([{ name: "chunk" }, { name: "place" }, { name: "A" }, { name: "B" }], rows, { label: "chunks of both runs" }),
      served && el("p.chips", null, el("a", { href: `/runs/${ids[0]}#${encodeURIComponent(told.a.id)}` }, "trace in A"), el("a", { href: `/runs/${ids[1]}?baseline=${ids[0]}#${encodeURIComponent(told.id)}` }, "trace in B"))));
}

const ORDERS = [["change", "largest loss first"], ["-change", "largest gain first"], ["order", "dataset order"]];

export async function comparePage(root, source, served) {
  const data = await source.page();
  const names = data.metrics.map((m) => m.name);
  const [a, b] = [data.a, data.b];
  const scales = [a.scale, b.scale];
  const [nameA, nameB] = [a, b].map((head) => head.label || head.id.slice(0, 8));
  document.title = `${nameB} against ${nameA} · judge_eval`;
  let ids = null, lead = data.metrics[0] || null;
  const list = el("div.changed"), told = el("p.told", { role: "status" });
  const more = el("button.quiet", { type: "button", hidden: true, onclick: () => fill(false) }, "Show more");
  const clear = el("button.quiet", { type: "button", hidden: true, onclick: () => { ids = null; fill(true); } }, "Show all changed traces");
  const box = el("input", { type: "search", id: "filter", placeholder: "retrieval, verdicts, both, claims, or text of the question", "aria-label": "Filter changed traces", autocomplete: "off", oninput: () => { clearTimeout(box.timer); box.timer = setTimeout(() => fill(true), 120); } });
  const order = el("select", { id: "order", "aria-label": "Sort changed traces", onchange: () => fill(true) }, ORDERS.map(([value, text]) => el("option", { value }, text)));
  const which = el("select", { id: "metric", "aria-label": "Metric of the changed traces and the charts", hidden: names.length < 2, onchange: () => { lead = data.metrics.find((m) => m.name === which.value); draw(); fill(true); } },
    names.map((name) => el("option", { value: name }, name)));
  let turn = 0;
  async function fill(fresh) {
    const mine = ++turn;
    let answer;
    try {
      answer = await source.changed({ filter: box.value, ids, sort: order.value, metric: lead ? lead.name : null, offset: fresh ? 0 : list.children.length, limit: 25 });
    } catch (error) {
      told.textContent = error.message;
      return;
    }
    if (mine !== turn) return;
    const cards = answer.rows.map((row) => changedCard(row, scales, lead, served, [a.id, b.id]));
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
    return [el("span.whole", null, m.name, lessNote(m)), num(m.baseline), num(m.candidate), changeOf("b.pairing", m.difference, m.way, m.less_is_better), el("span.whole", null, range(m.interval, 3, signed)), pvalue(m.p), pvalue(m.p_holm), m.wins, m.ties, m.losses, m.n, num(m.detectable)];
  });
  const charts = el("div.columns");
  const chartsBox = el("details.charts", { ontoggle: () => draw() }, el("summary", null, "Charts: every trace in A and B"), charts);
  function draw() { // once they are looked at
    if (!chartsBox.open) return;
    charts.replaceChildren(
      el("section.panel", null, el("h3", null, `${lead.name}: B against A`), scatter(data.points[lead.name], lead.name, lead.less_is_better, (point) => only(point.ids)), el("p.dim", null, `${lead.less_is_better ? "Below" : "Above"} the diagonal B is better. The larger the mark, the more traces. A mark, clicked, lists its changed traces.`)),
      el("section.panel", null, el("h3", null, "Sorted differences"), ladderOf(data.differences[lead.name], lead.less_is_better, (id) => only([id])), el("p.dim", null, "One bar a trace", data.shown && " of those that moved most", ", candidate minus baseline.")));
  }
  const key = legend(scales[1], true, data.metrics.some((m) => m.cutoff));
  const missing = [data.only_a && `${count(data.only_a, "trace")} only in A`, data.only_b && `${count(data.only_b, "trace")} only in B`].filter(Boolean);
  const changes = Object.entries(data.changes).filter(([name]) => name !== "same");
  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, el("p.kicker", null, el("span.letter", null, "B"), quoted("bdi", nameB), " against ", el("span.letter", null, "A"), quoted("bdi", nameA)),
      data.opening ? el(`h1.opening.${data.opening.finding}`, null, data.opening.sentence) : el("h1", null, "Nothing to compare"),
      el("p.sub", null, "Differences are B (candidate) minus A (baseline), over ", count(data.common, "trace"), " in common", missing.length ? `; ${missing.join(", ")}` : "", ".")),
    data.warnings.length > 0 && el("section.banner", { role: "note", "aria-label": "Warnings" }, el("h2", null, "⚠ A difference in scores may not come from the retriever"),
      el("p", null, "In brackets, “there” is A (the baseline) and “here” is B (the candidate)."),
      el("ul", null, data.warnings.map((text) => quoted("li", text)))),
    names.length ? table(columns, rows, { label: "paired comparison" }) : el("p.note", null, "The runs have no metric and trace in common."),
    el("details.about", null, el("summary", null, "The runs, and what the columns mean"),
      el("p.dim", null, "p: randomisation test; Holm: the same, adjusted for all metrics shown. Detectable: the smallest true difference these traces would show with 80% power. Coloured only where the interval leaves 0 out."),
      data.notes.map((text) => quoted("p.dim", text)),
      el("div.columns", null, side("A", a, served), side("B", b, served))),
    data.claims && movedClaims(data.claims),
    el("section", { id: "changed" }, el("h2", null, "Changed traces"),
      data.shown && el("p.note.left", null, `This file holds the ${data.shown.n.toLocaleString("en")} changed traces that moved most, of ${data.shown.of.toLocaleString("en")}; all figures are of all traces.`),
      el("p.chips", null, changes.map(([name, n]) => el("span.chip", null, CHANGES[name] + " ", el("b", null, n))), el("span.chip", null, "same ", el("b", null, data.changes.same || 0))),
      el("div.controls", null, box, order, which, clear),
      lead && chartsBox,
      key, told, list, more)));
  key.append(el("span", null, "lines join the same chunk: thin where it stayed, dashed where it moved, thick where its verdict flipped"));
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
