"""What people read of a judge on public labelled sets."""

from judge_eval.digest import short
from judge_eval.stats.figure import Figure
from judge_eval.study.validation import SYSTEMS_BY, ValidationTable
from judge_eval.views.blocks import Column, Section, Sentence, TableColumns, View, make_table
from judge_eval.views.html import html_of


def validation_view(table: ValidationTable) -> View:
    """Build the table: a row a set, language, prompt and model."""
    columns: TableColumns = [
        *("set", "language", "model", "prompt", ("n", "count"), ("traces", "count"), ("failed", "count")),
        *(("skipped", "count"), ("kappa", "number"), ("95% interval", "interval"), ("AUC", "number")),
        *(
            Column("AUC, 95%", "interval", wide=True),
            ("systems, tau-b", "share"),
            ("Spearman", "share"),
            ("evidence found", "share"),
        ),
        *(
            Column("evidence, 95%", "interval", wide=True),
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
            *(*_cells(row.kappa), *_cells(row.auc), _cells(row.systems)[0], _cells(row.spearman)[0]),
            *(*_cells(row.evidence_found), row.cost, row.tokens, short(row.digest), short(row.prompt_digest)),
            ", ".join(row.served),
        )
        for row in table.rows
    ]
    words = f"Intervals are by question; kappa is at the judge's threshold; systems are ranked by {SYSTEMS_BY}."
    return View("validation", (Section("sets", (make_table("sets", columns, rows), Sentence(words))),))


def validation_page(table: ValidationTable) -> str:
    """Write the table as an HTML page."""
    body = html_of(validation_view(table))
    head = '<meta charset="utf-8"><title>A judge on labelled sets</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _cells(figure: Figure | None) -> tuple[float | None, tuple[float, float] | None]:
    return (None, None) if figure is None else (figure.value, figure.interval)
