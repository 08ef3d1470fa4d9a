"""A judge on public labelled sets: one row a set, language and prompt, in a table that anyone can make again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from judge_eval.data.collection import read_run
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.runs.columns.verdict_table import verdict_table
from judge_eval.runs.folder.describing import models_of, prompt_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.validation import ValidatedSet, prompt_digest
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.slices import slices_of
from judge_eval.stats import mean_interval, ranking_figures
from judge_eval.stats.figure import Figure
from judge_eval.study.agree import Agreement, agree
from judge_eval.study.matching import labels_of

SYSTEMS_BY = "NDCG@10"


def validated_sets(run: Run, name: str, systems: Path | None = None, floor: Run | None = None) -> list[ValidatedSet]:
    """Measure a run of a labelled set: as a whole, and by language if there are two or more.

    `systems` is a folder of TREC runs over the same queries and passages, `floor` a run over the same chunks by a judge
    that any other must beat.

    Raises:
        DataError: There is no label.
    """
    labels = labels_of(run, threshold=scale_of(run).relevant)  # a set's labels may have a scale of their own
    rows = [_row(run, name, "", labels, {} if systems is None else _systems(run, labels, systems), floor)]
    languages = slices_of(verdict_table(run), "language", guess=False)
    names = languages.names
    for language in names if len(names) > 1 else ():
        here = {each.id for each in run.questions(np.flatnonzero(languages.inside(language)))}
        part = Labels({key: grade for key, grade in labels.grades.items() if key[0] in here}, sources=labels.sources)
        if part.grades:
            rows.append(_row(run, name, language, part, {}, floor))
    return rows


def _row(
    run: Run, name: str, language: str, labels: Labels, systems: dict[str, Figure], floor: Run | None
) -> ValidatedSet:
    agreement = agree(run, labels, floor=floor)
    traces = {trace for trace, _ in labels.grades}
    quoted = [
        (str(result.trace.metadata.get(run.manifest.intervals.cluster, result.trace_id)), float(bool(o.evidence_found)))
        for result in run.results
        if result.trace_id in traces
        for o in result.outcomes
        if o.kind == "verdict" and o.relevant and o.evidence is not None
    ]
    evidence = None
    if quoted:
        clusters = [trace for trace, _ in quoted]
        evidence = mean_interval([value for _, value in quoted], clusters=clusters, limits=(0.0, 1.0))
    tally, at = run.manifest.tally, f"_ge{agreement.relevant}"
    kappa = agreement.figures[f"kappa{at}"]
    return ValidatedSet(
        set=name, language=language, digest=run.manifest.dataset.digest, model=models_of(run.manifest),
        prompt=prompt_of(run.manifest) or "", chunks=agreement.n, traces=kappa.traces or 0, failed=agreement.failed,
        prompt_digest=prompt_digest(run.manifest), relevant=agreement.relevant, false_support=_false_support(agreement),
        served=tuple(sorted({call.model for result in run.results for call in result.calls if call.model})),
        skipped=run.manifest.dataset.skipped, kappa=kappa, auc=agreement.auc or agreement.figures[f"auc{at}"],
        evidence_found=evidence,
        systems=systems.get("tau_b"), spearman=systems.get("spearman"), cost=tally.cost,
        tokens=tally.input_tokens + tally.output_tokens, floor=agreement.floor,
    )  # fmt: skip


def _false_support(agreement: Agreement) -> tuple[int, int] | None:
    table, accepted = np.array(agreement.confusion), np.array(agreement.grades) >= agreement.relevant
    irrelevant = int(table[:, ~accepted].sum())
    return (int(table[np.ix_(accepted, ~accepted)].sum()), irrelevant) if irrelevant else None


def _systems(run: Run, labels: Labels, folder: Path) -> dict[str, Figure]:
    """Rank the systems by judge and by people; what neither graded counts as not relevant."""
    scale, metric = scale_of(run), parse_metric(SYSTEMS_BY)
    judged = {(r.trace_id, o.chunk_id): o.grade for r in run.results for o in r.outcomes if o.kind == "verdict"}
    highest = max([*labels.grades.values(), 1])
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    queries = sorted({trace for trace, _ in labels.grades})
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not path.is_file():
            raise DataError("not a file, as the run of a system is", file=str(path))
        lists = {q: sorted(docs, key=docs.__getitem__, reverse=True) for q, docs in read_run(path).items()}
        both = (judged, scale.minimum, scale.maximum), (labels.grades, 0, highest)
        for side, (grades, least, most) in zip(sides, both, strict=True):
            rows = [[grades.get((query, doc), least) - least for doc in lists.get(query, ())] for query in queries]
            side.append(metric.compute(GradeTable.from_rows(rows, maximum=most - least)).tolist())
    if len(sides[0]) < 2:
        return {}
    figures = ranking_figures(*(np.array(side).T for side in sides))
    return {name: replace(each, n=len(sides[0]), traces=len(queries)) for name, each in figures.items()}
