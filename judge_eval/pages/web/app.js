import { el } from "./dom.js";
import { EmbeddedRun, EmbeddedCompare, ServedRun, ServedCompare, setToken } from "./source.js";
import { runPage } from "./runpage.js";
import { comparePage } from "./comparepage.js";
import { EmbeddedMatrix, ServedMatrix, matrixPage } from "./matrixpage.js";

const root = el("div", { id: "app" });

async function served() {
  const query = new URLSearchParams(location.search);
  const run = /^\/runs\/([^/]+)$/.exec(location.pathname);
  if (run) return runPage(root, new ServedRun(decodeURIComponent(run[1]), query.get("baseline"), query.get("blind") === "1"), true);
  if (location.pathname === "/compare") return comparePage(root, new ServedCompare(query.get("a"), query.get("b")), true);
  if (location.pathname === "/matrix") return matrixPage(root, new ServedMatrix(query.getAll("run")), true);
  if (location.pathname === "/docs") return (await import("./docspage.js")).docsPage(root);
  return (await import("./runspage.js")).runsPage(root);
}

function askToken(message) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  root.replaceChildren(el("main.lone", null, el("h1", null, "judge_eval"), el("p", null, message),
    el("form", { onsubmit: (event) => { event.preventDefault(); setToken(field.value.trim()); start(); } },
      el("label", { for: "token" }, "Token "), field, " ", el("button", { type: "submit" }, "Open"))));
}

async function start() {
  const embedded = document.getElementById("data");
  try {
    if (!embedded) await served();
    else {
      const data = JSON.parse(embedded.textContent);
      if (data.page === "matrix") await matrixPage(root, new EmbeddedMatrix(data), false);
      else if (data.page === "run") await runPage(root, new EmbeddedRun(data), false);
      else await comparePage(root, new EmbeddedCompare(data), false);
    }
  } catch (error) {
    if (error.status === 401) return askToken(error.message);
    root.replaceChildren(el("main.lone", null, el("h1", null, "This page cannot be shown"), el("p.warn", { role: "alert" }, error.message), embedded ? null : el("p", null, el("a", { href: "/" }, "All runs"))));
    if (!error.status) console.error(error);
  }
}

document.body.append(root);
start();
