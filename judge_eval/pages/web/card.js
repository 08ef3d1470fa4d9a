import { el, put, quoted, sentence, num, phrase, pieces, tagChip, wayOf, changeOf } from "./dom.js";
import { meaning, square, gradeWord } from "./draw.js";
import { clamped } from "./clamp.js";
import { codeIn } from "./code.js";
import { strips } from "./strips.js";
import { claimGrid } from "./claims.js";
import { labelling } from "./labelling.js";

const SHOWN = 20000;
const STEP = 200000;

// A text with its marked parts, every second one, and its code; a very long one is shown in part, with a button for more.
export function marked(parts, spec) {
  const node = el(spec, { dir: "auto" });
  const whole = parts.join(""), codes = spec === "pre" ? [] : codeIn(whole);
  let shown = 0;
  function write(holder, from, to) {
    let start = 0;
    for (const [i, part] of parts.entries()) {
      const piece = part.slice(Math.max(0, from - start), Math.max(0, to - start));
      if (piece) i % 2 ? holder.append(quoted("mark", piece)) : put(holder, piece);
      start += part.length;
    }
  }
  function draw(to) {
    const holder = document.createDocumentFragment();
    for (const [from, end, block] of codes) {
      if (end <= shown || from >= to) continue;
      write(holder, shown, Math.max(shown, from));
      const code = el(`code${block ? ".block" : ""}`, { dir: "ltr" });
      write(code, Math.max(shown, from), Math.min(to, end));
      holder.append(code);
      shown = Math.min(to, end);
    }
    write(holder, shown, to);
    shown = to;
    return holder;
  }
  node.append(draw(Math.min(SHOWN, whole.length)));
  if (shown === whole.length) return node;
  const left = () => whole.length - shown, label = () => phrase("card.more", { step: Math.min(STEP, left()), rest: left() });
  const more = el("button.quiet", { type: "button", onclick: () => {
    more.before(draw(Math.min(shown + STEP, whole.length)));
    if (left()) more.textContent = label();
    else more.remove();
  } }, label());
  node.append(more);
  return node;
}

function field(name, text, spec = "p.said") {
  return text === null || text === undefined || text === "" ? null
    : el("div.field", null, el("h3", null, name), marked([text], spec));
}

function callOf(call, systems) {
  if (call.same_as) return el("p.note", null, phrase("card.again", { rank: call.same_as }));
  const body = el("div.call");
  const details = el("details", null, el("summary", null, phrase("card.call"), call.route && [" (", quoted("bdi", call.route), ")"],
    " ", el("span.dim", null, phrase("card.tokens", { input: call.input_tokens, output: call.output_tokens }))), body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.childNodes.length) return;
    const rows = [["model", call.model || "unknown"], ["finish", call.finish], ["tokens", phrase("card.in_out", { input: call.input_tokens, output: call.output_tokens })], [phrase("card.key"), call.key]];
    if (call.request_id) rows.push([phrase("card.request"), call.request_id]);
    if (call.dropped.length) rows.push([phrase("card.dropped"), call.dropped.join(", ")]);
    body.append(el("dl.facts", null, rows.map(([name, value]) => [el("dt", null, name), el("dd", null, quoted("code", value))])));
    for (const [role, text] of call.prompt || []) {
      body.append(el("h4", null, phrase("card.prompt", { role })), marked([typeof text === "number" ? systems[text] : text], "pre"));
    }
    for (const asked of call.questions || []) {
      body.append(el("section", null, el("h4", null, pieces("card.question", { name: asked.name, chunks: quoted("bdi", asked.chunks.join(", ")) })),
        el("p.said", null, asked.text), asked.levels.length > 0 && el("ul", null, asked.levels.map((level) => el("li", null, level))),
        asked.data && marked([asked.data], "pre"), asked.answer !== null && el("p.answer", null, el("b", null, "answer: "), quoted("span", asked.answer))));
    }
    if (!call.prompt) body.append(el("p.note", null, phrase("card.no_prompt", { why: call.prompt_note || phrase("card.omitted") })));
    if (call.reply === null) body.append(el("p.note", null, phrase("card.no_reply", { why: call.reply_note || phrase("card.omitted") })));
    else body.append(el("h4", null, phrase("card.reply")), marked([call.reply], "pre"));
  });
  return details;
}

