"""The JSON behind a run's page: every number is computed here, pages only draw."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from judge_eval.data.labels import scale_of_labels
from judge_eval.errors import DataError
from judge_eval.pages.card import card_page
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.figures import head, metric_data, without_figures
from judge_eval.pages.page import Page, PageData, PageSettings
from judge_eval.pages.rows import Table
from judge_eval.runs.columns.verdict_table import WHYS, cluster_codes
from judge_eval.runs.folder.labels import with_labels
from judge_eval.runs.folder.records import Manifest, SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.runs.judging.recall import Memory
from judge_eval.runs.scoring.aggregate import limits_of
from judge_eval.runs.scoring.missedclaims import missed_claims
from judge_eval.runs.scoring.slices import run_slices
from judge_eval.stats import Figure, agreement_of, breakdown
from judge_eval.study.agree import agree, agreement_slices, reliability_of
from judge_eval.study.matching import by_unit, tables_of
from judge_eval.views.agreement import agreement_sentences, certainty_sentence, figure_name
from judge_eval.views.blocks import JSON
from judge_eval.views.comparison import CHANGE_WORDS
from judge_eval.views.missing import missing_sections
from judge_eval.views.page_html import page_html, sections_html
from judge_eval.views.run import claim_blocks, reranker_sections
from judge_eval.views.slices import SLICES, slice_sections

_FIGURES = ("kappa", "kappa_linear", "kappa_quadratic", "ac1", "accuracy", "bias")


def live_page(manifest: Manifest, metrics: Sequence[str]) -> JSON:
    """Return what the page of a run shows that is judged: no figures, which come when it has ended."""
    names = [{"name": name} for name in metrics]
    shown = {"head": head(manifest), "metrics": names, "provenance": provenance(manifest), "live": True}
    return without_figures(shown)


def run_page(table: Table, compared: ComparedRuns | None = None, by: Sequence[SliceBy] = ()) -> JSON:
    """Return everything of a run's page, compared with a baseline or not, but its rows and traces."""
    pairs = {} if compared is None else compared.metrics
    baseline = None if compared is None else compared.baseline.run.manifest
    manifest, missed = table.run.manifest, missed_claims(table.run.results)
    parts = {
        "Missing": sections_html(missing_sections(table.run)),
        "Reranker": sections_html(reranker_sections(table.run)),
    }
    return {
        "head": head(manifest),
        "baseline": None if baseline is None else head(baseline),
        "opening": None if compared is None else compared.opening("This run"),
        "metrics": [
            metric_data(name, manifest.aggregates.get(name), pairs.get(name), manifest.tally.unsupported)
            for name in table.metrics
        ],
        "histograms": {name: _histogram(table, name) for name in table.metrics},
        "by_tag": {name: _by_tag(table, name) for name in table.metrics},
        "slices": _slices(table, by),
        "agreement": _agreement(table, by),
        "failures": failed_verdicts(table),
        "claims": None
        if missed is None
        else {"count": missed.counts.known + missed.counts.unknown, "html": page_html(claim_blocks(missed))},
        "parts": [{"title": title, "html": html} for title, html in parts.items() if html],
        "words": {} if baseline is None else CHANGE_WORDS,
        "provenance": provenance(manifest),
        "shown": None if table.whole else {"n": len(table.rows), "of": len(table.columns)},
    }


def _estimate_data(estimate: Figure) -> JSON:
    interval = estimate.interval and [estimate.interval.low, estimate.interval.high]
    return {"value": estimate.value, "interval": interval, "n": estimate.n}


def _histogram(table: Table, metric: str) -> JSON:
    """Count the traces by score, in 20 bins over [0, 1] (over the scores' range if they go beyond)."""
    scores = table.columns.column(metric)
    values = scores[~np.isnan(scores)]
    span = float(values.min(initial=0.0)), float(values.max(initial=1.0))
    counts, edges = np.histogram(values, bins=20, range=span)
    missing = len(table.columns) - int(values.size)
    return {"counts": counts.tolist(), "edges": edges.tolist(), "missing": missing}


def _by_tag(table: Table, metric: str) -> list[JSON]:
    """Return the mean of the traces of each tag with its interval and n, the most frequent tag first."""
    known = table.run.manifest.aggregates.get(metric)
    if known is not None and known.tags:
        counted = sorted(known.tags.items(), key=lambda pair: -pair[1].n)
        return [{"tag": tag, "value": t.mean, "interval": t.interval, "n": t.n} for tag, t in counted]
    if not table.whole:  # runs of this size tell of their tags
        return []
    rows = [(row, value) for row in table.rows if (value := row.scores.get(metric)) is not None]
    values, tags = [value for _, value in rows], [row.tags for row, _ in rows]
    estimates = breakdown(values, tags, limits=limits_of(metric, values))
    return [
        {"tag": tag, **_estimate_data(each)} for tag, each in sorted(estimates.items(), key=lambda pair: -pair[1].n)
    ]


