"""What people read of a judge on public labelled sets."""

from collections.abc import Iterator

from judge_eval.digest import short
from judge_eval.runs.folder.validation import ValidatedSet, ValidationTable
from judge_eval.stats.figure import Figure
from judge_eval.study.validation import SYSTEMS_BY
from judge_eval.views.agreement import estimated, floor_sentence, no_better
from judge_eval.views.blocks import Column, Section, Sentence, TableColumns, View, make_table
from judge_eval.views.html import html_of


def validation_view(table: ValidationTable) -> View:
    """Build the table: a row a set, language, prompt and model."""
    columns: TableColumns = [
        *("set", "language", "model", "prompt", ("n", "count"), ("traces", "count"), ("failed", "count")),
        *(("skipped", "count"), ("kappa", "number"), ("95% interval", "interval"), ("AUC", "number")),
        *(
            Column("AUC, 95%", "interval", wide=True),
            ("floor AUC", "number"),
            Column("AUC - floor", "signed"),
            Column("AUC - floor, 95%", "interval", wide=True),
            Column("floor", wide=True),
            ("systems, tau-b", "share"),
            ("Spearman", "share"),
            ("evidence found", "share"),
        ),
        *(
            Column("evidence, 95%", "interval", wide=True),
            Column("false support", "share", wide=True),
            ("cost, $", "number"),
            ("tokens", "count"),
            "data",
            Column("prompt digest", wide=True),
        ),
        Column("called by the server", wide=True),
    ]
    rows = [
        (
            *(row.set, row.language or "all", row.model, row.prompt, row.chunks, row.traces, row.failed, row.skipped),
            *(
                *_cells(row.kappa),
                *_cells(row.auc),
                *_floor_cells(row),
                _cells(row.systems)[0],
                _cells(row.spearman)[0],
            ),
            *(
                *_cells(row.evidence_found),
                _share(row.false_support),
                row.cost,
                row.tokens,
                short(row.digest),
                short(row.prompt_digest),
            ),
            ", ".join(row.served),
        )
        for row in table.rows
    ]
    words = f"Intervals are by question; kappa is at the judge's threshold; systems are ranked by {SYSTEMS_BY}."
    doubts = (Sentence(text, "bad") for text in _no_better(table))
    return View("validation", (Section("sets", (*doubts, make_table("sets", columns, rows), Sentence(words))),))


def _no_better(table: ValidationTable) -> Iterator[str]:
    """Say where a judge is no better than chance, or than the floor."""
    for row in table.rows:
        whose = f"{row.set}{f' ({row.language})' if row.language else ''}, {row.prompt or row.model}: "
        if no_better(row.kappa, 0.0):
            yield f"{whose}the judge is no better than chance as far as the labels show: kappa {estimated(row.kappa)}."
        if row.floor is not None and no_better(row.floor.difference, 0.0):
            yield whose + floor_sentence(row.floor)


def _floor_cells(row: ValidatedSet) -> tuple[float | None, float | None, tuple[float, float] | None, str]:
    if row.floor is None:
        return None, None, None, ""
    return row.floor.floor.value, *_cells(row.floor.difference), row.floor.model


def validation_page(table: ValidationTable) -> str:
    """Write the table as an HTML page."""
    body = html_of(validation_view(table))
    head = '<meta charset="utf-8"><title>A judge on labelled sets</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _share(counts: tuple[int, int] | None) -> float | None:
    return None if counts is None else counts[0] / counts[1]


def _cells(figure: Figure | None) -> tuple[float | None, tuple[float, float] | None]:
    return (None, None) if figure is None else (figure.value, figure.interval)
