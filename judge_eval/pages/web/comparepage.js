import { el, page, topBar, statusChip, quoted, sentence, link, num, signed, range, pvalue, phrase, failedNote, day, wayOf, changeOf, lessNote, table, typing, tagChip, plain, markup } from "./dom.js";
import { scatter, ladderOf, legend, meaning, square } from "./draw.js";
import { pairStrips } from "./strips.js";
import { EmbeddedCompare, ServedCompare } from "./source.js";
import { clamped } from "./clamp.js";
import { marked } from "./card.js";


function side(name, head, served) {
  const label = head.label || head.id.slice(0, 8);
  return el("section.panel.side", null,
    el("h2", null, el("span.letter", null, name), head.href ? link(label, head.href) : quoted("bdi", label)),
    el("p.chips", null, statusChip(head.status), head.tags.map(tagChip)),
    el("p.dim", null, quoted("bdi", head.dataset.name), ", ", quoted("bdi", head.model), head.prompt && [", ", quoted("bdi", head.prompt)], `, ${day(head.created)}`),
    failedNote(head),
    served && el("p", null, el("a", { href: `/runs/${head.id}` }, phrase("dom.open"))));
}

function moveWords(move) {
  const kind = move.a === null ? "new" : move.b === null ? "gone" : move.a === move.b ? "stayed" : "moved";
  return phrase(`comparepage.${kind}`, { a: move.a, b: move.b });
}

function verdictWords(said, scale) {
  return said ? [meaning(said.sign, scale).glyph, " ", said.why ? phrase("dom.why", { why: said.why }) : meaning(said.sign, scale).word] : "–";
}

function reasonOf(name, said) {
  if (said && said.no_reason) return el("p.reason.dim", null, name, said.no_reason);
  return said && said.reason ? clamped(el("p.reason", null, el("b", null, name, said.why ? phrase("dom.happened") : "reason: "), sentence("span", said.reason)), 3) : null;
}

// Which judge of a cascade said it, in A and in B where both had one.
function stagesOf(m) {
  const told = [m.was, m.now].map((said) => (said && said.stage ? phrase("dom.stage", { stage: said.stage }) : null));
  if (!told[0] && !told[1]) return null;
  return el("span.chip.stage", null, m.was && m.now && told[0] !== told[1] ? phrase("comparepage.stages", { a: told[0] || phrase("comparepage.no_stage"), b: told[1] || phrase("comparepage.no_stage") }) : told[1] || told[0]);
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
    marked(m.text, "div.snippet"),
    same || !m.was || !m.now ? reasonOf("", last) : [reasonOf("A, ", m.was), reasonOf("B, ", m.now)]);
}

const SOME_CHUNKS = 3;

function movedChunks(told, scales) {
  const list = el("ul.movedlist", { "aria-label": phrase("comparepage.moved_chunks") });
  const left = told.notable.map((place) => told.moves[place]);
  const draw = (n) => list.append(...left.splice(0, n).map((m) => movedChunk(m, scales)));
  draw(SOME_CHUNKS);
  const more = left.length > 0 && el("button.quiet", { type: "button", onclick: () => {
    const at = list.children.length;
    draw(left.length);
    more.remove();
    list.children[at].tabIndex = -1;
    list.children[at].focus();
  } }, phrase("comparepage.more", { n: left.length }));
  return told.notable.length ? [list, more] : el("p.note.left", null, told.same);
}

function changedCard(told, scales, lead, served, ids, words) {
  const rows = told.moves.map((m) => [quoted("bdi", m.id), moveWords(m), verdictWords(m.was, scales[0]), el(m.flipped ? "b" : "span", null, verdictWords(m.now, scales[1]))]);
  const delta = lead ? told.deltas[lead.name] : undefined;
  return el("article.card.pairing", { "data-trace": told.id },
    el("header", null, el(`span.flag.${told.change}`, null, words[told.change]),
      el("span.facts", null, lead && el("span", null, `${lead.name} `, num(told.a.scores[lead.name]), " → ", el("b", null, num(told.b.scores[lead.name])), " ", changeOf("span.delta", delta, wayOf(delta, lead.less_is_better), lead.less_is_better)), quoted("span.cid", told.id))),
    clamped(quoted("h3.query", told.query), 2),
    pairStrips(told, scales, lead ? lead.cutoff : null),
    markup(told.claims),
    movedChunks(told, scales),
    el("details", null, el("summary", null, phrase("comparepage.all", { n: told.moves.length })), table([{ name: "chunk" }, { name: "place" }, { name: "A" }, { name: "B" }], rows, { label: phrase("comparepage.chunks", { id: plain(told.id) }) }),
      served && el("p.chips", null, el("a", { href: `/runs/${ids[0]}#${encodeURIComponent(told.a.id)}` }, phrase("comparepage.trace", { side: "A" })), el("a", { href: `/runs/${ids[1]}?baseline=${ids[0]}#${encodeURIComponent(told.id)}` }, phrase("comparepage.trace", { side: "B" })))));
}

const ORDERS = [["change", "comparepage.lost"], ["-change", "comparepage.won"], ["order", "dom.order"]];

