"""The JSON behind a run's page: every number is computed here, pages only draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from judge_eval.runs.aggregate import inside, limits_of
from judge_eval.runs.cards import main_metric
from judge_eval.runs.columnar import columns_of
from judge_eval.runs.columns import WHYS, Columns, Packer
from judge_eval.runs.labelled import MOST_GRADE, tables_of
from judge_eval.runs.records import Aggregate, Manifest, TraceResult
from judge_eval.runs.rescore import scale_of
from judge_eval.runs.rows import Row, row_of
from judge_eval.runs.run import EvalRun
from judge_eval.schema import Chunk, Outcome, Scale
from judge_eval.stats import Estimate, agreement_of, breakdown

JSON: TypeAlias = dict[str, Any]

BINS = 20
LISTED = 1_000
"""The most disagreements and failures a page lists; the counts are of all."""
_FIGURES = ("kappa", "kappa_linear", "kappa_quadratic", "ac1", "accuracy", "bias")


@dataclass(eq=False)
class Table:
    """The rows of a run with the columns that its figures are made of.

    Args:
        run: The run; read once from start to end where all of its rows are wanted.
        most: The most rows to hold; a larger run has rows of the traces that need a look first: those
            without a value, then those with the lowest score. None takes all.
    """

    run: EvalRun
    most: int | None = None
    rows: list[Row] = field(init=False, default_factory=list)
    places: list[int] = field(init=False, default_factory=list)
    """Where each row's trace stands among the results."""
    columns: Columns = field(init=False)
    scale: Scale = field(init=False)

    def __post_init__(self) -> None:
        self.scale = scale_of(self.run)
        names, key = self.run.manifest.metrics, self.run.manifest.intervals.cluster
        if self.most is not None and len(self.run.results) > self.most:
            self.columns = columns_of(self.run, names, key)
            scores = self.columns.column(self.metrics[0]) if self.metrics else np.zeros(len(self.columns))
            worst = np.where(np.isnan(scores), -np.inf, scores)
            self.take(np.lexsort((-self.columns.per_trace(self.off), worst))[: self.most].tolist())
            return
        packer = Packer(names, key)
        for result in self.run.results:
            packer.add(result)
            self.rows.append(row_of(result, self.scale))
        self.columns = packer.done()
        self.places = list(range(len(self.rows)))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The run's metrics, the one a page leads with first."""
        names = self.run.manifest.metrics
        lead = main_metric(names)
        return names if lead is None else (lead, *(name for name in names if name != lead))

    @property
    def whole(self) -> bool:
        """Whether there is a row of every trace."""
        return len(self.rows) == len(self.columns)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which chunks have a verdict and a label that is a grade."""
        labels = self.columns.labels
        return np.asarray((self.columns.grades >= 0) & (labels >= 0) & (labels <= MOST_GRADE))

    @property
    def off(self) -> NDArray[np.bool_]:
        """Which chunks have a label that disagrees with the verdict on relevance."""
        least = self.scale.relevant
        differs = (self.columns.labels >= least) != (self.columns.grades >= least)
        return np.asarray(self.labelled & differs)

    def take(self, places: Sequence[int]) -> None:
        """Hold the rows of these traces, and no others."""
        self.places = sorted(places)
        self.rows = [row_of(self.run.results[place], self.scale) for place in self.places]

    def told(self, chunks: NDArray[np.bool_]) -> Iterator[tuple[JSON, Chunk, Outcome]]:
        """Yield where some chunks stand, what they are and what came of them; the first `LISTED` of them."""
        result: TraceResult | None = None
        last = -1
        for chunk in np.flatnonzero(chunks)[:LISTED].tolist():
            row = int(np.searchsorted(self.columns.starts, chunk, side="right")) - 1
            if result is None or row != last:
                result, last = self.run.results[row], row
            rank = chunk - int(self.columns.starts[row])
            place = {"trace": result.trace_id, "rank": rank + 1, "chunk": result.trace.chunks[rank].id}
            yield place, result.trace.chunks[rank], result.outcomes[rank]


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
        "prompt": f"{prompt.get('id')}@{prompt.get('version')}" if isinstance(prompt, dict) else None,
        "scale": manifest.judge.get("scale"),
        "traces": tally.traces,
        "of": manifest.dataset.traces,
        "verdicts": tally.verdicts,
        "failed": tally.failed_verdicts,
        "failed_traces": tally.failed_traces,
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
        "failures": failures(table),
        "provenance": provenance(manifest),
        "shown": None if table.whole else {"n": len(table.rows), "of": len(table.columns)},
    }


def metric_data(name: str, found: Aggregate | None, pair: JSON | None) -> JSON:
    """Return a metric's mean, interval and counts, with its difference from the baseline where given."""
    if found is None:
        return {"name": name, "mean": None, "n": 0, "n_failed": 0, "interval": None, "definition": ""}
    told: JSON = found.model_dump(mode="json")
    return {"name": name, **told, **({"pair": pair} if pair else {})}


