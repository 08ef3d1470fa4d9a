"""The JSON behind a run's page: every number is computed here, pages only draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from judge_eval.alignment.matching import tables_of
from judge_eval.pages.overview import Table
from judge_eval.pages.rows import JSON
from judge_eval.runs.columns.packed import WHYS
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.records import Aggregate, Manifest
from judge_eval.runs.scoring.aggregate import limits_of
from judge_eval.stats import Estimate, agreement_of, breakdown

BINS = 20
_FIGURES = ("kappa", "kappa_linear", "kappa_quadratic", "ac1", "accuracy", "bias")


def head(manifest: Manifest) -> JSON:
    """Return what stands at the top of a page: which run, by whom, how much, at what cost."""
    tally, asked = manifest.tally, manifest.tally.calls + manifest.tally.hits
    prompt = manifest.judge.get("prompt")
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
        "model": f"{manifest.backend.get('provider')}/{manifest.backend.get('model')}".rstrip("/"),
        "imported": judged_by(manifest) if manifest.imported else None,
        "prompt": f"{prompt.get('id')}@{prompt.get('version')}" if isinstance(prompt, dict) else None,
        "scale": manifest.judge.get("scale"),
        "traces": tally.traces,
        "of": manifest.dataset.traces,
        "verdicts": tally.verdicts,
        "failed": tally.failed_verdicts,
        "failed_traces": tally.failed_traces,
        "unsupported": tally.unsupported,
        "beyond_total": tally.beyond_total,
        "cached": tally.hits / asked if asked else None,
        "calls": tally.calls,
        "cost": tally.cost,
        "tokens": tally.input_tokens + tally.output_tokens,
        "skipped": manifest.dataset.skipped,
    }


def run_page(table: Table, baseline: Manifest | None = None, pairs: Mapping[str, JSON] = {}) -> JSON:
    """Return everything of a run's page but its rows and traces.

    Args:
        table: The run.
        baseline: The run it is compared with, where there is one.
        pairs: By metric, the paired comparison with that run.
    """
    manifest = table.run.manifest
    return {
        "head": head(manifest),
        "baseline": None if baseline is None else head(baseline),
        "metrics": [
            metric_data(name, manifest.aggregates.get(name), pairs.get(name)) for name in table.metrics
        ],
        "histograms": {name: histogram(table, name) for name in table.metrics},
        "by_tag": {name: by_tag(table, name) for name in table.metrics},
        "agreement": agreement(table),
        "failures": failed_verdicts(table),
        "provenance": provenance(manifest),
        "shown": None if table.whole else {"n": len(table.rows), "of": len(table.columns)},
    }


def metric_data(name: str, aggregate: Aggregate | None, pair: JSON | None) -> JSON:
    """Return a metric's mean, interval and counts, with its difference from the baseline where given."""
    if aggregate is None:
        return {"name": name, "mean": None, "n": 0, "n_failed": 0, "interval": None, "definition": ""}
    return {"name": name, **aggregate.model_dump(mode="json"), **({"pair": pair} if pair else {})}


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
    off = table.off
    listed = [
        {**place, "grade": o.grade, "relevant": o.relevant, "label": chunk.label, "reason": o.reason}
        for place, chunk, o in table.listed(off)
        if o.kind == "verdict"
    ]
    return {
        "categories": categories,
        "matrix": tables.sum(axis=0).astype(int).tolist(),
        "figures": [{"name": name, **estimate_data(figures[name])} for name in names if name in figures],
        "pairs": len(human),
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
