import { el, num, count } from "./dom.js";

const EVERY = 2000; // milliseconds between looks
const QUIET = 10; // seconds without news after which a rate is not believed
const LONG = 60; // and after which something is wrong

export function seconds(value) {
  if (value < 60) return count(Math.max(1, Math.round(value)), "second");
  const minutes = Math.round(value / 60);
  if (minutes < 60) return count(minutes, "minute");
  return minutes < 48 * 60 ? count(Math.round(minutes / 60), "hour") : count(Math.round(minutes / 1440), "day");
}

export function isGoing(run) { return ["submitted", "running"].includes(run.status); }
export function isQuiet(run) { return run.status === "running" && run.silent !== null && run.silent >= QUIET; }

export function rateWords(rate) {
  return rate === null ? "not known yet" : `${rate >= 10 ? Math.round(rate).toLocaleString("en") : rate.toFixed(1)} chunks a second`;
}

// How far a run is in a few words, for a list.
export function progressWords(run) {
  const progress = run.progress;
  if (run.status === "submitted") return "waits for its turn";
  const words = progress ? [`${progress.traces.toLocaleString("en")} of ${progress.total === null ? "?" : progress.total.toLocaleString("en")}`] : [];
  if (isQuiet(run)) words.push(`no news for ${seconds(run.silent)}`);
  else if (progress && progress.left !== null) words.push(`${seconds(progress.left)} left`);
  return words.join(", ");
}

function stat(name, value, bad) {
  return el(bad ? "div.stat.bad" : "div.stat", null, el("dt", null, name), el("dd", null, value));
}

// The top of a run's page while the run is judged, by this server or another process: how far, how fast, and
// its traces in the list below as they come. It looks for the first time when it is told to.
export function livePanel(source, list, signal) {
  const fill = el("i");
  const bar = el("div.gauge", { role: "progressbar", "aria-label": "traces judged", "aria-valuemin": 0 }, fill);
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
      say(`The run has ended: ${run.status}. `, false, el("button.quiet", { type: "button", onclick: () => location.reload() }, "Show it whole"));
      return false;
    }
    const done = progress ? progress.traces : now, total = progress ? progress.total : null;
    const of = total === null ? "" : ` of ${total.toLocaleString("en")}`;
    line.replaceChildren(el("b", null, run.status === "submitted" ? "Waiting for its turn to be judged" : quiet && run.silent >= LONG ? "Judged so far" : "Being judged"),
      run.status === "submitted" ? "" : `: ${done.toLocaleString("en")}${of} traces`);
    bar.hidden = !total;
    if (total) {
      bar.setAttribute("aria-valuemax", total);
      bar.setAttribute("aria-valuenow", done);
      fill.style.width = `${Math.min(100, (100 * done) / total)}%`;
    }
    const asked = progress ? progress.calls + progress.hits : 0;
    figures.replaceChildren(...(progress ? [
      stat("rate", quiet ? "–" : rateWords(progress.rate)),
      stat("time left", quiet || progress.left === null ? "–" : `about ${seconds(progress.left)}`),
      stat("from the cache", asked ? `${progress.hits.toLocaleString("en")} of ${count(asked, "answer")}` : "–"),
      stat("failed verdicts", progress.failed.toLocaleString("en"), progress.failed > 0),
      progress.retries > 0 ? stat("calls repeated", progress.retries.toLocaleString("en")) : "",
    ] : []));
    means.replaceChildren(...(found.some((m) => m.n) ? [el("span.dim", null, `So far, over ${count(now, "trace")}: `),
      ...found.map((m) => el("span.chip", null, m.name + " ", el("b", null, num(m.mean))))] : []));
    if (quiet) {
      say(`No news for ${seconds(run.silent < LONG ? 10 * Math.floor(run.silent / 10) : run.silent)}.` + (run.silent < LONG ? "" : " The process that judged this run has ended without a word, or stands still. "
        + "What it judged is kept: the same command with --resume goes on from here."), true);
    } else if (run.status === "running" && !progress) say("The process that judges it tells nothing of how fast it goes.");
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
    if (reading) fresh.textContent = read > shown ? `Show ${count(read - shown, "new trace")}` : "Show the traces anew";
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
        say(error.status ? error.message : "This server does not answer.", true);
      }
    }
    if (going && !signal.aborted) setTimeout(look, EVERY);
  }
  return { node, look };
}
