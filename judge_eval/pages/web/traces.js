import { el, put, plain, quoted, num, phrase, pieces, wayOf, changeOf } from "./dom.js";
import { legend } from "./draw.js";
import { strips } from "./strips.js";

const PAGE = 100;

const SORTS = [
  ["order", "dom.order"], ["score", "traces.low"], ["-score", "traces.high"],
  ["change", "traces.loss"], ["-change", "traces.gain"], ["failed", "traces.failed"], ["disagree", "traces.disagree"],
  ["first", "traces.near"], ["-first", "traces.far"], ["tags", "traces.tags_on"], ["-tags", "traces.tags_back"],
];
const NEWEST = ["newest", "traces.newest"]; // of a run that is judged

// Columns beside those of the metrics: how each is sorted at the first click, and at the next.
const COLUMNS = { first: ["traces.first", "first", "-first"], failed: ["traces.lost", "failed", "order"], tags: ["traces.tags", "tags", "-tags"] };

const HELP = [
  ["text", "traces.text"], [phrase("traces.phrase_word"), "traces.phrase"], ["tag:x", "traces.tag"],
  ["ap<0.5", "traces.metric"], ["delta<0", "traces.delta"],
  ["disagree", "traces.disagrees"], ["failed", "traces.failure"], ["changed", "traces.changed"], ["-word", "traces.not"],
];

// The list of traces: filter, sort, one row a trace, more rows as one scrolls.
export class TraceList {
  constructor(source, data, onpick) {
    this.source = source;
    this.scale = data.head.scale;
    this.words = data.words;
    this.metrics = data.metrics.map((m) => m.name);
    const asked = new URLSearchParams(location.search), wanted = asked.getAll("column").filter((name) => this.metrics.includes(name) || COLUMNS[name]);
    this.metric = this.metrics.includes(asked.get("metric")) ? asked.get("metric") : this.metrics[0];
    this.columns = wanted.length ? [...new Set(wanted)] : [this.metric];
    this.cutoffs = new Map(data.metrics.map((m) => [m.name, m.cutoff]));
    this.fewer = new Set(data.metrics.filter((m) => m.less_is_better).map((m) => m.name));
    this.withBaseline = Boolean(data.baseline);
    this.live = Boolean(data.live); // rows come in above: nothing is scrolled to what was chosen
    this.onpick = onpick;
    this.rows = [];
    this.total = 0;
    this.at = -1;
    this.turn = 0;
    this.box = el("input", { type: "search", id: "filter", placeholder: phrase(this.withBaseline ? "traces.place_changed" : "traces.place"),
      "aria-label": phrase("dom.filter"), autocomplete: "off", spellcheck: "false", oninput: () => this.later() });
    this.sort = el("select", { "aria-label": phrase("dom.sort"), id: "sort", onchange: () => this.reorder() },
      [...(data.live ? [NEWEST] : []), ...SORTS].filter(([value]) => this.withBaseline || !value.endsWith("change")).map(([value, name]) => el("option", { value }, phrase(name))));
    this.which = el("select", { "aria-label": phrase("dom.metric"), id: "metric", onchange: () => {
      if (this.columns.length === 1 && this.columns[0] === this.metric) this.columns = [this.which.value];
      this.metric = this.which.value;
      this.reorder();
    } },
      this.metrics.map((name) => el("option", { value: name }, name)));
    this.told = el("p.told", { role: "status" });
    this.list = el("ol.rows", { "aria-label": "Traces", onkeydown: (event) => this.key(event) });
    this.more = el("button.quiet.moar", { type: "button", hidden: true, onclick: () => this.extend() }, phrase("dom.more"));
    this.heads = el("div.heads", { role: "group", "aria-label": phrase("traces.columns") });
    this.menu = el("details.help.choice", null, el("summary", null, phrase("traces.columns")), [...this.metrics, ...Object.keys(COLUMNS)].map((name) => el("label.check", null,
      el("input", { type: "checkbox", value: name, onchange: () => this.choose() }), " ", this.nameOf(name))));
    this.view = el("div.rowsbox", null, this.heads, this.list, this.more);
    this.node = el("div.tracelist", null,
      el("div.controls", null, this.box, !source.sample && [el("div.pair", null, this.sort, this.which), this.menu],
        el("details.help", null, el("summary", null, phrase("traces.help")),
          el("dl", null, HELP.map(([word, name]) => [el("dt", null, el("code", null, word)), el("dd", null, phrase(name))])),
          el("p", null, pieces("traces.keys", { j: el("kbd", null, "j"), k: el("kbd", null, "k"), slash: el("kbd", null, "/"), esc: el("kbd", null, "Esc") }))),
        this.told),
      this.view, legend(this.scale, Boolean(data.agreement), data.metrics.some((m) => m.cutoff)));
    this.usual = this.sort.value = this.withBaseline ? "change" : this.sort.value;
    if ([...this.sort.options].some((option) => option.value === asked.get("sort"))) this.sort.value = asked.get("sort");
    this.which.value = this.metric ?? "";
    this.head();
    new IntersectionObserver((seen) => { if (seen.some((s) => s.isIntersecting)) this.extend(); }, { rootMargin: "400px" }).observe(this.more);
  }