export async function comparePage(root, source, served) {
  const data = await source.page();
  const names = data.metrics.map((m) => m.name);
  const [a, b] = [data.a, data.b];
  const scales = [a.scale, b.scale];
  const [nameA, nameB] = [a, b].map((head) => head.label || head.id.slice(0, 8));
  document.title = phrase("comparepage.title", { a: nameA, b: nameB });
  let ids = null, lead = data.metrics[0] || null;
  const list = el("div.changed"), told = el("p.told", { role: "status" });
  const more = el("button.quiet", { type: "button", hidden: true, onclick: () => fill(false) }, phrase("dom.more"));
  const clear = el("button.quiet", { type: "button", hidden: true, onclick: () => { ids = null; fill(true); } }, phrase("comparepage.clear"));
  const box = el("input", { type: "search", id: "filter", placeholder: phrase("comparepage.place"), "aria-label": phrase("comparepage.search"), autocomplete: "off", oninput: () => { clearTimeout(box.timer); turn++; box.timer = setTimeout(() => fill(true), 120); } });
  const order = el("select", { id: "order", "aria-label": phrase("comparepage.sort"), onchange: () => fill(true) }, ORDERS.map(([value, name]) => el("option", { value }, phrase(name))));
  const which = el("select", { id: "metric", "aria-label": phrase("comparepage.metric"), hidden: names.length < 2, onchange: () => { lead = data.metrics.find((m) => m.name === which.value); draw(); fill(true); } },
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
    const cards = answer.rows.map((row) => changedCard(row, scales, lead, served, [a.id, b.id], data.words));
    if (fresh) list.replaceChildren(...cards);
    else list.append(...cards);
    told.textContent = phrase(answer.total ? (ids ? "comparepage.here" : "comparepage.told") : ids ? "comparepage.none_here" : "comparepage.none", { n: answer.total });
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
  const chartsBox = el("details.charts", { ontoggle: () => draw() }, el("summary", null, phrase("comparepage.charts")), charts);
  function draw() { // once they are looked at
    if (!chartsBox.open) return;
    charts.replaceChildren(
      el("section.panel", null, el("h3", null, phrase("comparepage.versus", { name: lead.name })), scatter(data.points[lead.name], lead.name, lead.less_is_better, (point) => only(point.ids)), el("p.dim", null, data.sentences.better[lead.name])),
      el("section.panel", null, el("h3", null, phrase("comparepage.differences")), ladderOf(data.differences[lead.name], lead.less_is_better, (id) => only([id])), el("p.dim", null, data.sentences.ladder)));
  }
  const key = legend(scales[1], true, data.metrics.some((m) => m.cutoff));
  const changes = Object.entries(data.changes).filter(([name]) => name !== "same");
  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, el("p.kicker", null, el("span.letter", null, "B"), quoted("bdi", nameB), " against ", el("span.letter", null, "A"), quoted("bdi", nameA)),
      data.opening ? sentence(`h1.opening.${data.opening.finding}`, data.opening.split || data.opening.sentence) : el("h1", null, phrase("comparepage.nothing")),
      data.opening && data.opening.split && sentence("p.whose", data.opening.sentence),
      el("p.sub", null, data.sentences.scope)),
    data.warnings.length > 0 && el("section.banner.late", { role: "note", "aria-label": "Warnings" }, el("h2", null, `⚠ ${data.sentences.doubt}`),
      el("p", null, data.sentences.sides),
      el("ul", null, data.warnings.map((text) => sentence("li", text)))),
    names.length ? el("div.first", null, table(columns, rows, { label: phrase("comparepage.table") })) : el("p.note", null, data.sentences.nothing),
    markup(data.whose),
    data.read && el("section", { id: "read" }, markup(data.read)),
    el("details.about", null, el("summary", null, phrase("comparepage.sides")),
      el("div.help", null, el("dl", null, data.sentences.columns.map(([name, text]) => [el("dt", null, name), el("dd", null, text)]))),
      data.notes.map((text) => sentence("p.dim", text)),
      el("div.columns", null, side("A", a, served), side("B", b, served))),
    data.claims && el("section", { id: "claims", "aria-label": phrase("comparepage.claims") }, el("h2", null, phrase("comparepage.claims")), markup(data.claims)),
    data.slices && el("details", { id: "slices" }, el("summary", null, phrase("dom.slices")), markup(data.slices)),
    el("section", { id: "changed" }, el("h2", null, phrase("comparepage.heading")),
      data.sentences.part && el("p.note.left", null, data.sentences.part),
      el("p.chips", null, changes.map(([name, n]) => el("span.chip", null, data.words[name] + " ", el("b", null, n))), el("span.chip", null, "same ", el("b", null, data.changes.same || 0))),
      el("div.controls", null, box, order, which, clear),
      lead && chartsBox,
      key, told, list, more)));
  key.append(el("span", null, data.sentences.strips));
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

page("compare", (root, data) => {
  const query = new URLSearchParams(location.search);
  return comparePage(root, data ? new EmbeddedCompare(data) : new ServedCompare(query.get("a"), query.get("b")), !data);
});
