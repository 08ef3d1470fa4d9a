import { el, page, statusChip, topBar, link, quoted, sentence, num, shownMean, signed, range, pvalue, phrase, pieces, day, changeOf, table, tabs, themeButton, typing, tagChip, markup } from "./dom.js";
import { whisker, histogram } from "./draw.js";
import { disagreements, failures, provenance } from "./runtabs.js";
import { TraceList } from "./traces.js";
import { againstWhat } from "./baselines.js";
import { traceView } from "./card.js";
import { keptName, nameBox, peopleTab } from "./labelling.js";
import { EmbeddedRun, ServedRun } from "./source.js";

function stat(name, value, kind = "") {
  return el("div.stat" + (kind ? "." + kind : ""), null, el("dt", null, name), el("dd", null, value));
}

export function headOf(head) {
  const counted = head.verdicts !== undefined; // not while a run is judged, and not before a blind label
  return el("header.head", null,
    el("div.title", null, el("h1", null, head.href ? link(head.label || head.id.slice(0, 8), head.href) : quoted("bdi", head.label || head.id.slice(0, 8))),
      statusChip(head.status), head.tags.map(tagChip)),
    el("p.sub", null, pieces(head.imported ? "runpage.plain" : head.prompt ? "runpage.judged_with" : "runpage.judged", {
      data: el("span", null, quoted("bdi", head.dataset.name), head.dataset.digest && el("code", { title: phrase("runpage.digest", { digest: head.dataset.digest }) }, head.dataset.digest.slice(0, 12))),
      source: quoted("bdi", head.imported), judge: quoted("bdi", head.model), prompt: quoted("bdi", head.prompt), day: day(head.created) })),
    counted && el("dl.stats", null, head.figures.map((figure) => stat(figure.name, figure.text, figure.bad ? "bad" : ""))));
}

function remarksOf(head) {
  return head.remarks && head.remarks.length > 0 && el("ul.remarks.late", { "aria-label": "Remarks" },
    head.remarks.map((remark) => sentence(`li.${remark.tone}`, remark.text.endsWith("?") ? remark.text : remark.text + ".")));
}

function metricCard(metric, baseline) {
  const pair = metric.pair;
  return el("div.metric", { title: metric.definition },
    el("div.top", null, el("h2", null, metric.name), el("p.dim", null, `n = ${metric.n + (metric.n_expected || 0)}`)),
    el("div.top.mean", null, el("p.big", null, shownMean(metric)), el("p.interval", null, range(metric.interval))),
    whisker(metric.mean, metric.interval, pair ? pair.baseline : null),
    (metric.notes || []).map((note) => el(note.tone === "bad" ? "p.dim.badtext" : "p.dim", { title: note.title }, note.text)),
    baseline && (pair
      ? el(`p.pairing.${pair.way}`, { title: phrase("runpage.p", { p: pvalue(pair.p), n: pair.n }) }, changeOf("b", pair.difference, pair.way, metric.less_is_better), " ", phrase("runpage.baseline"), el("br"), range(pair.interval, 3, signed))
      : el("p.dim", null, phrase("runpage.unpaired"))));
}

const SOME_TAGS = 8;
const SOME_METRICS = 5; // a row of cards: the traces begin below it

