import { el, phrase, quoted, sentence, topBar, PAGES } from "./dom.js";
import { api, inflate, setToken } from "./source.js";

const root = el("div", { id: "app" });
const embedded = document.getElementById("data");

function askToken(message) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  root.replaceChildren(el("main.lone", null, el("h1", null, "judge_eval"), el("p", null, message),
    el("form", { onsubmit: (event) => { event.preventDefault(); setToken(field.value.trim()); start(); } },
      el("label", { for: "token" }, "Token "), field, " ", el("button", { type: "submit" }, "Open"))));
}

// A gate that failed, in the words of all reports: each limit with the traces to look at.
function gateOf(gate) {
  return el("section.banner", { id: "gate", role: "note", "aria-label": "Gate" }, el(gate.failed ? "p.badtext" : "p", null, el("b", null, gate.title)),
    gate.limits.map(([limit, ...traces]) => [sentence("p", limit), traces.length > 0 && el("ul", null, traces.map((text) => sentence("li", text)))]));
}

// What the runs of a served page are called, one alone by its id, as a summary tells means that blind labelling hides; null where it is about none, or one of them is not there.
async function runNames() {
  const query = new URLSearchParams(location.search), pair = ["a", "b"].map((side) => query.get(side));
  const ids = pair.every(Boolean) ? pair : location.pathname.startsWith("/runs/") ? [decodeURIComponent(location.pathname.split("/")[2])] : query.getAll("run");
  try {
    const [a, b, ...others] = await Promise.all(ids.map(async (id) => id.startsWith("label:") ? id.slice(6) : ids.length === 1 ? id.slice(0, 8) : (await api(`/runs/${encodeURIComponent(id)}/summary`)).label || id.slice(0, 8)));
    return a && (pair.every(Boolean) ? phrase("app.against", { a, b }) : [a, b, ...others].filter(Boolean).join(", "));
  } catch (error) {
    if (error.status === 401) throw error;
    return null;
  }
}

// What stands there until a page is drawn: what it is about, and that its figures are on their way.
function showFrame(title, served) {
  root.replaceChildren(topBar(served), el("main", null, el("header.head", null, quoted("h1", title)), el("p.note", { id: "preparing", role: "status" }, phrase("app.preparing"))));
}

async function start() {
  try {
    const title = embedded ? document.title : await runNames();
    if (title) showFrame(title, !embedded);
    const data = embedded && (await inflate(JSON.parse(embedded.textContent)));
    const { page, script } = data || document.querySelector("meta[name=page]").dataset;
    if (!data) await import("./" + script);
    await PAGES.get(page)(root, data);
    if (data && data.gate) root.querySelector("main").prepend(gateOf(data.gate));
  } catch (error) {
    if (error.status === 401) return askToken(error.message);
    root.replaceChildren(el("main.lone", null, el("h1", null, phrase("app.failed")), el("p.warn", { role: "alert" }, error.message), embedded ? null : el("p", null, el("a", { href: "/" }, phrase("app.home")))));
    if (!error.status) console.error(error);
  }
}

document.body.append(root);
start();
