import { phrase } from "./dom.js";

// Where a page's data come from: out of the file itself, or page by page from a server.

export async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

export function hay(trace) {
  const parts = [trace.id, trace.query, trace.reference || "", trace.answer || "", ...trace.tags];
  for (const chunk of trace.chunks) {
    parts.push(chunk.id, chunk.title || "", chunk.text.join(""), chunk.why ? `${chunk.why} ${chunk.detail}` : chunk.reason || chunk.no_reason || "");
  }
  return parts.join("\n").toLowerCase();
}

export function findMetric(name, metrics) {
  const folded = name.toLowerCase();
  return metrics.find((m) => m.toLowerCase() === folded) ?? metrics.find((m) => m.toLowerCase().startsWith(folded)) ?? null;
}

const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b };
const FLAGS = { disagree: (row) => row.disagreements > 0, failed: (row) => row.failed > 0, changed: (row) => row.change !== "" };

function comparison(word, metrics) {
  const found = /^([^<>=]+?)(<=|>=|<|>|=)(-?\d*\.?\d+)$/.exec(word);
  if (!found) return null;
  const [test, number] = [COMPARE[found[2]], Number(found[3])];
  const isDelta = found[1].toLowerCase() === "delta" && metrics.length > 0;
  const metric = isDelta ? metrics[0] : findMetric(found[1], metrics);
  if (metric === null) return null;
  return (row) => {
    const value = isDelta ? row.deltas[metric] : row.scores[metric];
    return value !== null && value !== undefined && test(value, number);
  };
}

