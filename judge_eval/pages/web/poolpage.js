import { el, page, topBar, phrase, quoted, markup } from "./dom.js";
import { pageData } from "./source.js";

// Several runs as one pool: its sentence, the bars of who found what, then each run's scores and what is missed.
export async function poolPage(root, data) {
  const served = !data;
  data ??= await pageData("pool");
  document.title = data.title;
  const [opening, ...others] = data.sections;
  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, quoted("h1", data.title), markup(opening.html)),
    others.map((section) => el("section.pooled", null, section.name === "added" && el("p.note", null, phrase("poolpage.legend")), markup(section.html)))));
  document.documentElement.dataset.ready = "true";
}

page("pool", poolPage);
