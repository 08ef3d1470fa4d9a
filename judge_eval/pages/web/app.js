import { el, phrase, PAGES } from "./dom.js";
import { setToken } from "./source.js";

const root = el("div", { id: "app" });
const embedded = document.getElementById("data");

function askToken(message) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  root.replaceChildren(el("main.lone", null, el("h1", null, "judge_eval"), el("p", null, message),
    el("form", { onsubmit: (event) => { event.preventDefault(); setToken(field.value.trim()); start(); } },
      el("label", { for: "token" }, "Token "), field, " ", el("button", { type: "submit" }, "Open"))));
}

async function start() {
  try {
    const data = embedded && JSON.parse(embedded.textContent);
    const { page, script } = data || document.querySelector("meta[name=page]").dataset;
    if (!data) await import("./" + script);
    await PAGES.get(page)(root, data);
  } catch (error) {
    if (error.status === 401) return askToken(error.message);
    root.replaceChildren(el("main.lone", null, el("h1", null, phrase("app.failed")), el("p.warn", { role: "alert" }, error.message), embedded ? null : el("p", null, el("a", { href: "/" }, phrase("app.home")))));
    if (!error.status) console.error(error);
  }
}

document.body.append(root);
start();