// The same language as the server's: all words must hold, `-` negates, quotation marks keep spaces.
export function parseFilter(text, metrics) {
  const tests = [], texts = [];
  for (const [, minus, prefix, inQuotes, bare] of text.matchAll(/(-?)((?:[^\s":]+:)?)(?:"([^"]*)"?|(\S+))/g)) {
    let test = null;
    if (prefix.toLowerCase() === "tag:") {
      const tag = (inQuotes || bare || "").toLowerCase();
      test = (row) => row.tags.some((given) => given.toLowerCase() === tag);
    } else if (!prefix && bare) {
      test = (Object.hasOwn(FLAGS, bare.toLowerCase()) && FLAGS[bare.toLowerCase()]) || comparison(bare, metrics);
    }
    if (test) tests.push(minus ? (row) => !test(row) : test);
    else {
      const word = (prefix + (inQuotes || bare || "")).toLowerCase();
      if (word) texts.push([word, !minus]);
    }
  }
  return { tests, texts };
}

// Where less is better a rise is a loss.
export function sortRows(rows, by, metric, metrics) {
  const fewer = by.endsWith("change") && metrics.some((m) => m.name === metric && m.less_is_better);
  const sign = by.startsWith("-") !== fewer ? -1 : 1;
  const key = { score: (r) => r.scores[metric], change: (r) => r.deltas[metric], first: (r) => r.first }[by.replace("-", "")];
  const sorted = [...rows];
  if (key) {
    sorted.sort((a, b) => {
      const [x, y] = [key(a) ?? null, key(b) ?? null];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x - y);
    });
  } else if (by.endsWith("tags")) {
    const key = (r) => r.tags.join("\u0000");
    sorted.sort((a, b) => (!a.tags.length || !b.tags.length ? !a.tags.length - !b.tags.length : sign * ((key(a) > key(b)) - (key(a) < key(b)))));
  } else if (by === "failed") sorted.sort((a, b) => b.failed - a.failed);
  else if (by === "disagree") sorted.sort((a, b) => b.disagreements - a.disagreements);
  else sorted.sort((a, b) => a.position - b.position);
  return sorted;
}

export class Blocks {
  constructor() {
    const told = JSON.parse(document.getElementById("blocks").textContent);
    this.size = told.size;
    this.packed = told.blocks;
    this.open = new Map();
  }
  async item(place) {
    return (await this.block(Math.floor(place / this.size)))[place % this.size];
  }
  block(index) {
    if (!this.open.has(index)) this.open.set(index, inflate(this.packed[index]));
    return this.open.get(index);
  }
}

export class EmbeddedRun {
  constructor(data) {
    this.data = data;
    this.blocks = new Blocks();
    this.metrics = data.metrics.map((m) => m.name);
    this.hays = null;
  }
  async page() { return this.data; }
  async agreement() { return this.data.agreement.said; }
  async systems() { return this.data.systems; }
  async rows({ filter = "", sort = "order", metric = this.metrics[0], offset = 0, limit = 100, locate = null }) {
    const { tests, texts } = parseFilter(filter, this.metrics);
    let rows = this.data.rows.filter((row) => tests.every((test) => test(row)));
    if (texts.length) {
      const hays = await this.texts();
      rows = rows.filter((row) => texts.every(([text, wanted]) => hays.get(row.id).includes(text) === wanted));
    }
    rows = sortRows(rows, sort, metric, this.data.metrics);
    const at = locate === null ? null : rows.findIndex((row) => row.id === locate);
    return { total: rows.length, rows: rows.slice(offset, offset + limit), at };
  }
  async texts() {
    if (!this.hays) {
      this.hays = (async () => {
        const found = new Map();
        for (let i = 0; i < this.blocks.packed.length; i++) {
          for (const trace of await inflate(this.blocks.packed[i])) found.set(trace.id, hay(trace));
        }
        return found;
      })();
    }
    return this.hays;
  }
  async trace(id) {
    const place = this.data.rows.findIndex((row) => row.id === id);
    return place < 0 ? null : { ...(await this.blocks.item(place)), row: this.data.rows[place] };
  }
}

export class EmbeddedCompare {
  constructor(data) {
    this.data = data;
    this.blocks = new Blocks();
  }
  async page() { return this.data; }
  async changed({ filter = "", ids = null, sort = "change", metric = null, offset = 0, limit = 25 }) {
    const word = filter.trim().toLowerCase();
    const wanted = ids ? new Set(ids) : null;
    const places = new Map(this.data.changed.map((row, i) => [row, i]));
    const fit = sortRows([...places.keys()].filter((row) =>
      (!wanted || wanted.has(row.id)) &&
      (!word || row.change === word || row.id.toLowerCase().includes(word) || row.query.toLowerCase().includes(word))), sort, metric, this.data.metrics);
    const rows = [];
    for (const row of fit.slice(offset, offset + limit)) rows.push(await this.blocks.item(places.get(row)));
    return { total: fit.length, rows };
  }
}

export class ServerError extends Error {}

let token = null;
try { token = sessionStorage.getItem("judge_eval token"); } catch { /* not allowed here */ }

export function setToken(value) {
  token = value;
  try { sessionStorage.setItem("judge_eval token", value); } catch { /* not allowed here */ }
}

// One request, with the token where there is one; the body goes as it is written.
export function send(path, query = {}, { method = "GET", body } = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") asked.append(name, String(each));
    }
  }
  const search = asked.toString();
  const headers = { Accept: "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(`/api/v1${path}${search ? "?" + search : ""}`, { method, headers, body });
}

// What is waited for, on top of the page; null when it has come.
function showWait(message) {
  let note = document.getElementById("wait");
  if (!message) return note && note.remove();
  if (!note) {
    note = Object.assign(document.createElement("p"), { id: "wait" });
    note.setAttribute("role", "status");
    document.body.prepend(note);
  }
  note.textContent = message;
}

export async function api(path, query = {}, { method, body } = {}) {
  const answer = await send(path, query, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 204) return null;
  let told = null;
  try { told = await answer.json(); } catch { /* not JSON: the status says enough */ }
  if (answer.status === 503 && told && told.error && told.error.type === "indexing") {
    showWait(told.error.message);
    await new Promise((later) => setTimeout(later, 1000));
    return api(path, query, { method, body });
  }
  showWait(null);
  if (!answer.ok) {
    const error = new ServerError((told && told.error && told.error.message) || phrase("source.status", { status: answer.status }));
    error.status = answer.status;
    throw error;
  }
  return told;
}

export class ServedRun {
  constructor(id, baseline, blind) {
    this.id = id;
    this.baseline = baseline;
    this.blind = blind;
    this.canLabel = true;
    this.by = "";
    this.sample = false; // whether the server's sample is shown, in its order
    this.path = `/runs/${encodeURIComponent(id)}`;
    this.known = [];
  }
  async page() {
    if (this.id.startsWith("label:")) { // looked up once: all that follows is about one run
      this.id = (await api("/named", { name: this.id })).id;
      this.path = `/runs/${encodeURIComponent(this.id)}`;
    }
    const data = await api(`${this.path}/page`, { baseline: this.baseline, blind: this.blind || null });
    if (!data.blind && !data.live) this.baseline = data.baseline ? data.baseline.id : "none"; // those show none, whatever it is
    this.metrics = data.metrics.map((m) => m.name);
    return data;
  }
  async systems() { return this.known; }
  live() { return api(`${this.path}/live`, { blind: this.blind || null }); }
  baselines() { return api(`${this.path}/baselines`); }
  get view() { return { baseline: this.baseline, blind: this.blind || null, by: this.blind ? this.by : null, sample: this.sample || null }; }
  rows(asked) { return api(`${this.path}/rows`, { ...asked, ...this.view }); }
  people() { return api(`${this.path}/people`); }
  agreement() { return api(`${this.path}/agreement`); }
  async trace(id) {
    try {
      const told = await api(`${this.path}/trace`, { trace_id: id, ...this.view });
      this.known = told.systems;
      return { ...told.trace, row: told.row };
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }
  label(trace_id, chunk_id, label, comment, final) {
    return api(`${this.path}/labels`, {}, { method: "POST", body: { trace_id, chunk_id, label, blind: this.blind, by: this.by, comment, final } });
  }
}

export class ServedCompare {
  constructor(a, b) { this.query = { baseline: a, candidate: b }; }
  page() { return api("/compare", this.query); }
  async changed({ filter = "", ids = null, sort = "change", metric = null, offset = 0, limit = 25 }) {
    return api("/compare/changed", { ...this.query, filter, sort, metric, trace_id: ids ? ids.slice(0, 50) : null, offset, limit });
  }
}

// The data of a page that has no addresses of its own, for the runs that its address names.
export function pageData(name) { return api(`/pages/${name}`, { run: new URLSearchParams(location.search).getAll("run") }); }
