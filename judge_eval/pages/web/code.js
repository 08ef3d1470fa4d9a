const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;

// Where lines stand between fences, as in Markdown; a fence that is never closed reaches to the end.
function blocksIn(text) {
  const found = [];
  let open = null, from = 0;
  for (let start = 0; start <= text.length;) {
    const at = text.indexOf("\n", start), end = at < 0 ? text.length : at;
    const line = text.slice(start, end).replace(/\r$/, ""), [fence, signs] = FENCE.exec(line) || [""];
    if (open === null && signs) [open, from] = [signs, start];
    else if (signs && signs.startsWith(open) && !line.slice(fence.length).trim()) {
      found.push([from, Math.min(end + 1, text.length), true]);
      open = null;
    }
    start = end + 1;
  }
  return open === null ? found : [...found, [from, text.length, true]];
}

// Where runs of backticks of one length enclose something on one line.
function spansIn(text, from, to) {
  const found = [], runs = [...text.slice(from, to).matchAll(/`+|\n/g)].map((run) => [from + run.index, run[0].length, run[0] === "\n"]);
  let later = new Map();
  const close = runs.map(() => null);
  for (let i = runs.length - 1; i >= 0; i--) { // the next run of the same length, in one pass from the end
    const [, length, line] = runs[i];
    if (line) { later = new Map(); continue; }
    close[i] = later.get(length) ?? null;
    later.set(length, i);
  }
  for (let i = 0; i < runs.length; i++) {
    if (close[i] === null) continue;
    const [at, length] = runs[close[i]];
    found.push([runs[i][0], at + length, false]);
    i = close[i];
  }
  return found;
}

// Where a text is code: [from, to, whether it is a block], in order. Nothing in it becomes markup, and no sign is left out.
export function codeIn(text) {
  const blocks = blocksIn(text);
  const ends = [0, ...blocks.map((block) => block[1])];
  return ends.flatMap((from, i) => [...spansIn(text, from, blocks[i] ? blocks[i][0] : text.length), ...(blocks[i] ? [blocks[i]] : [])]);
}