function cardOf(source, trace, chunk, scale, systems, again) {
  const sign = chunk.hidden ? "?" : chunk.why ? "!" : String(chunk.grade);
  const told = meaning(sign, scale);
  const word = chunk.why ? phrase("dom.why", { why: chunk.why }) : chunk.hidden ? phrase("card.hidden") : gradeWord(chunk.relevant, chunk.grade, scale);
  const rank = phrase("card.cell", { rank: chunk.rank, word });
  const facts = [
    chunk.score !== null && el("span", { title: phrase("card.score") }, "score ", el("b", null, num(chunk.score))),
    chunk.precision !== null && chunk.precision !== undefined && el("span", { title: phrase("card.precision", { rank: chunk.rank }) }, `P@${chunk.rank} `, el("b", null, num(chunk.precision))),
  ];
  if (typeof chunk.confidence === "number") facts.push(el("span", { title: phrase("card.probability_title") }, phrase("card.probability"), " ", el("b", null, num(chunk.confidence))));
  if (typeof chunk.expected_grade === "number" && scale && scale.maximum > 1) facts.push(el("span", { title: phrase("card.expected_title") }, phrase("card.expected"), " ", el("b", null, num(chunk.expected_grade))));
  if (chunk.share !== null && chunk.share !== undefined) {
    const fill = el("i");
    fill.style.width = `${Math.round(chunk.share * 1000) / 10}%`;
    facts.push(el("span.share", { title: phrase("card.adds") }, "adds ", el("b", null, num(chunk.share)), el("span.bar", { "aria-hidden": "true" }, fill)));
  }
  const flags = (chunk.notes || []).map((note) => sentence("div.warn", note));
  const human = chunk.label === null || chunk.label === undefined ? null
    : el(`span.human.${chunk.agrees === false ? "no" : "yes"}`, null,
      phrase(chunk.agrees === undefined ? "card.human" : chunk.agrees ? "card.agrees" : "card.disagrees", { label: chunk.label }));
  return el(`article.card.${told.kind}`, { id: `rank-${chunk.rank}`, "aria-label": chunk.stage ? phrase("card.by_stage", { rank, stage: chunk.stage }) : rank },
    el("header", null,
      el("span.rank", null, chunk.rank), square(sign, scale, chunk.agrees === false), el(`strong.word.${told.kind}`, null, word),
      chunk.stage && el(`span.chip.stage.${chunk.stage}`, { title: phrase("card.stage_title", { stage: chunk.stage }) }, phrase("dom.stage", { stage: chunk.stage })),
      !chunk.hidden && quoted("span.cid", chunk.id), wasAt(chunk), human, el("span.facts", null, facts)),
    chunk.title && el("h3.title", { dir: "auto" }, ...(chunk.title_marks || [chunk.title]).map((piece, i) => i % 2 ? quoted("mark", piece) : piece)),
    marked(chunk.text, "p.text"),
    flags,
    chunk.why ? el("p.reason", null, el("b", null, phrase("dom.happened")), sentence("span", chunk.detail || phrase("card.no_detail")))
      : chunk.no_reason ? el("p.reason.dim", null, chunk.no_reason)
        : chunk.reason && el("p.reason", null, el("b", null, "reason: "), sentence("span", chunk.reason)),
    labelling(source, trace, chunk, scale, again),
    (chunk.calls || []).map((call) => callOf(call, systems)));
}

function wasAt(chunk) {
  if (chunk.before === undefined) return null;
  const same = chunk.before === chunk.rank;
  return el(same ? "span.dim" : "span.chip", null, phrase(same ? "card.same_rank" : chunk.before === null ? "card.new" : "card.was", { rank: chunk.before }));
}

// A relevant chunk that the baseline retrieved and this run did not.
function goneCard(chunk) {
  return el("article.card.gone", { "aria-label": phrase("card.gone", { before: chunk.before }) },
    el("header", null, quoted("span.cid", chunk.id), el("span.chip", null, phrase("card.gone", { before: chunk.before }))),
    chunk.title && quoted("h3.title", chunk.title), marked([chunk.text], "p.text"));
}

// The cards of a trace; relevant chunks that stand lower than in the baseline, or are gone, first: a loss is made of them.
function cards(trace, card, heading) {
  const fell = trace.fell || [];
  const ranks = new Set(fell.map((chunk) => chunk.rank));
  const rest = trace.chunks.filter((chunk) => !ranks.has(chunk.rank));
  return [
    fell.length > 0 && el("h3.ranks", null, phrase("card.fell", { n: fell.length })),
    fell.map((chunk) => chunk.rank === null ? goneCard(chunk) : card(trace.chunks.find((each) => each.rank === chunk.rank))),
    (!fell.length || rest.length > 0) && el("h3.ranks", null, fell.length ? phrase("card.rest", { n: rest.length }) : heading),
    rest.map(card),
  ];
}

// One trace in full.
export function traceView(source, trace, scale, systems, again, back, cutoff, fewer) {
  const moved = (trace.row && trace.row.deltas) || {};
  const scores = Object.entries(trace.scores).map(([name, value]) => el("span.chip", null, name + " ", el("b", null, num(value)),
    wayOf(moved[name]) !== "even" && [" ", changeOf("span.delta", moved[name], wayOf(moved[name], fewer.has(name)), fewer.has(name), 3, phrase("card.change"))],
    value === null && trace.bounds[name] && [" ", phrase("card.between", { low: num(trace.bounds[name][0]), high: num(trace.bounds[name][1]) })]));
  const meta = Object.keys(trace.metadata || {}).length > 0;
  return el("div.trace", null,
    el("button.quiet.back", { type: "button", onclick: back }, phrase("card.all")),
    (trace.history || []).map((turn) => el("div.spoken", null, el("span.dim", null, phrase(turn.role === "user" ? "card.user" : "card.assistant")), clamped(quoted("p", turn.content), 6))),
    clamped(el("h2", { tabindex: "-1", id: "trace-title", dir: "auto" }, trace.query), 2),
    el("p.chips", null, el("a.chip.rid", { href: "#" + encodeURIComponent(trace.id), title: phrase("card.link") }, "# ", quoted("bdi", trace.id)),
      scores, trace.tags.map(tagChip),
      trace.relevant_total !== null && el("span.chip", null, phrase("card.pool", { n: trace.relevant_total }))),
    trace.row && trace.row.before !== null && trace.row.before !== undefined && strips(trace.row, scale, cutoff),
    field("Reference", trace.reference), field("Answer", trace.answer),
    meta && el("details", null, el("summary", null, "Metadata"), quoted("pre", JSON.stringify(trace.metadata, null, 2))),
    claimGrid(trace.claims, trace.chunks),
    cards(trace, (chunk) => cardOf(source, trace, chunk, scale, systems, again),
      trace.chunks.length ? phrase(source.sample ? "card.sampled" : "card.chunks", { n: trace.chunks.length }) : phrase("card.nothing")));
}
