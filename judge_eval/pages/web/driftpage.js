import { el, page, topBar, phrase } from "./dom.js";
import { trend } from "./trend.js";
import { api } from "./source.js";

// Judges under observation: the verdict of each history, and its looks in time.
export async function driftPage(root) {
  document.title = phrase("driftpage.title");
  const histories = await api("/drift");
  root.replaceChildren(topBar(true), el("main", null,
    el("header.head", null, el("h1", null, phrase("driftpage.head")), !histories.length && el("p.sub", null, phrase("driftpage.none"))),
    histories.map((told) => el("section.panel", null, el("h2", { dir: "auto" }, told.name),
      el("p", null, el("b", null, told.verdict), `: ${told.why}`),
      trend(told.points.map((p) => ({ ...p, href: "#" })), phrase(told.labelled ? "driftpage.right" : "driftpage.relevant"), null)))));
  document.documentElement.dataset.ready = "true";
}

page("drift", driftPage);
