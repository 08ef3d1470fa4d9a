import { el, quoted, link, num, range, count, day } from "./dom.js";
import { trend, whisker } from "./draw.js";
import { api } from "./source.js";
import { statusChip, topBar } from "./runpage.js";

const PAGE = 100;

// The folder of runs: a list to filter, a trend, two to compare.
export async function runsPage(root) {
  document.title = "Runs · judge_eval";
  const picked = [];
  let runs = [], total = 0, metric = null, thresholds = {};
  const label = el("input", { type: "search", id: "label", placeholder: "label", "aria-label": "Filter by label", oninput: () => later() });
  const tag = el("input", { type: "search", id: "tag", placeholder: "tags, with spaces between", "aria-label": "Filter by tags", oninput: () => later() });
  const status = el("select", { "aria-label": "Filter by status", id: "status", onchange: () => load(true) },
    ["", "submitted", "running", "done", "incomplete", "failed", "interrupted"].map((s) => el("option", { value: s }, s || "any status")));
  const which = el("select", { "aria-label": "Metric shown", id: "metric", onchange: () => { metric = which.value; draw(); } });
  const dataset = el("select", { "aria-label": "Dataset of the trend", id: "dataset", onchange: () => drawTrend() });
  const compare = el("button", { type: "button", id: "compare", disabled: true, onclick: () => { location.href = `/compare?a=${picked[0]}&b=${picked[1]}`; } }, "Compare");
  const told = el("p.told", { role: "status" });
  const unreadable = el("ul.note", { id: "unreadable", "aria-label": "Runs that cannot be read" });
  const body = el("tbody");
  const chart = el("div");
  const more = el("button.quiet", { type: "button", hidden: true, onclick: () => load(false) }, "Show more");
  let timer = null, poll = null, turn = 0;

  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => load(true), 150);
  }

  async function load(fresh, least = PAGE) {
    const mine = ++turn;
    const tags = tag.value.split(/\s+/).filter(Boolean);
    const found = await api("/runs", { label: label.value, tag: tags, status: status.value, offset: fresh ? 0 : runs.length, limit: fresh ? Math.min(1000, Math.max(PAGE, least)) : PAGE });
    if (mine !== turn) return;
    runs = fresh ? [...found.runs] : [...runs, ...found.runs];
    ({ total, thresholds } = found);
    unreadable.replaceChildren(...found.unreadable.map((run) => el("li.badtext", null, "cannot be read: ", quoted("bdi", run.folder), " – ", quoted("span", run.error))));
    unreadable.hidden = !found.unreadable.length;
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))];
    if (!names.includes(metric)) metric = names.find((n) => n.startsWith("AP")) || names[0] || null;
    which.replaceChildren(...names.map((n) => el("option", { value: n, selected: n === metric }, n)));
    const often = new Map();
    for (const run of runs) often.set(run.dataset, (often.get(run.dataset) || 0) + 1);
    const sets = [...often.keys()].sort((x, y) => often.get(y) - often.get(x));
    const chosen = sets.includes(dataset.value) ? dataset.value : sets[0];
    dataset.replaceChildren(...sets.map((s) => el("option", { value: s, selected: s === chosen }, s)));
    draw();
    clearTimeout(poll);
    if (runs.some((run) => ["submitted", "running"].includes(run.status))) poll = setTimeout(() => load(true, runs.length).catch(() => {}), 2000);
  }

  function passCell(run) {
    if (!(metric in run.passed)) return null;
    return run.passed[metric] ? el("span.pass", null, "✓ pass") : el("span.fail", null, "✕ fail");
  }

  function rowOf(run) {
    const aggregate = metric ? run.metrics[metric] : null;
    const box = el("input", { type: "checkbox", "aria-label": `Pick ${run.label || run.id.slice(0, 8)} to compare`, onchange: () => pick(run.id, box) });
    box.checked = picked.includes(run.id);
    const name = run.label || run.id.slice(0, 8);
    return el("tr", { "data-run": run.id },
      el("td", null, box),
      el("td", null, el("a", { href: `/runs/${run.id}${run.baseline ? `?baseline=${run.baseline}` : ""}` }, quoted("bdi", name)), run.href && el("span.dim", null, " ", link("source", run.href))),
      el("td", null, statusChip(run.status), run.progress && el("span.dim", null, ` ${run.progress.traces} of ${run.progress.total ?? "?"}`), run.error && el("div.badtext", null, quoted("span", run.error))),
      el("td", null, el("span.chips", null, run.tags.map((t) => quoted("span.chip.tag", t)))),
      el("td", null, quoted("bdi", run.dataset)),
      el("td.right", null, el("b", null, aggregate ? num(aggregate.mean) : "–")),
      el("td", null, el("span.whole", null, aggregate && aggregate.interval ? range(aggregate.interval) : "")),
      el("td", null, aggregate && whisker(aggregate.mean, aggregate.interval)),
      el("td", null, passCell(run)),
      el("td.right", null, run.traces), el("td.right", null, run.failed ? el("span.badtext", null, run.failed) : "0"),
      el("td", null, el("span.whole.dim", null, day(run.created))));
  }

  function pick(id, box) {
    if (box.checked) picked.push(id);
    else picked.splice(picked.indexOf(id), 1);
    if (picked.length > 2) {
      const gone = picked.shift();
      const other = body.querySelector(`tr[data-run="${CSS.escape(gone)}"] input`);
      if (other) other.checked = false;
    }
    compare.disabled = picked.length !== 2;
    compare.textContent = picked.length === 2 ? "Compare (A: first picked, B: second)" : "Compare";
  }

  function draw() {
    body.replaceChildren(...runs.map(rowOf));
    told.textContent = total ? `${count(total, "run")}; pick two to compare` : "no run fits";
    more.hidden = runs.length >= total;
    drawTrend();
  }

  function drawTrend() {
    const points = runs.filter((run) => run.dataset === dataset.value && metric && run.metrics[metric] && run.metrics[metric].mean !== null)
      .map((run) => ({ mean: run.metrics[metric].mean, interval: run.metrics[metric].interval, label: run.label || run.id.slice(0, 8), date: run.created.slice(0, 10) })).reverse();
    chart.replaceChildren(points.length ? trend(points, metric, thresholds[metric]) : el("p.note", null, "No run of this dataset has a mean to draw."));
  }

  const columns = ["", "run", "status", "tags", "dataset", "mean", "95% interval", "", "", "traces", "failed", "started"];
  const hidden = { 0: "pick", 7: "interval drawn", 8: "threshold" };
  root.replaceChildren(topBar(true, el("a", { href: "/docs" }, "API")), el("main", null,
    el("header.head", null, el("h1", null, "Runs")),
    el("div.filters", null, label, tag, status, which, compare), told,
    el("div.scroll", { tabindex: "0", role: "region", "aria-label": "runs" }, el("table.runs", null,
      el("thead", null, el("tr", null, columns.map((c, i) => el([5, 9, 10].includes(i) ? "th.right" : "th", { scope: "col", "aria-label": hidden[i] }, c)))), body)),
    more, unreadable,
    el("section.panel", null, el("div.heading", null, el("h2", null, "Trend"), dataset), chart, el("p.dim", null, "Oldest first, with 95% intervals; the dashed line is the threshold."))));
  await load(true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) { event.preventDefault(); label.focus(); }
  });
  document.documentElement.dataset.ready = "true";
}