def _slices(table: Table, by: Sequence[SliceBy] = ()) -> JSON:
    kinds = table.sliced_by(by)
    figures = run_slices(table.run, kinds) if kinds else []
    listed = {name: slice_sections([f for f in figures if f.figure == name]) for name in table.metrics}
    return {name: html for name, sections in listed.items() if (html := sections_html(sections, SLICES))}


def _agreement(table: Table, by: Sequence[SliceBy] = ()) -> JSON | None:
    """Return the confusion matrix, the figures of agreement by slice too, the disagreements; None without labels."""
    both, columns = table.labelled, table.columns
    if not both.any():
        return None
    judged, human = columns.grades[both], columns.labels[both]
    scale, ends = table.scale, (int(human.min()), int(human.max()))
    categories = range(min(scale.minimum, ends[0]), max(scale.maximum, ends[1]) + 1)
    tables, rows = tables_of(judged, human, columns.rows[both], categories)
    clusters = cluster_codes(columns.clusters)
    units = np.arange(len(columns)) if clusters is None else np.array(clusters)
    sums, codes = by_unit(tables, units[rows])
    figures = agreement_of(sums, np.array(categories, dtype=np.float64))
    graded = len(categories) > 2
    names = [name for name in _FIGURES if graded or not name.startswith("kappa_")]
    names += [f"{name}_ge{scale.relevant}" for name in ("kappa", "precision", "recall") if graded]
    names += [] if graded else ["precision_ge1", "recall_ge1"]
    shared = 0 < scale.minimum <= ends[0]
    least = scale.relevant if shared else scale_of_labels(ends, "the dataset", scale, None).relevant
    reliability = reliability_of(columns.probabilities[both], human >= least, units[columns.rows[both]])
    kinds = table.sliced_by(by) if table.whole else by  # the results of all labelled traces are held for it
    sliced = agreement_slices(table.run, tables, rows, codes, categories, scale.relevant, kinds) if kinds else ()
    off = table.off
    listed = [
        {**place, "grade": o.grade, "relevant": o.relevant, "label": chunk.label, "reason": o.explanation}
        for place, chunk, o in table.listed(off)
        if o.kind == "verdict"
    ]
    return {
        "categories": list(categories),
        "matrix": tables.sum(axis=0).astype(int).tolist(),
        "figures": [
            {"name": name, "label": figure_name(name), **_estimate_data(figures[name])}
            for name in names
            if name in figures
        ],
        "slices": sections_html(slice_sections(sliced), SLICES),
        "pairs": len(human),
        "certainty": certainty_sentence(reliability),
        "reliability": None if reliability is None else reliability.model_dump(mode="json"),
        "count": int(off.sum()),
        "list": listed,
    }


def failed_verdicts(table: Table) -> JSON:
    """Return how many verdicts failed, why, and the first of them."""
    failed = table.columns.failed
    counts = Counter(WHYS[code] for code in (-1 - table.columns.grades[failed]).tolist())
    listed = [
        {**place, "why": outcome.why, "detail": outcome.detail}
        for place, _, outcome in table.listed(failed)
        if outcome.kind == "no_verdict"
    ]
    return {"count": counts.total(), "whys": dict(counts.most_common()), "list": listed}


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


def _make(runs: Sequence[Run], settings: PageSettings) -> PageData:
    table = Table(with_labels(runs[0]), settings.most)
    compared = ComparedRuns(Table(runs[1], settings.most), table) if len(runs) > 1 else None
    memory, systems = Memory(runs[0].manifest, settings.store), list[str]()
    results = table.run.results_at(np.array(table.places, dtype=np.int64))
    traces = (card_page(result, table.scale, table.metrics, memory, systems) for result in results)
    if compared is not None:
        positions = (row.position for row in table.rows)
        traces = (compared.add_ranks_before(position, trace) for position, trace in zip(positions, traces, strict=True))
    rows = compared.rows if compared else table.rows
    data = run_page(table, compared, settings.by) | {"rows": [row.data() for row in rows], "systems": systems}
    if data["agreement"] is not None:
        try:
            data["agreement"]["said"] = agreement_sentences(agree(runs[0], None, floor=settings.floor))
        except DataError as error:  # of labels that are off the scale
            data["agreement"]["said"] = {"trust": str(error)}
    return PageData(runs[0].name, data, traces)


PAGE = Page("run", "/runs/{run_id}", "runpage.js", _make)
