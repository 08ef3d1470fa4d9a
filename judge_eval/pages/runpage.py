"""The JSON behind a run's page: every number is computed here, pages only draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from judge_eval.alignment.matching import scale_up_to, tables_of
from judge_eval.alignment.reliability import reliability_of
from judge_eval.alignment.trust import at_their_word
from judge_eval.pages.claimgrid import missed_data
from judge_eval.pages.overview import Table
from judge_eval.pages.rows import JSON
from judge_eval.runs.columns.packed import WHYS
from judge_eval.runs.folder.describing import cascaded, judged_by, models_of, prompt_of
from judge_eval.runs.folder.records import Aggregate, Manifest
from judge_eval.runs.scoring.aggregate import cutoff_of, less_is_better, limits_of
from judge_eval.stats import Estimate, agreement_of, breakdown

BINS = 20
_FIGURES = ("kappa", "kappa_linear", "kappa_quadratic", "ac1", "accuracy", "bias")


def head(manifest: Manifest) -> JSON:
    """Return what stands at the top of a page: which run, by whom, how much, at what cost."""
    tally, asked = manifest.tally, manifest.tally.calls + manifest.tally.hits
    finished = manifest.finished
    return {
        "id": manifest.id,
        "label": manifest.label,
        "href": manifest.href,
        "tags": manifest.tags,
        "status": manifest.status,
        "created": manifest.created.isoformat(),
        "seconds": (finished - manifest.created).total_seconds() if finished else None,
        "dataset": {"name": manifest.dataset.name, "digest": manifest.dataset.digest},
        "model": models_of(manifest).rstrip("/"),
        "imported": judged_by(manifest) if manifest.imported else None,
        "prompt": prompt_of(manifest),
        "scale": manifest.judge.get("scale"),
        "traces": tally.traces,
        "of": manifest.dataset.traces,
        "verdicts": tally.verdicts,
        "failed": tally.failed_verdicts,
        "failed_traces": tally.failed_traces,
        "unsupported": tally.unsupported,
        "stages": tally.stages,
        "cascade": cascaded(manifest),
        "beyond_total": tally.beyond_total,
        "cached": tally.hits / asked if asked else None,
        "calls": tally.calls,
        "cost": tally.cost,
        "tokens": tally.input_tokens + tally.output_tokens,
        "skipped": manifest.dataset.skipped,
    }


_NAMED = (
    *("id", "label", "href", "tags", "status", "created", "dataset", "model", "imported", "prompt", "scale"),
    *("traces", "of"),
)


def bare_head(whole: JSON) -> JSON:
    """Return of a page's head which run it is, and nothing of what came of it."""
    return {name: whole[name] for name in _NAMED}


def live_page(manifest: Manifest, metrics: Sequence[str]) -> JSON:
    """Return what the page of a run shows that is judged: no figures, which come when it has ended."""
    return {
        "head": bare_head(head(manifest)),
        "baseline": None,
        "metrics": [metric_data(name, None, None) for name in metrics],
        "provenance": [group for group in provenance(manifest) if group["name"] != "tally"],
        "shown": None,
        "live": True,
    }


def run_page(
    table: Table,
    baseline: Manifest | None = None,
    pairs: Mapping[str, JSON] = {},
    opening: JSON | None = None,
) -> JSON:
    """Return everything of a run's page but its rows and traces.

    Args:
        table: The run.
        baseline: The run it is compared with, where there is one.
        pairs: By metric, the paired comparison with that run.
        opening: What is to be said first of that comparison.
    """
    manifest = table.run.manifest
    return {
        "head": head(manifest),
        "baseline": None if baseline is None else head(baseline),
        "opening": opening,
        "metrics": [
            metric_data(name, manifest.aggregates.get(name), pairs.get(name)) for name in table.metrics
        ],
        "histograms": {name: histogram(table, name) for name in table.metrics},
        "by_tag": {name: by_tag(table, name) for name in table.metrics},
        "agreement": agreement(table),
        "failures": failed_verdicts(table),
        "claims": missed_data(table.run),
        "provenance": provenance(manifest),
        "shown": None if table.whole else {"n": len(table.rows), "of": len(table.columns)},
    }


def metric_data(name: str, aggregate: Aggregate | None, pair: JSON | None) -> JSON:
    """Return a metric's mean, interval and counts, with its difference from the baseline where given."""
    told: JSON = {"name": name, "cutoff": cutoff_of(name), "less_is_better": less_is_better(name)}
    if aggregate is None:
        return {**told, "mean": None, "n": 0, "n_failed": 0, "interval": None, "definition": ""}
    return {**told, **aggregate.model_dump(mode="json"), **({"pair": pair} if pair else {})}