  asked() { return { filter: this.box.value, sort: this.sort.value, metric: this.metric }; }

  nameOf(column) { return COLUMNS[column] ? phrase(COLUMNS[column][0]) : column; }

  // The columns that are ticked, in the order of the boxes.
  choose() {
    this.columns = [...this.menu.querySelectorAll("input:checked")].map((box) => box.value);
    this.keep();
    this.list.replaceChildren(...this.rows.map((row, i) => this.row(row, i)));
    this.mark(false);
  }

  sortBy(column) {
    const [, first, next] = COLUMNS[column] || ["", "score", "-score"];
    const again = (COLUMNS[column] || column === this.metric) && this.sort.value === first;
    if (!COLUMNS[column]) this.which.value = this.metric = column;
    this.sort.value = again ? next : first;
    return this.reorder();
  }

  // The names above the columns; one alone is named by the box above.
  head() {
    for (const box of this.menu.querySelectorAll("input")) box.checked = this.columns.includes(box.value);
    document.documentElement.style.setProperty("--more", this.columns.length - 1 + this.columns.includes("tags"));
    const several = this.columns.length > 1 || (this.columns.length === 1 && this.columns[0] !== this.metric);
    this.node.classList.toggle("several", several);
    const sign = (column) => {
      const [, first, next] = COLUMNS[column] || ["", "score", "-score"];
      if (!COLUMNS[column] && column !== this.metric) return "";
      return this.sort.value === first ? " ▲" : this.sort.value === next && next !== "order" ? " ▼" : "";
    };
    this.heads.replaceChildren(...(several ? [el("span.query", null, "trace"), ...this.columns.map((column) => el(`button.linkish.cell.of-${COLUMNS[column] ? column : "metric"}`,
      { type: "button", "aria-pressed": String(sign(column) !== ""), title: phrase("traces.column", { name: this.nameOf(column) }), onclick: () => this.sortBy(column) }, this.nameOf(column), sign(column)))] : []));
  }

  // What is shown, and in which order, is kept in the address.
  keep() {
    this.head();
    const asked = new URLSearchParams(location.search);
    for (const name of ["column", "sort", "metric"]) asked.delete(name);
    if (this.columns.length !== 1 || this.columns[0] !== this.metric) for (const column of this.columns) asked.append("column", column);
    if (this.sort.value !== this.usual) asked.set("sort", this.sort.value);
    if (this.metric !== this.metrics[0]) asked.set("metric", this.metric);
    try { history.replaceState(null, "", (asked.size ? `?${asked}` : location.pathname) + location.hash); } catch { /* not allowed here */ }
  }

  get cutoff() { return this.cutoffs.get(this.metric) ?? null; }

  // Another order: what stands first in it is looked at, where there is room beside the list.
  async reorder() {
    this.keep();
    await this.refresh(null);
    this.view.scrollTop = 0;
    if (this.rows.length && matchMedia("(min-width: 900px)").matches) this.pick(0, false);
  }

  later() {
    clearTimeout(this.timer);
    this.turn++; // an answer under way is no longer wanted
    this.timer = setTimeout(() => this.narrow(), 120);
  }

  setFilter(text) {
    this.box.value = text;
    return this.narrow();
  }

  // Another filter: what was looked at stays if it is in the list, else the first of the list is looked at.
  async narrow() {
    const turn = this.turn + 1;
    await this.refresh();
    if (turn !== this.turn || this.at >= 0) return;
    this.view.scrollTop = 0;
    if (!this.rows.length) {
      this.chosen = undefined;
      this.onpick(null);
    } else if (matchMedia("(min-width: 900px)").matches) this.pick(0, false);
  }

