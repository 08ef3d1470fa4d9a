import { el, phrase, shownMean } from "./dom.js";

const EVERY = 2000; // milliseconds between looks
const QUIET = 10; // seconds without news after which a rate is not believed
const LONG = 60; // and after which something is wrong

export function seconds(value) {
  if (value < 60) return phrase("livepanel.second", { n: Math.max(1, Math.round(value)) });
  const minutes = Math.round(value / 60);
  if (minutes < 60) return phrase("livepanel.minute", { n: minutes });
  return minutes < 48 * 60 ? phrase("livepanel.hour", { n: Math.round(minutes / 60) }) : phrase("livepanel.day", { n: Math.round(minutes / 1440) });
}

export function isGoing(run) { return ["submitted", "running"].includes(run.status); }
export function isQuiet(run) { return run.status === "running" && run.silent !== null && run.silent >= QUIET; }

export function rateWords(rate) {
  return rate === null ? phrase("livepanel.unknown") : phrase("livepanel.rate", { rate: rate >= 10 ? Math.round(rate) : rate.toFixed(1) });
}

// How far a run is in a few words, for a list.
export function progressWords(run) {
  const progress = run.progress;
  if (run.status === "submitted") return phrase("livepanel.wait");
  const words = progress ? [phrase("livepanel.part", { done: progress.traces, total: progress.total ?? "?" })] : [];
  if (isQuiet(run)) words.push(phrase("livepanel.quiet", { time: seconds(run.silent) }));
  else if (progress && progress.left !== null) words.push(phrase("livepanel.later", { time: seconds(progress.left) }));
  return words.join(", ");
}

function stat(name, value, bad) {
  return el(bad ? "div.stat.bad" : "div.stat", null, el("dt", null, name), el("dd", null, value));
}

// The top of a run's page while the run is judged, by this server or another process: how far, how fast, and
// its traces in the list below as they come. It looks for the first time when it is told to.
export function livePanel(source, list, signal) {
  const fill = el("i");
  const bar = el("div.gauge", { role: "progressbar", "aria-label": phrase("livepanel.gauge"), "aria-valuemin": 0 }, fill);
  const line = el("p.how"), figures = el("dl.stats"), means = el("p.chips.sofar"), state = el("p.state", { role: "status" });
  const fresh = el("button.quiet", { type: "button", hidden: true, onclick: () => { shown = read; fresh.hidden = true; list.refresh(); } });
  const node = el("section.panel.live", { id: "going", "aria-label": "Progress" }, line, bar, figures, means, state, fresh);
  let read = 0, shown = 0, said = "";

  function say(text, bad, ...more) {
    if (text === said) return; // what did not change is not said again
    said = text;
    state.className = bad ? "state warn" : "state";
    state.replaceChildren(text, ...more);
  }

  function draw({ run, means: found, read: now }) {
    const progress = run.progress, quiet = isQuiet(run);
    if (!isGoing(run)) {
      node.classList.add("ended");
      line.textContent = "";
      bar.hidden = fresh.hidden = true;
      figures.replaceChildren();
      say(phrase("livepanel.ended", { status: run.status }), false, " ", el("button.quiet", { type: "button", onclick: () => location.reload() }, phrase("livepanel.whole")));
      return false;
    }
    const done = progress ? progress.traces : now, total = progress ? progress.total : null;
    line.replaceChildren(el("b", null, phrase(`livepanel.${run.status === "submitted" ? "submitted" : quiet && run.silent >= LONG ? "done" : "going"}`)),
      ...(run.status === "submitted" ? [] : [": ", phrase(total === null ? "livepanel.some" : "livepanel.of", { done, total })]));
    bar.hidden = !total;
    if (total) {
      bar.setAttribute("aria-valuemax", total);
      bar.setAttribute("aria-valuenow", done);
      fill.style.width = `${Math.min(100, (100 * done) / total)}%`;
    }
    const asked = progress ? progress.calls + progress.hits : 0;
    figures.replaceChildren(...(progress ? [
      stat("rate", quiet ? "–" : rateWords(progress.rate)),
      stat(phrase("livepanel.left"), quiet || progress.left === null ? "–" : phrase("livepanel.about", { time: seconds(progress.left) })),
      stat(phrase("livepanel.cache"), asked ? phrase("livepanel.hits", { hits: progress.hits, n: asked }) : "–"),
      stat(phrase("livepanel.failed"), progress.failed.toLocaleString("en"), progress.failed > 0),
      progress.retries > 0 ? stat(phrase("livepanel.repeated"), progress.retries.toLocaleString("en")) : "",
    ] : []));
    means.replaceChildren(...(found.some((m) => m.n) ? [el("span.dim", null, phrase("livepanel.means", { traces: phrase("dom.traces", { n: now }) })), " ",
      ...found.map((m) => el("span.chip", null, m.name + " ", el("b", null, shownMean(m))))] : []));
    if (quiet) {
      const news = phrase("livepanel.quiet_now", { time: seconds(run.silent < LONG ? 10 * Math.floor(run.silent / 10) : run.silent) });
      say(run.silent < LONG ? news : `${news} ${phrase("livepanel.dead")}`, true);
    } else if (run.status === "running" && !progress) say(phrase("livepanel.mute"));
    else say("");
    take(now);
    return true;
  }

  // New traces come into the list by themselves, unless somebody reads or filters it: then they are offered.
  function take(now) {
    read = now;
    if (!list.box.value) shown = list.total;
    if (read === shown) {
      fresh.hidden = true;
      return;
    }
    const reading = list.box.value || list.view.scrollTop > 0 || list.rows.length > 100 || list.list.contains(document.activeElement);
    fresh.hidden = !reading;
    if (reading) fresh.textContent = phrase(read > shown ? "livepanel.fresh" : "livepanel.again", { n: read - shown });
    else {
      shown = read;
      list.refresh();
    }
  }

  async function look() {
    if (signal.aborted) return;
    let going = true;
    if (!document.hidden) {
      try {
        going = draw(await source.live());
      } catch (error) {
        say(error.status ? error.message : phrase("livepanel.unreachable"), true);
      }
    }
    if (going && !signal.aborted) setTimeout(look, EVERY);
  }
  return { node, look };
}
