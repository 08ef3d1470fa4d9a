"""What people read of a judge on public labelled sets."""

from collections.abc import Iterator

from judge_eval.digest import short
from judge_eval.runs.folder.validation import ValidationTable
from judge_eval.study.validation import SYSTEMS_BY
from judge_eval.views.agreement import estimated, floor_sentence, no_better
from judge_eval.views.blocks import Column, Sentence, TableColumns, View, columns_of, make_section, make_table
from judge_eval.views.html import html_of


def validation_view(table: ValidationTable) -> View:
    """Build the table: a row a set, language, prompt and model."""
    columns: TableColumns = [
        *("set", "language", "model", "prompt", *columns_of("count", "n", "traces", "failed", "skipped")),
        *(("kappa", "number"), ("95% interval", "interval"), ("AUC", "number")),
        *(Column("AUC, 95%", "interval", wide=True), ("floor AUC", "number"), ("AUC - floor", "signed")),
        *(Column("AUC - floor, 95%", "interval", wide=True), Column("floor", wide=True)),
        *columns_of("share", "systems, tau-b", "Spearman", "evidence found"),
        *(Column("evidence, 95%", "interval", wide=True), Column("false support", "share", wide=True)),
        *(("cost, $", "number"), ("tokens", "count"), "data"),
        *(Column("prompt digest", wide=True), Column("called by the server", wide=True)),
    ]
    rows = [
        (
            *(row.set, row.language or "all", row.model, row.prompt, row.chunks, row.traces, row.failed, row.skipped),
            *(row.kappa, row.kappa, row.auc, row.auc),
            *((None, None, None, "") if (f := row.floor) is None else (f.floor, f.difference, f.difference, f.model)),
            *(row.systems, row.spearman, row.evidence_found, row.evidence_found),
            *(row.false_support and row.false_support[0] / row.false_support[1], row.cost, row.tokens),
            *(short(row.digest), short(row.prompt_digest), ", ".join(row.served)),
        )
        for row in table.rows
    ]
    words = f"Intervals are by question; kappa is at the judge's threshold; systems are ranked by {SYSTEMS_BY}."
    doubts = (Sentence(text, "bad") for text in _no_better(table))
    return View("validation", (make_section("sets", *doubts, make_table("sets", columns, rows), words),))


def _no_better(table: ValidationTable) -> Iterator[str]:
    """Say where a judge is no better than chance, or than the floor."""
    for row in table.rows:
        whose = f"{row.set}{f' ({row.language})' if row.language else ''}, {row.prompt or row.model}: "
        if no_better(row.kappa, 0.0):
            yield f"{whose}the judge is no better than chance as far as the labels show: kappa {estimated(row.kappa)}."
        if row.floor is not None and no_better(row.floor.difference, 0.0):
            yield whose + floor_sentence(row.floor)


def validation_page(table: ValidationTable) -> str:
    """Write the table as an HTML page."""
    body = html_of(validation_view(table))
    head = '<meta charset="utf-8"><title>A judge on labelled sets</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'