  async refresh(locate = this.live ? null : this.chosen ?? null) {
    const turn = ++this.turn;
    let told;
    try {
      told = await this.source.rows({ ...this.asked(), offset: 0, limit: PAGE, locate });
      while (locate !== null && told.at !== null && told.at >= told.rows.length && told.rows.length < told.total) {
        const next = await this.source.rows({ ...this.asked(), offset: told.rows.length, limit: 1000 });
        if (!next.rows.length) break;
        told.rows.push(...next.rows);
      }
    } catch (error) {
      if (turn === this.turn) put(this.told, "").textContent = error.message;
      return;
    }
    if (turn !== this.turn) return; // a later question has overtaken this one
    this.rows = told.rows;
    this.total = told.total;
    this.done = told.done;
    this.at = told.at === null || told.at === undefined ? -1 : told.at;
    if (this.live && locate === null) this.at = this.rows.findIndex((row) => row.id === this.chosen);
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.rows.map((row, i) => this.row(row, i)));
    this.say();
    this.mark(focused, !this.live || locate !== null);
  }

  async extend() {
    if (this.loading || this.rows.length >= this.total) return;
    this.loading = true;
    const turn = this.turn;
    try {
      const told = await this.source.rows({ ...this.asked(), offset: this.rows.length, limit: PAGE });
      if (turn !== this.turn) return;
      const from = this.rows.length;
      this.rows.push(...told.rows);
      this.list.append(...told.rows.map((row, i) => this.row(row, from + i)));
      this.say();
    } finally {
      this.loading = false;
    }
  }

  say() {
    this.told.textContent = this.done !== undefined ? phrase("traces.progress", { done: this.done, n: this.total }) : phrase(!this.total ? "dom.none" : this.box.value ? "dom.matching" : "dom.traces", { n: this.total });
    this.more.hidden = this.rows.length >= this.total;
  }

  cell(row, column) {
    const hidden = row.strip.includes("?");
    let text;
    if (column === "tags") text = quoted("bdi", row.tags.join(", "));
    else if (column === "failed") text = hidden ? "hidden" : row.failed;
    else if (column === "first") {
      const unsure = row.strip.slice(0, (row.first ?? row.strip.length + 1) - 1).includes("!");
      text = hidden ? "hidden" : row.first === null ? (row.failed > 0 ? "unknown" : "none") : (unsure ? "≤ " : "") + row.first;
    } else {
      const value = row.scores[column];
      text = value === null || value === undefined ? (hidden ? "hidden" : this.source.sample ? "labelled" : "none") : num(value, 2);
    }
    return text;
  }

  // What a row shows in its columns; one metric alone stands there without its name.
  cells(row, change) {
    if (!this.node.classList.contains("several")) return [this.columns.length > 0 && el("span.value", { title: this.metric }, this.cell(row, this.metric)), change];
    return this.columns.map((column) => el(`span.cell.of-${COLUMNS[column] ? column : "metric"}`, { title: column === "tags" ? plain(row.tags.join(", ")) : column === "first" ? phrase("traces.first_title") : this.nameOf(column) },
      el("span.name", null, this.nameOf(column), " "), el("span.value", null, this.cell(row, column)), column === this.metric && change));
  }

  row(row, i) {
    const delta = row.deltas[this.metric], fewer = this.fewer.has(this.metric);
    const changed = row.change && this.words[row.change];
    return el("li", null, el("a.row", { href: "#" + encodeURIComponent(row.id), tabindex: i === 0 ? "0" : "-1", "data-place": i,
      onclick: (event) => { event.preventDefault(); this.pick(i, true); } },
      el("span.line", null,
        el("span.query", { dir: "auto" }, row.query),
        this.cells(row, this.withBaseline && (delta === undefined ? el("span.delta.even") : changeOf("span.delta", delta, wayOf(delta, fewer), fewer, 2, phrase("traces.delta"))))),
      el("span.line", null, strips(row, this.scale, this.cutoff),
        el("span.side", null,
          row.failed > 0 && !this.columns.includes("failed") && el("span.flag.bad", null, phrase("traces.some_failed", { n: row.failed })),
          changed && el("span.flag", null, changed),
          el("span.rid", { dir: "auto" }, row.id)))));
  }

  pick(i, byHand) {
    if (i < 0 || i >= this.rows.length) return;
    this.at = i;
    this.chosen = this.rows[i].id;
    this.mark(byHand);
    this.onpick(this.rows[i].id);
  }

  mark(focus, scroll = true) {
    for (const node of this.list.querySelectorAll("[aria-current]")) {
      node.removeAttribute("aria-current");
      node.tabIndex = -1;
    }
    const first = this.list.querySelector("a");
    const node = this.at >= 0 ? this.list.children[this.at]?.firstChild : null;
    if (first) first.tabIndex = node && node !== first ? -1 : 0;
    if (!node) return;
    node.setAttribute("aria-current", "true");
    node.tabIndex = 0;
    const [box, own] = [this.view.getBoundingClientRect(), node.getBoundingClientRect()];
    const top = box.top + 4 + this.heads.offsetHeight;
    if (scroll && own.top < top) this.view.scrollTop -= top - own.top;
    else if (scroll && own.bottom > box.bottom - 4) this.view.scrollTop += own.bottom - box.bottom + 4;
    if (focus) node.focus({ preventScroll: true });
  }

  async step(by) {
    const next = this.at < 0 ? (by > 0 ? 0 : -1) : this.at + by;
    if (next >= this.rows.length) await this.extend();
    this.pick(next, this.list.contains(document.activeElement));
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.step(step);
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      this.pick(event.key === "Home" ? 0 : this.rows.length - 1, true);
    }
  }
}
