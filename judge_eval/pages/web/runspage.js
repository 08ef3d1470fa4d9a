import { el, page, statusChip, topBar, quoted, link, num, shownMean, range, phrase, pieces, day, plain } from "./dom.js";
import { whisker } from "./draw.js";
import { trend } from "./trend.js";
import { api } from "./source.js";
import { isGoing, isQuiet, progressWords } from "./livepanel.js";

const PAGE = 100;
const MOST = 8; // runs side by side
const [SOON, LATER] = [2000, 10000]; // milliseconds until a look at runs that are judged, or may be no more
const letter = (i) => String.fromCharCode(65 + i);
const nameOf = (run) => run.label || run.id.slice(0, 8);
const judgeOf = (run) => [run.model, run.prompt].filter(Boolean).join(", ");

function options(select, values, chosen, words = (v) => v) {
  if (select.dataset.held !== JSON.stringify(values)) { // else an open list would close
    select.replaceChildren(...values.map((v) => el("option", { value: v }, words(v))));
    select.dataset.held = JSON.stringify(values);
  }
  select.value = chosen ?? "";
}

function command(text) {
  const button = el("button.quiet", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  } }, "Copy");
  const code = el("code", null, text);
  return el("div.command", null, el("pre", null, code), button);
}

function emptyState() {
  return el("section.panel.empty", { id: "empty" }, el("h2", null, phrase("runspage.empty")),
    el("p", null, phrase("runspage.begin")),
    command(phrase("runspage.judge")),
    el("p", null, phrase("runspage.offline")),
    command(phrase("runspage.offline_judge")),
    el("p.dim", null, pieces("runspage.folder", { run: el("code", null, "run") })));
}

