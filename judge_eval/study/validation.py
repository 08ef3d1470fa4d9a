"""A judge on public labelled sets: one row a set, language and prompt, in a table that anyone can make again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from judge_eval.data.collection import read_run
from judge_eval.data.labels import Labels
from judge_eval.errors import DataError
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.record import Record
from judge_eval.runs.columns.table_reader import verdict_table
from judge_eval.runs.folder.describing import models_of, prompt_of
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.slices import slices_of
from judge_eval.stats import mean_interval, ranking_figures
from judge_eval.stats.figure import Figure
from judge_eval.study.agree import agree
from judge_eval.study.matching import labels_of

SYSTEMS_BY = "NDCG@10"


class ValidatedSet(Record):
    """A judge on one set, or on the part of it in one language."""

    set: str
    language: str = ""
    """Empty for the whole set."""
    digest: str
    """Of the judged traces."""
    model: str
    prompt: str
    prompt_digest: str = ""
    served: tuple[str, ...] = ()
    """What the server called the model."""
    chunks: int
    traces: int
    """Questions: traces that share a cluster are one."""
    failed: int = 0
    """Labelled chunks without a verdict; they are in no figure."""
    skipped: int = 0
    """Traces of the whole set that lack what the prompt needs."""
    kappa: Figure
    """At the judge's threshold, by question."""
    auc: Figure | None = None
    """Of the judge's grades."""
    systems: Figure | None = None
    """Kendall's tau-b of systems by `SYSTEMS_BY`, where the set's folder holds their runs in `runs/`."""
    spearman: Figure | None = None
    """Spearman's rho of the same."""
    evidence_found: Figure | None = None
    """The share of relevant verdicts whose quote stands in the chunk."""
    cost: float | None = None
    """In US dollars, of the whole set; None if no price is known."""
    tokens: int = 0


class ValidationTable(Record):
    """Rows of one model or of several."""

    rows: tuple[ValidatedSet, ...]

    @classmethod
    def joined(cls, paths: Sequence[Path], rows: Sequence[ValidatedSet] = ()) -> ValidationTable:
        """Join tables that were written as JSON, or with a row a line (`lines`), with further rows.

        Raises:
            DataError: A file is not such a table.
        """
        every: list[ValidatedSet] = []
        for path in paths:
            try:
                text = path.read_bytes()
                if path.suffix.lower() == ".jsonl":
                    every += [ValidatedSet.from_json(line) for line in text.splitlines() if line.strip()]
                else:
                    every += cls.from_json(text).rows
            except (OSError, ValueError) as error:
                raise DataError(f"is not a table of validate-judge: {type(error).__name__}", file=str(path)) from None
        return cls(rows=(*every, *rows))

    def lines(self) -> str:
        """Return a row a line, as JSON Lines: such files join by being put one after the other."""
        return "".join(row.model_dump_json() + "\n" for row in self.rows)


def validated_sets(run: Run, name: str, systems: Path | None = None) -> list[ValidatedSet]:
    """Measure a run of a labelled set: as a whole, and by language if there are two or more.

    Args:
        run: The run, whose traces carry labels.
        name: What to call the set.
        systems: A folder of TREC runs over the same queries and passages.

    Raises:
        DataError: There is no label.
    """
    labels = labels_of(run)
    rows = [_row(run, name, "", labels, {} if systems is None else _systems(run, labels, systems))]
    languages = slices_of(verdict_table(run), "language", guess=False)
    names = languages.names
    for language in names if len(names) > 1 else ():
        here = {each.id for each in run.questions(np.flatnonzero(languages.inside(language)))}
        part = Labels({key: grade for key, grade in labels.grades.items() if key[0] in here}, sources=labels.sources)
        if part.grades:
            rows.append(_row(run, name, language, part, {}))
    return rows


def _row(run: Run, name: str, language: str, labels: Labels, systems: dict[str, Figure]) -> ValidatedSet:
    agreement = agree(run, labels)
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
    tally, at, prompt = run.manifest.tally, f"_ge{agreement.relevant}", run.manifest.judge.get("prompt")
    kappa = agreement.figures[f"kappa{at}"]
    return ValidatedSet(
        set=name, language=language, digest=run.manifest.dataset.digest, model=models_of(run.manifest),
        prompt=prompt_of(run.manifest) or "", chunks=agreement.n, traces=kappa.traces or 0, failed=agreement.failed,
        prompt_digest=str(prompt.get("digest", "")) if isinstance(prompt, dict) else "",
        served=tuple(sorted({call.model for result in run.results for call in result.calls if call.model})),
        skipped=run.manifest.dataset.skipped, kappa=kappa, auc=agreement.figures[f"auc{at}"], evidence_found=evidence,
        systems=systems.get("tau_b"), spearman=systems.get("spearman"), cost=tally.cost,
        tokens=tally.input_tokens + tally.output_tokens,
    )  # fmt: skip


def _systems(run: Run, labels: Labels, folder: Path) -> dict[str, Figure]:
    """Rank the systems by judge and by people; what neither graded counts as not relevant."""
    scale, metric = scale_of(run), parse_metric(SYSTEMS_BY)
    judged = {(r.trace_id, o.chunk_id): o.grade for r in run.results for o in r.outcomes if o.kind == "verdict"}
    highest = max([*labels.grades.values(), 1])
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    queries = sorted({trace for trace, _ in labels.grades})
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        lists = {q: sorted(docs, key=docs.__getitem__, reverse=True) for q, docs in read_run(path).items()}
        both = (judged, scale.minimum, scale.maximum), (labels.grades, 0, highest)
        for side, (grades, least, most) in zip(sides, both, strict=True):
            rows = [[grades.get((query, doc), least) - least for doc in lists.get(query, ())] for query in queries]
            side.append(metric.compute(GradeTable.from_rows(rows, maximum=most - least)).tolist())
    if len(sides[0]) < 2:
        return {}
    figures = ranking_figures(*(np.array(side).T for side in sides))
    return {name: replace(each, n=len(sides[0]), traces=len(queries)) for name, each in figures.items()}
