import { el, quoted, sentence, phrase, pieces, day } from "./dom.js";

// Which run this one is held against: what that shows, and a choice of others where there is a server.
export function againstWhat(source, data, served) {
  const before = data.baseline;
  const name = before && (before.label || before.id.slice(0, 8));
  const choice = served && picker(source, before);
  if (!before && !choice && !data.problem) return null;
  return el("section.versus.first", { "aria-label": "Baseline" },
    data.opening && sentence(`p.opening.${data.opening.finding}`, data.opening.split || data.opening.sentence),
    data.opening && data.opening.split && sentence("p.whose", data.opening.sentence),
    data.opening && data.opening.warnings.length > 0 && el("details.doubts", null,
      el("summary", null, phrase("baselines.doubts", { n: data.opening.warnings.length })),
      el("p.dim", null, phrase("baselines.sides")), el("ul", null, data.opening.warnings.map((text) => sentence("li", text)))),
    data.problem && el("p.badtext", null, sentence("span", data.problem)),
    el("p.against", null,
      before ? el("span", null, pieces("baselines.against", { name: quoted("b", name) }), " ", el("span.dim", null, phrase("baselines.details", { day: day(before.created), traces: phrase("dom.traces", { n: before.traces }) }))) : null,
      before && served && el("a", { href: `/compare?a=${encodeURIComponent(before.id)}&b=${encodeURIComponent(data.head.id)}` }, phrase("baselines.pair")),
      choice));
}

function picker(source, before) {
  const select = el("select", { id: "baseline", onchange: () => {
    const asked = new URLSearchParams(location.search);
    asked.set("baseline", select.value);
    location.assign(`${location.pathname}?${asked}`);
  } });
  const label = (run) => `${run.label || run.id.slice(0, 8)}, ${day(run.created)}`;
  const option = (run, chosen) => el("option", { value: run.id, selected: chosen, dir: "auto" }, label(run));
  select.append(el("option", { value: "none" }, phrase("baselines.none")));
  if (before) select.append(option(before, true));
  source.baselines().then((runs) => {
    const rest = runs.filter((run) => !before || run.id !== before.id);
    for (const [title, same] of [[phrase("baselines.same"), true], [phrase("baselines.other"), false]]) {
      const found = rest.filter((run) => run.same === same);
      if (found.length) select.append(el("optgroup", { label: title }, found.map((run) => option(run, false))));
    }
  }).catch(() => { /* the page stands without the choice */ });
  return el("label.pick", null, el("span", null, "Baseline "), select);
}
