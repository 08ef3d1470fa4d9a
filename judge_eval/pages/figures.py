"""The head of a page and the cards of its metrics, as JSON."""

from collections.abc import Iterator

from judge_eval.runs.folder.describing import judged_by, models_of, prompt_of
from judge_eval.runs.folder.records import Aggregate, Manifest
from judge_eval.runs.scoring.aggregate import cutoff_of, less_is_better
from judge_eval.safe_text import counted
from judge_eval.views.blocks import JSON
from judge_eval.views.run_remarks import remarks_of

UNKNOWN = "–"


def head(manifest: Manifest) -> JSON:
    """Return the head of a page: the run, its judge, its size and its cost."""
    tally, remarks = manifest.tally, remarks_of(manifest)
    return {
        **manifest.model_dump(include={"id", "label", "href", "tags", "status"}),
        **tally.model_dump(include={"traces", "verdicts", "failed_traces", "unsupported", "stages"}),
        "created": manifest.created.isoformat(),
        "dataset": manifest.dataset.model_dump(include={"name", "digest"}),
        "model": models_of(manifest),
        "imported": judged_by(manifest) if manifest.imported else None,
        "prompt": prompt_of(manifest),
        "scale": manifest.judge.get("scale"),
        "failed": tally.failed_verdicts,
        "remarks": [{"about": r.about, "tone": r.tone, "text": r.text} for r in remarks],
        "cascade": [remark.text for remark in remarks if remark.about == "cascade"],
        "figures": list(_figures(manifest)),
    }


def without_figures(page: JSON) -> JSON:
    """Return the parts of a run's page that count no verdicts."""
    counted_there = {"verdicts", "failed", "failed_traces", "unsupported", "stages", "remarks", "cascade", "figures"}
    return {
        "head": {name: value for name, value in page["head"].items() if name not in counted_there},
        "baseline": None,
        "metrics": [metric_data(metric["name"], None, None) for metric in page["metrics"]],
        "words": page.get("words", {}),
        "provenance": [group for group in page["provenance"] if group["name"] not in ("tally", "results")],
        "shown": page.get("shown"),
        "live": page.get("live", False),
    }


def _figures(manifest: Manifest) -> Iterator[JSON]:
    """Yield what a page shows of a run's size and price: a name, a text, and whether it needs a look."""
    tally, asked = manifest.tally, manifest.tally.calls + manifest.tally.hits
    of = f" of {manifest.dataset.traces:,}" if manifest.dataset.traces > tally.traces else ""
    failed = f"{tally.failed_verdicts:,} in {counted(tally.failed_traces, 'trace')}" if tally.failed_verdicts else "0"
    finished = manifest.finished
    figures = {
        "queries": f"{tally.traces:,}{of}",
        "verdicts": f"{tally.verdicts:,}",
        "failed verdicts": failed,
        **{f"by the {stage} judge": f"{count:,}" for stage, count in tally.stages.items()},
        "from the cache": f"{tally.hits / asked:.0%}" if asked else UNKNOWN,
        "cost": "unknown" if tally.cost is None else _dollars(tally.cost),
        "time": _duration((finished - manifest.created).total_seconds()) if finished else UNKNOWN,
    }
    for name, text in figures.items():
        yield {"name": name, "text": text, "bad": name == "failed verdicts" and tally.failed_verdicts > 0}


def _dollars(cost: float) -> str:
    return "$0" if cost == 0 else f"${cost:.4f}" if cost < 0.01 else f"${cost:.2f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {seconds % 60:.0f} s"


def _notes(aggregate: Aggregate, less: bool, unsupported: int | None) -> Iterator[JSON]:
    """Yield what the card of a metric says below its mean: a text, what a pointer on it shows, its tone."""
    if less:
        yield {"text": "less is better", "title": "", "tone": "plain"}
    if expected := aggregate.n_expected:
        text = f"{counted(expected, 'trace')} with failed verdicts, by expected value"
        yield {"text": text, "title": "", "tone": "bad"}
    if without := aggregate.n_failed - aggregate.n_expected:
        yield {"text": f"{counted(without, 'trace')} without a value", "title": "", "tone": "bad"}
    if unsupported:
        title = "relevant verdicts whose quote is missing, too short or not in the chunk"
        text = f"counts {counted(unsupported, 'verdict')} without found evidence"
        yield {"text": text, "title": title, "tone": "plain"}
    if aggregate.n_failed and aggregate.bounds is not None and aggregate.headline != "bounds":
        title = "the least and the greatest mean that the failed verdicts could make"
        low, high = aggregate.bounds
        yield {"text": f"bounds [{low:.3f}, {high:.3f}]", "title": title, "tone": "plain"}


def metric_data(name: str, aggregate: Aggregate | None, pair: JSON | None, unsupported: int | None = None) -> JSON:
    """Return a metric's mean, interval, counts and notes, and its difference from a baseline."""
    less = less_is_better(name)
    metric: JSON = {"name": name, "cutoff": cutoff_of(name), "less_is_better": less}
    if aggregate is None:
        return {**metric, "mean": None, "n": 0, "n_failed": 0, "interval": None, "definition": ""}
    metric |= aggregate.model_dump(mode="json") | {"notes": list(_notes(aggregate, less, unsupported))}
    return metric | ({"pair": pair} if pair else {})