def estimate_data(estimate: Estimate) -> JSON:
    """Return an estimate as JSON."""
    interval = estimate.interval and [estimate.interval.low, estimate.interval.high]
    return {"value": estimate.value, "interval": interval, "n": estimate.n}


def histogram(table: Table, metric: str) -> JSON:
    """Count the traces by score, in 20 bins over [0, 1] (over the scores' range where they go beyond)."""
    scores = table.columns.column(metric)
    values = scores[~np.isnan(scores)]
    span = float(values.min(initial=0.0)), float(values.max(initial=1.0))
    counts, edges = np.histogram(values, bins=BINS, range=span)
    missing = len(table.columns) - int(values.size)
    return {"counts": counts.tolist(), "edges": edges.tolist(), "missing": missing}


def by_tag(table: Table, metric: str) -> list[JSON]:
    """Return the mean of the traces of each tag with its interval and n, the most frequent tag first."""
    known = table.run.manifest.aggregates.get(metric)
    if known is not None and known.tags:
        counted = sorted(known.tags.items(), key=lambda pair: -pair[1].n)
        return [{"tag": tag, "value": t.mean, "interval": t.interval, "n": t.n} for tag, t in counted]
    if not table.whole:  # runs of this size tell of their tags
        return []
    rows = [(row, value) for row in table.rows if (value := row.scores.get(metric)) is not None]
    values, tags = [value for _, value in rows], [row.tags for row, _ in rows]
    estimates = breakdown(values, tags, limits=limits_of(metric))
    return [
        {"tag": tag, **estimate_data(each)}
        for tag, each in sorted(estimates.items(), key=lambda pair: -pair[1].n)
    ]


def agreement(table: Table) -> JSON | None:
    """Return the confusion matrix, the figures of agreement and the disagreements; None without labels."""
    both, columns = table.labelled, table.columns
    if not both.any():
        return None
    judged, human = columns.grades[both], columns.labels[both]
    top = max(table.scale.maximum, int(human.max()))
    categories = list(range(top + 1))
    tables, _ = tables_of(judged, human, columns.rows[both], top + 1)
    figures = agreement_of(tables, np.array(categories, dtype=np.float64), replicates=1000)
    graded = top > 1
    names = [name for name in _FIGURES if graded or not name.startswith("kappa_")]
    names += [f"{name}_ge{table.scale.relevant}" for name in ("kappa", "precision", "recall") if graded]
    names += [] if graded else ["precision_ge1", "recall_ge1"]
    _, least = scale_up_to(int(human.max()), "the dataset", table.scale, None)
    reliability = reliability_of(columns.probabilities[both], human >= least, columns.rows[both])
    off = table.off
    listed = [
        {**place, "grade": o.grade, "relevant": o.relevant, "label": chunk.label, "reason": o.explanation}
        for place, chunk, o in table.listed(off)
        if o.kind == "verdict"
    ]
    return {
        "categories": categories,
        "matrix": tables.sum(axis=0).astype(int).tolist(),
        "figures": [{"name": name, **estimate_data(figures[name])} for name in names if name in figures],
        "pairs": len(human),
        "certainty": at_their_word(reliability),
        "reliability": None if reliability is None else reliability.model_dump(mode="json"),
        "count": int(off.sum()),
        "list": listed,
    }


def failed_verdicts(table: Table) -> JSON:
    """Return how many verdicts failed, why, and the first of them."""
    grades = table.columns.grades
    counts = Counter({why: int((grades == -1 - code).sum()) for code, why in enumerate(WHYS)})
    listed = [
        {**place, "why": outcome.why, "detail": outcome.detail}
        for place, _, outcome in table.listed(grades < 0)
        if outcome.kind == "no_verdict"
    ]
    whys = {why: count for why, count in counts.most_common() if count}
    return {"count": counts.total(), "whys": whys, "list": listed}


def provenance(manifest: Manifest) -> list[JSON]:
    """Return everything that could change a number, as groups of names with values."""
    record = manifest.model_dump(mode="json", exclude={"aggregates", "metrics"})
    plain = {name: value for name, value in record.items() if not isinstance(value, dict)}
    groups: list[JSON] = [{"name": "run", "rows": list(_flat(plain))}]
    parts = ("dataset", "judge", "backend", "environment", "tally")
    groups += [{"name": name, "rows": list(_flat(record[name]))} for name in parts]
    definitions = [[name, a.definition] for name, a in manifest.aggregates.items()]
    return [*groups, {"name": "metrics", "rows": definitions}]


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], {}):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield [prefix + name, text]
