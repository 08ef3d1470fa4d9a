import { el, phrase } from "./dom.js";

// A text of a few lines; where it has more, a button shows them.
export function clamped(node, lines) {
  node.classList.add("clamped");
  node.style.setProperty("--lines", String(lines));
  requestAnimationFrame(() => {
    if (!node.isConnected || node.scrollHeight <= node.clientHeight + 2) return;
    const button = el("button.linkish.unclamp", { type: "button", "aria-expanded": "false", onclick: () => {
      const open = node.classList.toggle("clamped") === false;
      button.setAttribute("aria-expanded", String(open));
      button.textContent = phrase(open ? "clamp.less" : "clamp.more");
    } }, phrase("clamp.more"));
    node.after(button);
  });
  return node;
}
