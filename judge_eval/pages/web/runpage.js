import { el, link, quoted, num, signed, range, pvalue, count, duration, money, day, changeOf, table, tabs, themeButton, typing, tagChip } from "./dom.js";
import { whisker, histogram } from "./draw.js";
import { missedClaims } from "./claims.js";
import { disagreements, failures, provenance } from "./runtabs.js";
import { TraceList } from "./traces.js";
import { againstWhat } from "./baselines.js";
import { traceView } from "./card.js";

export function statusChip(status) {
  return el(`span.chip.status.${status}`, null, { done: "✓ ", failed: "✕ ", incomplete: "! ", interrupted: "‖ " }[status] || "… ", status);
}

export function topBar(home, ...rest) {
  return el("nav.top", { "aria-label": "Site" },
    home ? el("a.brand", { href: "/" }, "judge_eval") : el("span.brand", null, "judge_eval"), rest, themeButton());
}

function stat(name, value, kind = "") {
  return el("div.stat" + (kind ? "." + kind : ""), null, el("dt", null, name), el("dd", null, value));
}

export function headOf(head) {
  const counted = head.verdicts !== undefined; // not while a run is judged, and not before a blind label
  const cached = head.cached === null ? "–" : `${Math.round(head.cached * 100)}%`;
  return el("header.head", null,
    el("div.title", null, el("h1", null, head.href ? link(head.label || head.id.slice(0, 8), head.href) : quoted("bdi", head.label || head.id.slice(0, 8))),
      statusChip(head.status), head.tags.map(tagChip)),
    el("p.sub", null, quoted("bdi", head.dataset.name), head.dataset.digest && el("code", { title: "digest of the dataset: " + head.dataset.digest }, head.dataset.digest.slice(0, 12)),
      head.imported ? [", ", quoted("bdi", head.imported)]
        : [" judged by ", quoted("bdi", head.model), head.prompt && [" with ", quoted("bdi", head.prompt)]], el("span.dim", null, ` on ${day(head.created)}`)),
    counted && el("dl.stats", null,
      stat("queries", head.traces.toLocaleString("en") + (head.of > head.traces ? ` of ${head.of.toLocaleString("en")}` : "")),
      stat("verdicts", head.verdicts.toLocaleString("en")),
      stat("failed verdicts", head.failed ? `${head.failed.toLocaleString("en")} in ${count(head.failed_traces, "trace")}` : "0", head.failed ? "bad" : ""),
      Object.entries(head.stages || {}).map(([stage, n]) => stat(`by the ${stage} judge`, n.toLocaleString("en"))),
      head.unsupported > 0 && stat("without found evidence", head.unsupported.toLocaleString("en")),
      head.beyond_total > 0 && stat("found more than relevant_total", head.beyond_total.toLocaleString("en")),
      stat("from the cache", cached), stat("cost", money(head.cost)), stat("time", duration(head.seconds)),
      head.skipped > 0 && stat("records skipped", head.skipped, "bad")),
    counted && head.cascade?.length > 0 && quoted("p.dim.rests", head.cascade.join("; ")));
}

function metricCard(metric, baseline, unsupported) {
  const pair = metric.pair;
  return el("div.metric", { title: metric.definition },
    el("div.top", null, el("h3", null, metric.name), el("p.dim", null, `n = ${metric.n}`)),
    el("div.top.mean", null, el("p.big", null, num(metric.mean)), el("p.interval", null, range(metric.interval))),
    metric.less_is_better && el("p.dim", null, "less is better"),
    whisker(metric.mean, metric.interval, pair ? pair.baseline : null),
    metric.n_failed > 0 && el("p.dim.badtext", null, `${metric.n_failed} without a value`),
    unsupported > 0 && el("p.dim", { title: "relevant verdicts whose quote is missing, too short or not in the chunk" }, `counts ${count(unsupported, "verdict")} without found evidence`),
    metric.n_failed > 0 && metric.bounds && el("p.dim", { title: "with every failed verdict irrelevant, and with every one relevant" }, "bounds " + range(metric.bounds)),
    baseline && (pair
      ? el(`p.pairing.${pair.way}`, { title: `p = ${pvalue(pair.p)} (randomisation), ${pair.n} traces in common` }, changeOf("b", pair.difference, pair.way, metric.less_is_better), " against the baseline", el("br"), range(pair.interval, 3, signed))
      : el("p.dim", null, "not in the baseline")));
}

const SOME_TAGS = 8;
const SOME_METRICS = 5; // a row of cards: the traces begin below it