def estimate_data(estimate: Estimate) -> JSON:
    """Return an estimate as JSON."""
    interval = estimate.interval
    return {
        "value": estimate.value,
        "interval": None if interval is None else [interval.low, interval.high],
        "n": estimate.n,
    }


def histogram(table: Table, metric: str) -> JSON:
    """Count the traces by score, in 20 bins over [0, 1] (over the scores' range where they go beyond)."""
    scores = table.columns.column(metric)
    values = scores[~np.isnan(scores)]
    low, high = (0.0, 1.0)
    if values.size:
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    counts, edges = np.histogram(values, bins=BINS, range=(low, high))
    return {
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "missing": len(table.columns) - int(values.size),
    }


def by_tag(table: Table, metric: str) -> list[JSON]:
    """Return the mean of the traces of each tag with its interval and n, the most frequent tag first."""
    known = table.run.manifest.aggregates.get(metric)
    if known is not None and known.tags:
        told = sorted(known.tags.items(), key=lambda pair: -pair[1].n)
        return [{"tag": tag, "value": t.mean, "interval": t.interval, "n": t.n} for tag, t in told]
    if not table.whole:  # runs of this size tell of their tags
        return []
    rows = [(row, value) for row in table.rows if (value := row.scores.get(metric)) is not None]
    found = breakdown([value for _, value in rows], [row.tags for row, _ in rows])
    often = sorted(found.items(), key=lambda pair: -pair[1].n)
    rows_of: list[JSON] = []
    for tag, estimate in often:
        estimate = replace(estimate, interval=inside(estimate.interval, limits_of(metric)))
        rows_of.append({"tag": tag, **estimate_data(estimate)})
    return rows_of


def agreement(table: Table) -> JSON | None:
    """Return the confusion matrix, the figures of agreement and the disagreements; None without labels."""
    both, columns = table.labelled, table.columns
    if not both.any():
        return None
    judged, human = columns.grades[both], columns.labels[both]
    top = max(table.scale.maximum, int(human.max()))
    categories = list(range(top + 1))
    tables, _ = tables_of(judged, human, columns.rows[both], top + 1)
    found = agreement_of(tables, np.array(categories, dtype=np.float64), replicates=1000)
    graded = top > 1
    names = [name for name in _FIGURES if graded or not name.startswith("kappa_")]
    names += [f"{name}_ge{table.scale.relevant}" for name in ("kappa", "precision", "recall") if graded]
    names += [] if graded else ["precision_ge1", "recall_ge1"]
    off = table.off
    listed = [
        {**place, "grade": o.grade, "relevant": o.relevant, "label": chunk.label, "reason": o.reason}
        for place, chunk, o in table.told(off)
        if o.kind == "verdict"
    ]
    return {
        "categories": categories,
        "matrix": tables.sum(axis=0).astype(int).tolist(),
        "figures": [{"name": name, **estimate_data(found[name])} for name in names if name in found],
        "pairs": len(human),
        "count": int(off.sum()),
        "list": listed,
    }


def failures(table: Table) -> JSON:
    """Return how many verdicts failed, why, and the first of them."""
    grades = table.columns.grades
    counts = Counter({why: int((grades == -1 - code).sum()) for code, why in enumerate(WHYS)})
    listed = [
        {**place, "why": outcome.why, "detail": outcome.detail}
        for place, _, outcome in table.told(grades < 0)
        if outcome.kind == "no_verdict"
    ]
    whys = {why: count for why, count in counts.most_common() if count}
    return {"count": counts.total(), "whys": whys, "list": listed}


def provenance(manifest: Manifest) -> list[JSON]:
    """Return everything that could change a number, as groups of names with values."""
    told = manifest.model_dump(mode="json", exclude={"aggregates", "metrics"})
    plain = {name: value for name, value in told.items() if not isinstance(value, dict)}
    groups: list[JSON] = [{"name": "run", "rows": list(_flat(plain))}]
    parts = ("dataset", "judge", "backend", "environment", "tally")
    groups += [{"name": name, "rows": list(_flat(told[name]))} for name in parts]
    definitions = [[name, a.definition] for name, a in manifest.aggregates.items()]
    return [*groups, {"name": "metrics", "rows": definitions}]


def _flat(told: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    for name, value in told.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], {}):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield [prefix + name, text]
