"""`batch`: judging by files, at the price of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from judge_eval.cli.exit_codes import INCOMPLETE, OK, VerbGroup
from judge_eval.cli.flags.common import MADE, Json, KeepingFlags, NumbersFlags, Quiet, check_claims
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags, RunningFlags
from judge_eval.cli.printing.output import give_json, remark, show, show_apart, summary, tell, watching
from judge_eval.data.options import ReadOptions
from judge_eval.runs.options import Selection
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.batch.state import Folder

app = VerbGroup("Judge by files: export, submit, status, fetch, import; any step can be repeated.")

BatchFolder = Annotated[Path, typer.Argument(help="The batch's folder.")]
_AS_EXPORTED = without("params", "unsupported", "record", "replay")
"""The batch keeps what was asked; the configuration may say something else by now."""
OneServer: TypeAlias = Annotated[CallingFlags, only("fleet"), _AS_EXPORTED]
"""The server of the batches; the configuration says the rest."""


@contextmanager
def _at_server(folder: Path, server: CallingFlags) -> Iterator[tuple[Folder, Any]]:
    """Open a batch and its server; then print how far the round is."""
    from judge_eval.batch import orders, state, view

    with state.Folder(folder) as batch:
        with closing(orders.remote_of(batch, server.options())) as remote:
            yield batch, remote
        show(view.round_view(batch, batch.current))


@app.verb("export", in_batch=True)
def export_(
    data: Annotated[str, typer.Argument(help="Traces: a file, folder or URL of any known format.")],
    folder: Annotated[Path, typer.Option("--out", help="The batch's folder.")],
    reading: ReadOptions,
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence", "blank", "judge")],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    selection: Annotated[Selection, without("shard")],
    calling: Annotated[CallingFlags, only("cache", "fleet", "params", "unsupported", "key_command")],
    max_requests: int = setting(50_000, "The greatest number of requests in a file."),
    max_bytes: int = setting(190_000_000, "The greatest size of a file in bytes."),
) -> None:
    """Write the requests that the cache does not answer into files for a server's batches.

    Example:
    judge-eval batch export traces.jsonl --model openai/NAME --out batch/
    """
    from judge_eval.batch import flow, pending, state, view

    spec = pending.storable_judge(judging.spec(numbers.relevant))
    check_claims(selection, spec.by_claims)
    settings = flow.settings_to_export(
        spec,
        calling.options(),
        reading,
        selection,
        data=pending.storable_data(data),
        metrics=tuple(numbers.names),
        cache=calling.cache or None,
        max_requests=max_requests,
        max_bytes=max_bytes,
    )
    with state.Folder(folder, make=True) as batch:
        session = pending.Session(settings, calling.options(), files=batch.replies(), begun=batch.state)
        with closing(session):
            session.settings = session.stored()
            done, imported = flow.export(batch, session)
        show_apart(view.imported_view(imported))
        if done is None:
            tell("nothing to export: the cache holds every answer; `batch import` makes the run")
            return
        show(view.round_view(batch, done))
        remark(f"next: {view.step(batch, 'submit')}  (or run the files on a server of your own)")


@app.verb("submit", in_batch=True)
def submit(
    folder: BatchFolder,
    server: OneServer,
    patience: float = setting(
        60,
        "Seconds to look for a batch whose creation was not confirmed, before it is created again: "
        "servers list new batches with a delay.",
    ),
    created: str | None = setting(
        None,
        "At a server whose batches carry no name (Anthropic): the id of the batch that an unconfirmed creation "
        "made, or `none` to create it again.",
    ),
) -> None:
    """Submit the files; a file that was already submitted is not submitted again.

    If a batch was created twice because the server listed it later than --patience waits, the
    ids of the second ones are printed; `batch cancel` cancels them.

    Example:
    judge-eval batch submit batch/
    """
    from judge_eval.batch import orders

    with _at_server(folder, server) as (batch, remote):
        orders.submit(batch, remote, remark, patience=patience, created=created)
        orders.tell_doubles(batch, remote, remark)


@app.verb("status", in_batch=True)
def status(folder: BatchFolder, server: OneServer, json_: Json = False) -> None:
    """Show the progress of the batches.

    Example:
    judge-eval batch status batch/
    """
    from judge_eval.batch import orders, state, view

    with state.Folder(folder) as batch:
        if batch.known.rounds and any(part.phase == "submitted" for part in batch.current.parts):
            with closing(orders.remote_of(batch, server.options())) as remote:
                orders.refresh(batch, remote)
                orders.tell_doubles(batch, remote, remark)
        if json_:
            give_json(batch.known.model_dump_json(indent=2))
        elif not batch.known.rounds:
            tell("nothing was exported: the cache holds every answer")
        else:
            show(view.round_view(batch, batch.current))


@app.verb("cancel", in_batch=True)
def cancel(
    folder: BatchFolder,
    server: OneServer,
    batches: Annotated[list[str], typer.Argument(help="Ids of batches of this round.")],
) -> None:
    """Cancel batches; replies that are already there can still be fetched.

    Example:
    judge-eval batch cancel batch/ batch_abc123
    """
    from judge_eval.batch import orders

    with _at_server(folder, server) as (batch, remote):
        orders.cancel(batch, remote, batches, remark)


@app.verb("fetch", in_batch=True)
def fetch(
    folder: BatchFolder,
    server: OneServer,
    wait: bool = setting(False, "Ask again until every batch has ended."),
    interval: float = setting(60, "With --wait: seconds between checks."),
) -> int:
    """Download the replies of the batches that have ended.

    Example:
    judge-eval batch fetch batch/
    """
    from judge_eval.batch import flow, orders

    with _at_server(folder, server) as (batch, remote):
        orders.fetch(batch, remote, wait=interval if wait else None, tell=remark)
        left = flow.under_way(batch)
    return INCOMPLETE if left else OK


@app.verb("import", in_batch=True)
def import_(
    folder: Annotated[Path, typer.Argument(help="The batch's folder.")],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, MADE],
    calling: Annotated[CallingFlags, only("cache", "fleet", "concurrency"), _AS_EXPORTED],
    running: Annotated[RunningFlags, only("max_failures")],
    replies: Annotated[list[Path] | None, typer.Argument(help="Files of replies, from a server of your own.")] = None,
    finish: Literal["online", "batch", "later", "missing"] = setting(
        "online",
        "What to do with requests without a reply: ask `online`, export as the next `batch`, leave "
        "for `later`, or count as `missing` verdicts.",
    ),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Store the replies in the cache, and make the run when every trace is judged.

    Replies may be in any order, incomplete, repeated, or contain errors. A batch has one run in a folder of
    runs: another import continues it.

    Examples:
    judge-eval batch import batch/
    judge-eval batch import batch/ replies.jsonl
    """
    from judge_eval.batch import flow, pending, state, view
    from judge_eval.views.plan import calls_cost

    keeping.page()  # an invalid address is an error before anything is made
    with state.Folder(folder) as batch:
        if replies:
            flow.give(batch, replies)
        settings = flow.settings_to_import(batch, cache=calling.cache, base_url=calling.server)
        session = pending.Session(
            settings,
            calling.options(),
            files=batch.replies(),
            metrics=numbers.names,
            online=finish == "online",
            begun=batch.state,
        )
        with closing(session):
            show_apart(view.foreign_view(flow.check_replies(batch, batch.replies())))
            imported = flow.bring_in(batch, session)
            show_apart(view.imported_view(imported))
            following = flow.after_import(batch, imported, finish)
            if following == "fetch":
                waiting = len(flow.under_way(batch))
                remark(f"{waiting} files are being processed: `batch fetch` downloads their replies")
            elif following == "export":
                session.settings = batch.known.settings
                exported, _ = flow.export(batch, session)
                assert exported is not None
                show(view.round_view(batch, exported))
                remark(f"next: {view.step(batch, 'submit')}")
            if following != "judge":
                return INCOMPLETE
            if imported.open and finish == "online":
                _, plan = session.evaluator.plan(settings.data, **settings.selection.keywords())
                remark(
                    f"{len(imported.open):,} requests without a reply are asked online now: "
                    f"{calls_cost(session.evaluator.stack, plan)} (--finish later asks nothing, --finish "
                    "batch orders them again, --finish missing makes the run without them)"
                )
            if imported.open and finish == "missing":
                remark(f"{len(imported.open):,} requests without a reply count as missing verdicts (`unjudged`)")
            begun = flow.one_run(batch, session, keeping.out)
            if begun is not None:
                remark(f"the batch's run goes on: {begun[0]}")
            with keeping.written(), watching(quiet) as watch:
                done = session.evaluator.evaluate(
                    settings.data,
                    out=keeping.out,
                    label=keeping.label,
                    href=keeping.href,
                    tags=keeping.tags,
                    push_every=keeping.push_every,
                    push_grace=keeping.push_grace,
                    watch=watch,
                    resume=False if begun is None else begun[0],
                    **settings.selection.keywords(),
                )
    fault = running.show_fault(done)
    summary(done, json_, keeping.page(done))
    return INCOMPLETE if fault is not None else OK
