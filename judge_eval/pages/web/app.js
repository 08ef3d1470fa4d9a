import { el, phrase, quoted, PAGES } from "./dom.js";
import { inflate, setToken } from "./source.js";

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
  return el("section.banner", { id: "gate", role: "note", "aria-label": "Gate" }, el("p.badtext", null, el("b", null, gate.title)),
    gate.limits.map(([limit, ...traces]) => [quoted("p", limit), traces.length > 0 && el("ul", null, traces.map((text) => quoted("li", text)))]));
}

async function start() {
  try {
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
