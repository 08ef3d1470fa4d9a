import { el, page, topBar, phrase, quoted } from "./dom.js";
import { drawBlocks } from "./claims.js";
import { pageData } from "./source.js";

// Several runs as one pool: its sentence, the bars of who found what, then each run's scores and what is missed.
export async function poolPage(root, data) {
  const served = !data;
  data ??= await pageData("pool");
  document.title = data.title;
  const [opening, ...others] = data.sections;
  root.replaceChildren(topBar(served), el("main", null,
    el("header.head", null, quoted("h1", data.title), drawBlocks(opening.blocks.filter((block) => block.type !== "headline"), undefined, "h2")),
    others.map((section) => el("section.pooled", null, section.name === "added" && el("p.note", null, phrase("poolpage.legend")), drawBlocks(section.blocks, undefined, "h2")))));
  document.documentElement.dataset.ready = "true";
}

page("pool", poolPage);