function figures(data, list) {
  const panel = el("div.columns");
  let metric = data.metrics[0].name, allTags = false;
  const choose = el("select", { "aria-label": phrase("runpage.choose"), hidden: data.metrics.length < 2, onchange: (event) => { metric = event.target.value; draw(); choose.focus(); } },
    data.metrics.map((m) => el("option", { value: m.name }, m.name)));
  const chart = el("section.panel"), tags = el("section.panel"), slices = el("details", { id: "slices" });
  function draw() {
    const told = data.histograms[metric];
    const pick = (low, high, last) => list.setFilter(`${metric}>=${+low.toFixed(4)} ${metric}${last ? "<=" : "<"}${+high.toFixed(4)}`);
    chart.replaceChildren(el("div.heading", null, el("h3", null, phrase("runpage.per_trace", { name: metric })), choose), histogram(told, metric, pick),
      el("p.dim", null, told.missing > 0 && [phrase("runpage.missing", { traces: phrase("dom.traces", { n: told.missing }) }), " "], phrase("runpage.click")));
    const rows = data.by_tag[metric].slice(0, allTags ? undefined : SOME_TAGS);
    const rest = data.by_tag[metric].length - rows.length;
    tags.hidden = !rows.length; // an empty card is not drawn
    chart.hidden = !told.counts.some((n) => n > 0) && data.metrics.length < 2;
    panel.classList.toggle("single", tags.hidden || chart.hidden);
    tags.replaceChildren(el("h3", null, phrase("runpage.by_tag", { name: metric })),
      table([{ name: "tag" }, { name: "mean", right: true }, { name: "95% interval" }, { name: "" }, { name: "n", right: true }],
        rows.map((r) => [el("button.linkish", { type: "button", onclick: () => list.setFilter(/\s/.test(r.tag) ? `tag:"${r.tag}"` : `tag:${r.tag}`) }, quoted("bdi", r.tag)), num(r.value), el("span.whole", null, range(r.interval)), whisker(r.value, r.interval), r.n]), { label: phrase("runpage.by_tag", { name: metric }) }),
    rest > 0 && el("p", null, el("button.quiet", { type: "button", onclick: () => { allTags = true; draw(); tags.querySelector("button")?.focus(); } }, phrase("runpage.tags", { n: rest }))) || "");
    const sliced = data.slices[metric];
    slices.replaceChildren(...(sliced ? [el("summary", null, phrase("dom.slices")), markup(sliced)] : []));
    slices.hidden = !sliced;
  }
  draw();
  panel.append(chart, tags);
  return [panel, slices];
}