function figures(data, list) {
  const panel = el("div.columns");
  let metric = data.metrics[0].name, allTags = false;
  const choose = el("select", { "aria-label": "Metric of the distribution", hidden: data.metrics.length < 2, onchange: (event) => { metric = event.target.value; draw(); choose.focus(); } },
    data.metrics.map((m) => el("option", { value: m.name }, m.name)));
  const chart = el("section.panel"), tags = el("section.panel");
  function draw() {
    const told = data.histograms[metric];
    const pick = (low, high, last) => list.setFilter(`${metric}>=${+low.toFixed(4)} ${metric}${last ? "<=" : "<"}${+high.toFixed(4)}`);
    chart.replaceChildren(el("div.heading", null, el("h3", null, metric, " per trace"), choose), histogram(told, metric, pick),
      el("p.dim", null, told.missing > 0 ? `${count(told.missing, "trace")} without a value not shown. ` : "", "A bar, clicked, filters the traces."));
    const rows = data.by_tag[metric].slice(0, allTags ? undefined : SOME_TAGS);
    const rest = data.by_tag[metric].length - rows.length;
    tags.hidden = !rows.length; // an empty card is not drawn
    chart.hidden = !told.counts.some((n) => n > 0) && data.metrics.length < 2;
    panel.classList.toggle("single", tags.hidden || chart.hidden);
    tags.replaceChildren(el("h3", null, metric, " by tag"),
      table([{ name: "tag" }, { name: "mean", right: true }, { name: "95% interval" }, { name: "" }, { name: "n", right: true }],
        rows.map((r) => [el("button.linkish", { type: "button", onclick: () => list.setFilter(/\s/.test(r.tag) ? `tag:"${r.tag}"` : `tag:${r.tag}`) }, quoted("bdi", r.tag)), num(r.value), el("span.whole", null, range(r.interval)), whisker(r.value, r.interval), r.n]), { label: metric + " by tag" }),
    rest > 0 && el("p", null, el("button.quiet", { type: "button", onclick: () => { allTags = true; draw(); tags.querySelector("button")?.focus(); } }, `Show ${rest} more tags`)) || "");
  }
  draw();
  panel.append(chart, tags);
  return panel;
}

export async function runPage(root, source, served) {
  const data = await source.page();
  const name = data.head.label || data.head.id.slice(0, 8);
  document.title = `${name} · judge_eval`;
  const detail = el("div.detail", { "aria-label": "Trace", role: "region" });
  const split = el("div.split");
  const scale = data.head.scale;
  const page = new AbortController(); // ends what listens, where the page is drawn anew
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
        : el("p.note", null, "No trace of this run has the id ", quoted("code", id), ".");
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
    history.replaceState(null, "", "#" + encodeURIComponent(id));
    show(id, 0, false);
  });

  function tracesTab() {
    split.append(list.node, detail);
    return split;
  }
  const told = tabs([
    { name: "traces", title: "Traces", badge: data.live ? undefined : data.head.traces, draw: tracesTab },
    figured && data.claims && { name: "claims", title: "Claims", badge: data.claims.distinct, draw: () => missedClaims(data.claims, data.opening && data.opening.claims) },
    figured && { name: "disagreements", title: "Disagreements", badge: data.agreement ? data.agreement.count : undefined, draw: () => disagreements(data.agreement) },
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
      list.refresh(id);
    }
    await show(id, rank, !list.node.contains(document.activeElement));
  }

  const blind = served && el("label.check", { title: "Verdicts and means stay hidden; a verdict shows once you have labelled its chunk" },
    el("input", { type: "checkbox", id: "blind", checked: source.blind, onchange: async (event) => {
      source.blind = event.target.checked;
      const asked = new URLSearchParams(location.search);
      if (source.blind) asked.set("blind", "1");
      else asked.delete("blind");
      history.replaceState(null, "", location.pathname + (asked.size ? `?${asked}` : "") + location.hash);
      page.abort();
      await runPage(root, source, served);
      document.getElementById("blind")?.focus();
    } }), " Blind labelling");
  const extras = figured && againstWhat(source, data, served);
  const cardOfMetric = (m) => metricCard(m, data.baseline, data.head.unsupported);
  const skip = el("button.skip", { type: "button", onclick: () => { told.pick("traces"); list.box.focus(); } }, "Skip to the traces");
  const going = served && data.live && (await import("./livepanel.js")).livePanel(source, list, page.signal);
  root.replaceChildren(skip, topBar(served, blind), el("main", null, headOf(data.head),
    going && going.node, extras || "",
    data.blind && el("p.versus", { id: "hidden" }, "Blind labelling: the run's means and figures are hidden, and so is each verdict until its chunk has your label."),
    figured && el("section.metrics", { "aria-label": "Metrics" }, data.metrics.slice(0, SOME_METRICS).map(cardOfMetric)),
    figured && data.metrics.length > SOME_METRICS && el("details", null, el("summary", null, count(data.metrics.length - SOME_METRICS, "more metric")),
      el("section.metrics.rest", { "aria-label": "More metrics" }, data.metrics.slice(SOME_METRICS).map(cardOfMetric))),
    figured && el("details.overview", null, el("summary", null, "Distribution and tags"), figures(data, { setFilter: (text) => { told.pick("traces"); return list.setFilter(text); } })),
    data.shown && el("p.note.left", null, `This file holds ${data.shown.n.toLocaleString("en")} of ${data.shown.of.toLocaleString("en")} traces: `,
      data.baseline ? "those that lost most against the baseline" : "those without a value, and those with the worst scores", ". All figures are of all traces."),
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
  }, { signal: page.signal });
  addEventListener("hashchange", follow, { signal: page.signal });
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
