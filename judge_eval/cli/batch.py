"""`batch`: judging by files, at the price of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from judge_eval.cli.flags.calling import CallingFlags, RunningFlags
from judge_eval.cli.flags.common import MADE, Json, KeepingFlags, NumbersFlags, Quiet, check_claims
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import JudgingFlags
from judge_eval.cli.printing.error_messages import INCOMPLETE, batch_verb
from judge_eval.cli.printing.gates import show_fault
from judge_eval.cli.printing.safe_output import give_json, remark, tell
from judge_eval.data.options import ReadOptions
from judge_eval.runs.options import Selection

if TYPE_CHECKING:
    from judge_eval.batch.state import Folder

BatchFolder = Annotated[Path, typer.Argument(help="The batch's folder.")]
_AS_EXPORTED = without("params", "unsupported", "record", "replay")
"""The batch keeps what was asked; the configuration may say something else by now."""
OneServer: TypeAlias = Annotated[CallingFlags, only("fleet"), _AS_EXPORTED]
"""The server of the batches; the configuration says the rest."""


@contextmanager
def _at_server(folder: Path, server: CallingFlags) -> Iterator[tuple[Folder, Any]]:
    """Open a batch and its server; then print how far the round is."""
    from judge_eval.batch.orders import remote_of
    from judge_eval.batch.state import Folder
    from judge_eval.batch.view import round_view
    from judge_eval.cli.printing.output import show

    with Folder(folder) as batch:
        with closing(remote_of(batch, server.options())) as remote:
            yield batch, remote
        show(round_view(batch, batch.current))


@batch_verb
def submit(
    folder: BatchFolder,
    server: OneServer,
    patience: Annotated[
        float,
        "Seconds to look for a batch whose creation was not confirmed, before it is created again: "
        "servers list new batches with a delay.",
    ] = 60,
    created: Annotated[
        str | None,
        "At a server whose batches carry no name (Anthropic): the id of the batch that an unconfirmed creation "
        "made, or `none` to create it again.",
    ] = None,
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


@batch_verb
def status(folder: BatchFolder, server: OneServer, json_: Json = False) -> None:
    """Show the progress of the batches.

    Example:
    judge-eval batch status batch/
    """
    from judge_eval.batch import orders as ordering
    from judge_eval.batch.state import Folder
    from judge_eval.batch.view import round_view
    from judge_eval.cli.printing.output import show

    with Folder(folder) as batch:
        if batch.known.rounds and any(part.phase == "submitted" for part in batch.current.parts):
            with closing(ordering.remote_of(batch, server.options())) as remote:
                ordering.refresh(batch, remote)
                ordering.tell_doubles(batch, remote, remark)
        if json_:
            give_json(batch.known.model_dump_json(indent=2))
        elif not batch.known.rounds:
            tell("nothing was exported: the cache holds every answer")
        else:
            show(round_view(batch, batch.current))


@batch_verb
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


@batch_verb
def fetch(
    folder: BatchFolder,
    server: OneServer,
    wait: Annotated[bool, "Ask again until every batch has ended."] = False,
    interval: Annotated[float, "With --wait: seconds between checks."] = 60,
) -> None:
    """Download the replies of the batches that have ended.

    Example:
    judge-eval batch fetch batch/
    """
    from judge_eval.batch import flow, orders

    with _at_server(folder, server) as (batch, remote):
        orders.fetch(batch, remote, wait=interval if wait else None, tell=remark)
        left = flow.under_way(batch)
    if left:
        raise typer.Exit(INCOMPLETE)


@batch_verb
def export_(
    data: Annotated[str, typer.Argument(help="Traces: a file, folder or URL of any known format.")],
    folder: Annotated[Path, typer.Option("--out", help="The batch's folder.")],
    reading: ReadOptions,
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence", "blank", "judge")],
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    selection: Annotated[Selection, without("shard")],
    calling: Annotated[CallingFlags, only("cache", "fleet", "params", "unsupported", "key_command")],
    max_requests: Annotated[int, "The greatest number of requests in a file."] = 50_000,
    max_bytes: Annotated[int, "The greatest size of a file in bytes."] = 190_000_000,
) -> None:
    """Write the requests that the cache does not answer into files for a server's batches.

    Example:
    judge-eval batch export traces.jsonl --model openai/NAME --out batch/
    """
    from judge_eval.batch import flow
    from judge_eval.batch.pending import Session, storable_data, storable_judge
    from judge_eval.batch.state import Folder
    from judge_eval.batch.view import imported_view, round_view, step
    from judge_eval.cli.printing.output import show, show_apart

    spec = storable_judge(judging.spec(numbers.relevant))
    check_claims(selection, spec.by_claims)
    settings = flow.settings_to_export(
        spec,
        calling.options(),
        reading,
        selection,
        data=storable_data(data),
        metrics=tuple(numbers.names),
        cache=calling.cache or None,
        max_requests=max_requests,
        max_bytes=max_bytes,
    )
    with Folder(folder, make=True) as batch:
        session = Session(settings, calling.options(), files=batch.replies(), begun=batch.state)
        with closing(session):
            session.settings = session.stored()
            done, imported = flow.export(batch, session)
        show_apart(imported_view(imported))
        if done is None:
            tell("nothing to export: the cache holds every answer; `batch import` makes the run")
            return
        show(round_view(batch, done))
        remark(f"next: {step(batch, 'submit')}  (or run the files on a server of your own)")


@batch_verb
def import_(
    folder: Annotated[Path, typer.Argument(help="The batch's folder.")],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, MADE],
    calling: Annotated[CallingFlags, only("cache", "fleet", "concurrency"), _AS_EXPORTED],
    running: Annotated[RunningFlags, only("max_failures")],
    replies: Annotated[list[Path] | None, typer.Argument(help="Files of replies, from a server of your own.")] = None,
    finish: Annotated[
        Literal["online", "batch", "later", "missing"],
        "What to do with requests without a reply: ask `online`, export as the next `batch`, leave "
        "for `later`, or count as `missing` verdicts.",
    ] = "online",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Store the replies in the cache, and make the run when every trace is judged.

    Replies may be in any order, incomplete, repeated, or contain errors. A batch has one run in a folder of
    runs: another import continues it.

    Examples:
    judge-eval batch import batch/
    judge-eval batch import batch/ replies.jsonl
    """
    from judge_eval.batch import flow
    from judge_eval.batch.pending import Session
    from judge_eval.batch.state import Folder
    from judge_eval.batch.view import foreign_view, imported_view, round_view, step
    from judge_eval.cli.printing.output import show, show_apart, summary
    from judge_eval.cli.printing.progress import watching
    from judge_eval.runs.keeping.mirror import written
    from judge_eval.views.plan import calls_cost
    from judge_eval.views.run_remarks import incomplete_line

    keeping.page()  # an invalid address is an error before anything is made
    with Folder(folder) as batch:
        if replies:
            flow.give(batch, replies)
        settings = flow.settings_to_import(batch, cache=calling.cache, base_url=calling.server)
        session = Session(
            settings,
            calling.options(),
            files=batch.replies(),
            metrics=numbers.names,
            online=finish == "online",
            begun=batch.state,
        )
        with closing(session):
            show_apart(foreign_view(flow.check_replies(batch, batch.replies())))
            imported = flow.bring_in(batch, session)
            show_apart(imported_view(imported))
            following = flow.after_import(batch, imported, finish)
            if following == "fetch":
                waiting = len(flow.under_way(batch))
                remark(f"{waiting} files are being processed: `batch fetch` downloads their replies")
            elif following == "export":
                session.settings = batch.known.settings
                done, _ = flow.export(batch, session)
                assert done is not None
                show(round_view(batch, done))
                remark(f"next: {step(batch, 'submit')}")
            if following != "judge":
                raise typer.Exit(INCOMPLETE)
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
            with written(keeping.out, remark, keeping.push_grace), watching(quiet) as watch:
                done_run = session.evaluator.evaluate(
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
    fault = incomplete_line(done_run.manifest, running.max_failures)
    show_fault(fault)
    summary(done_run, json_, keeping.page(done_run))
    if fault is not None:
        raise typer.Exit(INCOMPLETE)


app = typer.Typer(
    help="Judge by files: export, submit, status, fetch, import; any step can be repeated.", no_args_is_help=True
)

for _name, _verb in (
    ("export", export_), ("submit", submit), ("status", status), ("cancel", cancel), ("fetch", fetch),
    ("import", import_),
):  # fmt: skip
    app.command(_name)(_verb)