// The folder of runs: a list to filter, a trend, two or more to hold side by side.
export async function runsPage(root) {
  document.title = phrase("runspage.title");
  const asked = new URLSearchParams(location.search);
  const picked = [], chosen = new Set(asked.getAll("tag"));
  let runs = [], total = 0, metric = null, thresholds = {}, rows = new Map();
  const label = el("input", { type: "search", id: "label", placeholder: "label", "aria-label": phrase("runspage.label"), value: asked.get("label"), oninput: () => later() });
  const tag = el("input", { type: "search", id: "tag", placeholder: "tags", title: phrase("runspage.spaces"), "aria-label": phrase("runspage.tags"), oninput: () => later() });
  const status = el("select", { "aria-label": phrase("runspage.status"), id: "status", onchange: () => load(true) });
  options(status, ["", "submitted", "running", "done", "incomplete", "failed", "interrupted"], asked.get("status"), (s) => s || phrase("runspage.any"));
  const which = el("select", { "aria-label": phrase("dom.metric"), id: "metric", onchange: () => { metric = which.value; draw(); } });
  const dataset = el("select", { "aria-label": phrase("runspage.dataset"), id: "dataset", onchange: () => drawTrend() });
  const compare = el("button", { type: "button", id: "compare", disabled: true, onclick: () => {
    location.href = picked.length === 2 ? `/compare?a=${picked[0]}&b=${picked[1]}` : `/matrix?${picked.map((id) => `run=${id}`).join("&")}`;
  } });
  const pool = el("button.quiet", { type: "button", id: "pool", hidden: true, onclick: () => {
    location.href = `/pool?${picked.map((id) => `run=${id}`).join("&")}`;
  } }, phrase("runspage.pool"));
  const told = el("p.told", { role: "status" });
  const only = el("p.chips", { id: "only", hidden: true });
  const unreadable = el("ul.note", { id: "unreadable", "aria-label": phrase("runspage.unreadable") });
  const head = el("tr", { role: "row" }), body = el("tbody", { role: "rowgroup" });
  const chart = el("div");
  const more = el("button.quiet", { type: "button", hidden: true, onclick: () => load(false) }, phrase("dom.more"));
  const list = el("div.runlist"), empty = emptyState();
  let timer = null, poll = null, turn = 0, drawn = "";

  function later() {
    clearTimeout(timer);
    turn++; // an answer under way is no longer wanted
    timer = setTimeout(() => load(true), 150);
  }

  function filters() {
    return { label: label.value, tag: [...new Set([...chosen, ...tag.value.split(/\s+/).filter(Boolean)])], status: status.value };
  }

  function toggle(name) {
    if (!chosen.delete(name)) chosen.add(name);
    return load(true);
  }

  function clear() {
    label.value = tag.value = status.value = "";
    chosen.clear();
    label.focus();
    return load(true);
  }

  async function load(fresh, least = PAGE) {
    const mine = ++turn;
    const wanted = filters();
    const found = await api("/runs", { ...wanted, offset: fresh ? 0 : runs.length, limit: fresh ? Math.min(1000, Math.max(PAGE, least)) : PAGE });
    if (mine !== turn) return;
    const kept = new URLSearchParams();
    for (const [name, value] of Object.entries(wanted)) for (const each of [value].flat()) if (each) kept.append(name, each);
    history.replaceState(null, "", kept.size ? `?${kept}` : location.pathname);
    runs = fresh ? [...found.runs] : [...runs, ...found.runs];
    ({ total, thresholds } = found);
    unreadable.replaceChildren(...found.unreadable.map((run) => el("li.badtext", null, pieces("runspage.unread", { folder: quoted("bdi", run.folder), error: quoted("span", run.error) }))));
    unreadable.hidden = !found.unreadable.length;
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))];
    if (!names.includes(metric)) metric = found.main || names[0] || null;
    options(which, names, metric);
    const often = new Map();
    for (const run of runs) often.set(run.dataset, (often.get(run.dataset) || 0) + 1);
    const sets = [...often.keys()].sort((x, y) => often.get(y) - often.get(x));
    options(dataset, sets, sets.includes(dataset.value) ? dataset.value : sets[0]);
    draw(wanted);
    clearTimeout(poll);
    const going = runs.filter(isGoing);
    if (going.length || !total) {
      const wait = !total || going.some((run) => !isQuiet(run)) ? SOON : LATER;
      poll = setTimeout(() => load(true, runs.length).catch(() => { poll = setTimeout(() => load(true).catch(() => {}), LATER); }), wait);
    }
  }

  function passCell(run) {
    if (!(metric in run.passed)) return "–";
    return run.passed[metric] ? el("span.pass.whole", null, "✓ pass") : el("span.fail.whole", null, "✕ fail");
  }

  function tagButton(name) {
    const button = el("button.chip.tag", { type: "button", title: plain(name), "aria-pressed": String(chosen.has(name)), onclick: () => toggle(name) });
    button.append(quoted("bdi", name));
    return button;
  }

  function columns() {
    return [
      { name: "pick", kind: "pick", cell: (run) => {
        const at = picked.indexOf(run.id), name = phrase("runspage.pick", { name: nameOf(run) });
        const box = el("input", { type: "checkbox", "aria-label": at < 0 ? name : phrase("runspage.chosen", { pick: name, letter: letter(at) }), disabled: at < 0 && picked.length >= MOST, onchange: () => pick(run.id, box) });
        box.checked = at >= 0;
        return el("span.picking", null, box, at >= 0 && el("span.letter", { "aria-hidden": "true" }, letter(at)));
      } },
      { name: "run", kind: "name", cell: (run) => [el("a", { href: `/runs/${run.id}`, title: plain(nameOf(run)) }, quoted("bdi.clamp", nameOf(run))), run.href && el("span.dim.source", null, link("source", run.href))] },
      { name: "status", kind: "state", cell: (run) => [statusChip(run.status), isGoing(run) && el(isQuiet(run) ? "div.badtext.far" : "div.dim.far", null, progressWords(run)), run.error && el("div.badtext", null, quoted("span", run.error))] },
      { name: "tags", kind: "tags", cell: (run) => (run.tags.length ? el("span.chips", null, run.tags.map(tagButton)) : el("span.dim", null, "–")) },
      { name: "dataset", kind: "set", cell: (run) => { const node = quoted("bdi.clamp", run.dataset); node.title = plain(run.dataset); return node; } },
      { name: "judge", kind: "judge", cell: (run) => { const node = quoted("bdi.clamp", run.model); node.title = plain(judgeOf(run)); return [node, run.prompt && el("div.dim", null, quoted("bdi.clamp", run.prompt))]; } },
      { name: metric ? phrase("runspage.mean", { name: metric }) : "mean", kind: "right", cell: (run) => el("b", null, valueOf(run) ? shownMean(valueOf(run)) : "–") },
      { name: "95% interval", kind: "interval", cell: (run) => el("span.whole", null, valueOf(run) && valueOf(run).interval ? range(valueOf(run).interval) : "–") },
      { name: phrase("runspage.unit"), kind: "drawn", cell: (run) => valueOf(run) && whisker(valueOf(run).mean, valueOf(run).interval) },
      Object.keys(thresholds).length > 0 && { name: "threshold", kind: "limit", cell: passCell },
      { name: "traces", kind: "right", cell: (run) => run.traces.toLocaleString("en") },
      { name: "failed", kind: "right", cell: (run) => (run.failed ? el("span.badtext", null, run.failed.toLocaleString("en")) : "0") },
      { name: "started", kind: "day", cell: (run) => el("span.dim", null, day(run.created)) },
    ].filter(Boolean);
  }

  function valueOf(run) { return metric ? run.metrics[metric] : null; }

  function rowOf(run, held) {
    return el("tr", { role: "row", "data-run": run.id, "data-picked": picked.includes(run.id) ? letter(picked.indexOf(run.id)) : null },
      held.map((column) => el(`td.${column.kind}`, { role: "cell", "data-label": column.name }, column.cell(run))));
  }

  function pick(id, box) {
    if (box.checked) picked.push(id);
    else picked.splice(picked.indexOf(id), 1);
    draw();
  }

  // Rows that say the same stay the nodes they are, and the focus stays where it is.
  function draw(wanted = filters()) {
    const held = columns(), state = JSON.stringify([metric, [...chosen], picked, thresholds]);
    const place = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.run : null;
    const at = place ? [...body.querySelectorAll(`tr[data-run="${place}"] :is(a, button, input)`)].indexOf(document.activeElement) : -1;
    const before = rows;
    rows = new Map(runs.map((run) => {
      const told = state + JSON.stringify(run), known = before.get(run.id);
      return [run.id, known && known.told === told ? known : { told, node: rowOf(run, held) }];
    }));
    if (drawn !== state) head.replaceChildren(...held.map((c) => el(c.kind === "right" ? "th.right" : `th.${c.kind}`, { scope: "col", role: "columnheader" }, c.name)));
    body.replaceChildren(...[...rows.values()].map((row) => row.node));
    drawn = state;
    if (at >= 0) body.querySelectorAll(`tr[data-run="${place}"] :is(a, button, input)`)[at]?.focus({ preventScroll: true });
    const filtered = Boolean(wanted.label || wanted.status || wanted.tag.length);
    list.hidden = !total && !filtered;
    empty.hidden = !list.hidden;
    told.textContent = total ? phrase("runspage.told", { n: total }) : filtered ? phrase("runspage.none") : "";
    only.hidden = !filtered;
    only.replaceChildren(...[...chosen].map((name) => { const chip = tagButton(name); chip.append(el("span", { "aria-hidden": "true" }, " ✕")); return chip; }),
      el("button.quiet", { type: "button", id: "clear", onclick: clear }, phrase("runspage.clear")));
    more.hidden = runs.length >= total;
    compare.disabled = pool.hidden = picked.length < 2;
    compare.textContent = picked.length < 2 ? "Compare" : picked.length === 2 ? phrase("runspage.compare") : phrase("runspage.several", { n: picked.length });
    drawTrend();
  }

  let trended = "";
  function drawTrend() {
    const points = runs.filter((run) => run.dataset === dataset.value && valueOf(run) && valueOf(run).mean !== null)
      .map((run) => ({ mean: valueOf(run).mean, shown: shownMean(valueOf(run)), interval: valueOf(run).interval, label: nameOf(run), created: run.created, judge: judgeOf(run), judgedAs: run.judged_as, href: `/runs/${run.id}` })).reverse();
    const now = JSON.stringify([points, metric, thresholds]);
    if (now === trended) return;
    trended = now;
    chart.replaceChildren(points.length ? trend(points, metric, thresholds[metric]) : el("p.note", null, phrase("runspage.trend_empty")));
  }

  list.append(el("div.filters", null, label, tag, status, which, compare, pool), only, told,
    el("div.scroll", { tabindex: "0", role: "region", "aria-label": "runs" }, el("table.runs", { role: "table" },
      el("thead", { role: "rowgroup" }, head), body)), more,
    el("section.panel", null, el("div.heading", null, el("h2", null, "Trend"), dataset), chart,
      el("p.dim", null, phrase("runspage.trend"))));
  root.replaceChildren(topBar(true, el("a", { href: "/docs" }, "API")), el("main", null,
    el("header.head", null, el("h1", null, "Runs")), empty, list, unreadable));
  await load(true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) { event.preventDefault(); label.focus(); }
  });
  document.documentElement.dataset.ready = "true";
}

page("runs", runsPage);
