import { el, quoted, sentence, phrase, table } from "./dom.js";
import { gradesOf } from "./draw.js";

const KEPT = "judge_eval.name";

// The name under which labels are given; the browser keeps it.
export function keptName() {
  try { return localStorage.getItem(KEPT) || ""; } catch { return ""; }
}

export function nameBox(source, changed) {
  return el("label.check", { title: phrase("labelling.name_title") }, phrase("labelling.name"), " ",
    el("input", { type: "text", id: "person", size: "10", maxlength: "200", autocomplete: "name", value: source.by, onchange: (event) => {
      source.by = event.target.value.trim();
      try { localStorage.setItem(KEPT, source.by); } catch { /* not allowed here */ }
      changed();
    } }));
}

function said(label) {
  const who = label.final ? phrase("labelling.decided", { by: label.by }) : label.by || phrase("labelling.nobody");
  return el("li", null, el("b", null, quoted("bdi", who), ": ", label.label), label.comment && [" – ", quoted("span", label.comment)]);
}

// A grade in the scale's own words; without them whether it counts as relevant.
function buttonText(grade, scale) {
  const word = (scale && scale.levels && scale.levels[grade - (scale.minimum || 0)]) || phrase(grade >= (scale ? scale.relevant : 1) ? "draw.relevant" : "draw.irrelevant");
  return scale && (scale.levels || scale.maximum > 1) ? phrase("labelling.grade", { grade, word }) : word;
}

// What people say of a chunk, the buttons of one's own label, and of a decision where people differ.
export function labelling(source, trace, chunk, scale, again) {
  if (!source.canLabel) return null;
  const people = chunk.people || [];
  const own = people.find((label) => label.by === source.by && !label.final);
  const decision = people.find((label) => label.final);
  const told = el("span.dim", { role: "status" });
  const comment = el("input.comment", { type: "text", maxlength: "2000", value: own ? own.comment : "", placeholder: phrase("labelling.comment"),
    "aria-label": phrase("labelling.comment_on", { rank: chunk.rank }), onchange: () => own && give(own.label) });
  const give = async (grade, final = false) => {
    if (!source.by) {
      told.textContent = phrase("labelling.nameless");
      document.getElementById("person")?.focus();
      return;
    }
    try {
      await source.label(trace.id, chunk.id, grade, comment.value, final);
      again(chunk.rank);
    } catch (error) {
      told.textContent = error.message;
    }
  };
  const buttons = (current, final) => [
    gradesOf(scale).map((grade) => el("button.quiet", { type: "button", "aria-pressed": String(Boolean(current) && current.label === grade), onclick: () => give(grade, final) },
      buttonText(grade, scale))),
    current && el("button.quiet", { type: "button", onclick: () => give(null, final) }, "clear")];
  const differ = new Set(people.filter((label) => !label.final).map((label) => label.label)).size > 1;
  const group = (title, where, current, final) => el("div.labelling", { role: "group", "aria-label": where },
    el("span.dim", null, title), buttons(current, final), !final && [comment, told]);
  return [
    people.some((label) => label !== own) && el("ul.people", { "aria-label": phrase("labelling.people_rank", { rank: chunk.rank }) }, people.map(said)),
    group(phrase("labelling.own"), phrase("labelling.own_rank", { rank: chunk.rank }), own, false),
    (differ || decision) && group(phrase("labelling.decide"), phrase("labelling.decide_rank", { rank: chunk.rank }), decision, true)];
}

// How far people agree, and the chunks on which they differ, to be decided.
export function peopleTab(source) {
  const box = el("div.people", { "aria-busy": "true" });
  source.people().then((told) => {
    box.replaceChildren(...[
      el("p", null, told.people.length ? told.people.map((one) => phrase("labelling.count", { by: one.by, n: one.n })).join("; ") : phrase("labelling.none")),
      told.pairs.length > 0 && el("ul", null, told.pairs.map((text) => sentence("li", text))),
      el("h3", null, phrase("labelling.differing", { n: told.differing.length })),
      told.differing.length > 0 && table([{ name: "trace" }, { name: "chunk" }, { name: "labels" }, { name: "decided" }],
        told.differing.map((one) => [el("a", { href: "#" + encodeURIComponent(one.trace) }, quoted("bdi", one.trace)), quoted("bdi", one.chunk),
          el("ul.people", null, one.labels.map(said)), one.decided ? "yes" : "no"]), { label: phrase("labelling.table") }),
    ].filter(Boolean));
    box.setAttribute("aria-busy", "false");
  }, (error) => box.replaceChildren(el("p.warn", { role: "alert" }, error.message)));
  return box;
}