export async function runPage(root, source, served) {
  delete document.documentElement.dataset.ready; // until it is drawn, anew too
  const data = await source.page();
  const name = data.head.label || data.head.id.slice(0, 8);
  document.title = `${name} · judge_eval`;
  const detail = el("div.detail", { "aria-label": "Trace", role: "region" });
  const split = el("div.split");
  const scale = data.head.scale;
  const ended = new AbortController(); // ends what listens, where the page is drawn anew
  const figured = !data.live && !data.blind;
  let shown = null;

  async function show(id, rank, focus, scroll = true) {
    shown = id;
    split.classList.add("open");
    detail.setAttribute("aria-busy", "true");
    let view;
    try {
      const trace = await source.trace(id);
      if (shown !== id) return;
      const again = async (at) => { await list.refresh(); show(id, 0, false, false).then(() => document.querySelector(`#rank-${at} .labelling button`)?.focus()); };
      view = trace ? traceView(source, trace, scale, await source.systems(), again, close, list.cutoff, list.fewer)
        : el("p.note", null, pieces("runpage.no_trace", { id: quoted("code", id) }));
    } catch (error) {
      view = el("p.warn", { role: "alert" }, error.message);
    }
    detail.replaceChildren(view);
    detail.setAttribute("aria-busy", "false");
    if (rank) document.getElementById(`rank-${rank}`)?.scrollIntoView({ block: "center" });
    else if (scroll) {
      const top = detail.getBoundingClientRect().top;
      if (top < 0 || top > innerHeight * 0.6) detail.scrollIntoView({ block: "start" });
    }
    if (focus) document.getElementById("trace-title")?.focus({ preventScroll: true });
  }
  function close() {
    split.classList.remove("open");
    list.mark(true);
  }
  const list = new TraceList(source, data, (id) => {
    if (id === null) { // the filter leaves none
      shown = null;
      detail.replaceChildren();
      return;
    }
    history.replaceState(null, "", "#" + encodeURIComponent(id));
    show(id, 0, false);
  });

  function tracesTab() {
    split.append(list.node, detail);
    return source.sample ? el("div", null, list.told, split) : split; // how far one is, beside a trace too
  }
  const told = tabs([
    { name: "traces", title: "Traces", badge: data.live || source.sample ? undefined : data.head.traces, draw: tracesTab },
    figured && data.claims && { name: "claims", title: "Claims", badge: data.claims.count, draw: () => el("div.missed", null, (data.opening ? data.opening.claims : []).map((text) => el("p.told", null, pieces("runpage.change", { text: sentence("span", text) }))), markup(data.claims.html)) },
    ...(figured && data.parts || []).map((part) => ({ name: part.title.toLowerCase(), title: part.title, draw: () => el("div.missed", null, markup(part.html)) })),
    figured && { name: "disagreements", title: "Disagreements", badge: data.agreement ? data.agreement.count : undefined, draw: () => disagreements(data.agreement, source) },
    figured && served && { name: "people", title: phrase("runpage.people"), draw: () => peopleTab(source) },
    figured && { name: "failures", title: "Failures", badge: data.failures.count, draw: () => failures(data.failures) },
    { name: "provenance", title: "Provenance", draw: () => provenance(data.provenance) },
  ].filter(Boolean), "traces", (tab) => history.replaceState(null, "", tab === "traces" ? "#" : "#/" + tab));

  async function follow() {
    const hash = location.hash.slice(1);
    if (hash.startsWith("/")) {
      if (document.getElementById(`tab-${hash.slice(1)}`)) told.pick(hash.slice(1));
      return;
    }
    if (!hash) return;
    let id = hash, rank = 0;
    const place = /^(.*?)(?:@(\d+))?$/s.exec(hash); // an @ inside an id is written %40
    try { id = decodeURIComponent(place[1]); } catch { id = place[1]; }
    if (place[2]) rank = Number(place[2]);
    told.pick("traces");
    if (list.chosen !== id) {
      list.chosen = id;
      list.refresh(id).then(() => { if (list.at < 0 && list.box.value) list.setFilter(""); });
    }
    await show(id, rank, !list.node.contains(document.activeElement));
  }

  const blind = served && el("label.check", { title: phrase("runpage.blind_title") },
    el("input", { type: "checkbox", id: "blind", checked: source.blind, onchange: async (event) => {
      source.blind = event.target.checked;
      const asked = new URLSearchParams(location.search);
      if (source.blind) asked.set("blind", "1");
      else asked.delete("blind");
      history.replaceState(null, "", location.pathname + (asked.size ? `?${asked}` : "") + location.hash);
      ended.abort();
      await runPage(root, source, served);
      document.getElementById("blind")?.focus();
    } }), " ", phrase("runpage.blind"));
  const person = served && nameBox(source, async () => {
    ended.abort();
    await runPage(root, source, served);
  });
  const extras = figured && againstWhat(source, data, served);
  const cardOfMetric = (m) => metricCard(m, data.baseline);
  const skip = el("button.skip", { type: "button", onclick: () => { told.pick("traces"); list.box.focus(); } }, phrase("runpage.skip"));
  const going = served && data.live && (await import("./livepanel.js")).livePanel(source, list, ended.signal);
  root.replaceChildren(skip, topBar(served, person, blind), el("main", null,
    headOf(data.head), remarksOf(data.head),
    going && going.node, extras || "",
    data.blind && el("p.versus", { id: "hidden" }, phrase("runpage.blind_note")),
    figured && el("section.metrics.first", { "aria-label": "Metrics" }, data.metrics.slice(0, SOME_METRICS).map(cardOfMetric)),
    figured && data.metrics.length > SOME_METRICS && el("details", null, el("summary", null, phrase("runpage.more", { n: data.metrics.length - SOME_METRICS })),
      el("section.metrics.rest", { "aria-label": phrase("runpage.others") }, data.metrics.slice(SOME_METRICS).map(cardOfMetric))),
    figured && el("details.overview", null, el("summary", null, phrase("runpage.distribution")), figures(data, { setFilter: (text) => { told.pick("traces"); return list.setFilter(text); } })),
    data.shown && el("p.note.left", null, phrase(data.baseline ? "runpage.shown_lost" : "runpage.shown", data.shown)),
    told.node));

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.activeElement === list.box) list.box.blur();
    if (typing(event)) return;
    const step = { j: 1, k: -1 }[event.key];
    if (step) {
      told.pick("traces");
      list.step(step);
    } else if (event.key === "/") {
      event.preventDefault();
      told.pick("traces");
      list.box.focus();
    }
  }, { signal: ended.signal });
  addEventListener("hashchange", follow, { signal: ended.signal });
  await list.refresh(null);
  if (going) going.look();
  if (location.hash.length > 1) await follow();
  else if (list.rows.length && matchMedia("(min-width: 900px)").matches) {
    list.at = 0;
    list.chosen = list.rows[0].id;
    list.mark(false);
    await show(list.rows[0].id, 0, false, false);
  }
  document.documentElement.dataset.ready = "true";
}

page("run", (root, data) => {
  const query = new URLSearchParams(location.search);
  const served = () => Object.assign(
    new ServedRun(decodeURIComponent(location.pathname.split("/")[2]), query.get("baseline"), query.get("blind") === "1"),
    { by: keptName(), sample: query.get("sample") === "1" });
  return runPage(root, data ? new EmbeddedRun(data) : served(), !data);
});
