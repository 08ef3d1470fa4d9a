"""`batch`: judging by files, at the price of a batch."""

from __future__ import annotations

import typer

from judge_eval.cli.batch.files import export_, import_
from judge_eval.cli.batch.orders import cancel, fetch, status, submit

app = typer.Typer(
    help="Judge by files: export, submit, status, fetch, import; any step can be repeated.",
    no_args_is_help=True,
)

for _name, _verb in (
    ("export", export_), ("submit", submit), ("status", status), ("cancel", cancel), ("fetch", fetch),
    ("import", import_),
):  # fmt: skip
    app.command(_name)(_verb)
