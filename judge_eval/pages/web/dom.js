// Making elements. Every text goes in as text; the one markup that is read is what Python wrote (`markup`).

// Signs that would change how the text around them reads, or that cannot be seen.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069\ufeff]/g;
const SVG = "http://www.w3.org/2000/svg";

export function put(node, text) {
  let done = 0;
  const whole = String(text);
  for (const found of whole.matchAll(HIDDEN)) {
    if (found[0] === "\r") continue;
    node.append(whole.slice(done, found.index));
    const sign = document.createElement("span");
    sign.className = "sign";
    sign.textContent = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    node.append(sign);
    done = found.index + 1;
  }
  node.append(whole.slice(done));
  return node;
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) node.append(child);
    else put(node, child);
  }
  return node;
}

// The texts of the pages, which Python writes: a script only puts values into their places.
const TEXTS = JSON.parse(document.getElementById("texts").textContent);

const placed = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value ?? "");

// A text in pieces, in which the values stand (elements too); of two texts the one that fits the number n.
export function pieces(name, values = {}) {
  const text = Array.isArray(TEXTS[name]) ? TEXTS[name][values.n === 1 ? 0 : 1] : TEXTS[name];
  return text.split(/\{(\w+)\}/).map((piece, i) => (i % 2 ? placed(values[piece]) : piece));
}

export function phrase(name, values) {
  return pieces(name, values).join("");
}

// el("div.card.wide", {id: "x"}, "text", el("b", null, "more"))
export function el(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  return fill(node, props, children);
}

// Blocks that Python wrote as HTML, with all text in them escaped.
export function markup(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// Text that others wrote: its direction is its own and stays inside.
export function quoted(spec, text) {
  return put(el(spec, { dir: "auto" }), text);
}

// A sentence: what stands between backticks is code, and the backticks are left out. `with_code` of `views/html.py` has the same rule.
export function sentence(spec, text) {
  return el(spec, { dir: "auto" }, String(text).split(/(?<!`)`([^`\n]+)`(?!`)/).map((piece, i) => (i % 2 ? el("code", null, piece) : piece)));
}

// The same for an attribute, which holds no elements.
export function plain(text) {
  return String(text).replace(HIDDEN, (sign) => "U+" + sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
}

// A tag as a pill, which is cut rather than broken: its whole text is its title.
export function tagChip(tag) {
  const chip = quoted("span.chip.tag", tag);
  chip.title = plain(tag);
  return chip;
}

export function link(text, href) {
  let safe = false;
  try {
    safe = /^https?:$/.test(new URL(href).protocol);
  } catch {
    safe = false;
  }
  return safe
    ? el("a", { href, rel: "noopener noreferrer", target: "_blank" }, quoted("bdi", text), el("span.out", { "aria-hidden": "true" }, " ↗"))
    : quoted("bdi", text);
}

export function num(value, digits = 3) {
  return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
}

export function signed(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? "±" + text : (value < 0 ? "−" : "+") + text;
}

export function shownMean(told) { // the bounds, where too many verdicts failed
  return told.headline === "bounds" && told.bounds ? phrase("dom.to", { low: num(told.bounds[0]), high: num(told.bounds[1]) }) : num(told.mean);
}

export function range(pair, digits = 3, how = num) {
  return pair ? `[${how(pair[0], digits)}, ${how(pair[1], digits)}]` : phrase("dom.interval");
}

export function pvalue(p) {
  return p === null || p === undefined ? "–" : p < 0.001 ? "<0.001" : p.toFixed(3);
}

export function day(iso) {
  return iso.slice(0, 16).replace("T", " ") + " UTC";
}

// What the change of one trace's score means; of some metrics less is better.
export function wayOf(change, fewer) {
  return Math.abs(change ?? 0) <= 1e-9 ? "even" : change > 0 === !fewer ? "better" : "worse";
}

// A change as it is shown: an arrow that says where it went, the colour of what it means and, where less is
// better, a word for that too. What a mean's change means is said with it: coloured only where its interval leaves 0 out.
export function changeOf(spec, value, way, fewer, digits = 3, title = null) {
  const means = way === "better" || way === "worse";
  return el(`${spec}.${way}`, { title }, means && (value > 0 ? "▲ " : "▼ "), signed(value, digits), means && fewer && ` ${way}`);
}

export function lessNote(metric) {
  return metric.less_is_better && el("span.dim.less", null, " ", phrase("dom.better"));
}

export function table(columns, rows, props) {
  return el(
    "div.scroll", { tabindex: "0", role: "region", "aria-label": (props && props.label) || "table" },
    el("table", null,
      el("thead", null, el("tr", null, columns.map((c) => el(c.right ? "th.right" : "th", { scope: "col" }, c.name)))),
      el("tbody", null, rows.map((row) =>
        el("tr", null, row.map((cell, i) => el(columns[i].right ? "td.right" : "td", null, cell)))))));
}

// A row of tabs over panels that are drawn when they are first looked at.
export function tabs(items, chosen, onpick) {
  const bar = el("div.tabs", { role: "tablist" });
  const panels = el("div");
  const drawn = new Map();
  function pick(name, focus) {
    for (const item of items) {
      const on = item.name === name;
      item.button.setAttribute("aria-selected", String(on));
      item.button.tabIndex = on ? 0 : -1;
      item.panel.hidden = !on;
      if (on && !drawn.has(name)) {
        drawn.set(name, true);
        item.panel.append(item.draw());
      }
      if (on && focus) item.button.focus();
    }
  }
  items.forEach((item, i) => {
    item.button = el("button", {
      role: "tab", type: "button", id: `tab-${item.name}`, "aria-controls": `panel-${item.name}`,
      onclick: () => { pick(item.name); onpick(item.name); },
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = items[(i + step + items.length) % items.length];
        pick(next.name, true);
        onpick(next.name);
      },
    }, item.title, item.badge !== undefined && el("span.badge", null, item.badge));
    item.panel = el("section", { role: "tabpanel", id: `panel-${item.name}`, "aria-labelledby": `tab-${item.name}` });
    bar.append(item.button);
    panels.append(item.panel);
  });
  pick(chosen);
  return { node: el("div", null, bar, panels), pick };
}

export function themeButton() {
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const button = el("button.quiet", { type: "button", id: "theme", onclick: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("judge_eval theme", root.dataset.theme); } catch { /* not allowed here */ }
    name();
  } });
  function name() { button.textContent = dark() ? "☀ Light" : "☾ Dark"; }
  try {
    const kept = localStorage.getItem("judge_eval theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* not allowed here */ }
  name();
  return button;
}

export function typing(event) {
  const node = event.target;
  return event.ctrlKey || event.metaKey || event.altKey ||
    (node instanceof Element && node.closest("input:not([type=checkbox]), textarea, select") !== null);
}

export function failedNote(head) {
  return head.failed > 0 && el("p.badtext", null, phrase("dom.failed", { verdicts: phrase("dom.verdicts", { n: head.failed }), traces: phrase("dom.traces", { n: head.failed_traces }) }));
}

export function statusChip(status) {
  return el(`span.chip.status.${status}`, null, { done: "✓ ", failed: "✕ ", incomplete: "! ", interrupted: "‖ " }[status] || "… ", status);
}

export function topBar(home, ...rest) {
  return el("nav.top", { "aria-label": "Site" },
    home ? el("a.brand", { href: "/" }, "judge_eval") : el("span.brand", null, "judge_eval"), rest, themeButton());
}

// What draws each page: its script names it here. It is called with the data that a file holds, or null where
// a server is asked for them.
export const PAGES = new Map();
export function page(name, draw) { PAGES.set(name, draw); }
