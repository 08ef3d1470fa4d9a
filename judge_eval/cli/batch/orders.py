"""What is asked of a server that works on files: submit, status, cancel, fetch."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import Server
from judge_eval.cli.flags.common import Json
from judge_eval.cli.printing.batches import show_doubles, show_round
from judge_eval.cli.printing.door import give_json, remark, tell
from judge_eval.cli.printing.errors import INCOMPLETE, verb

Place = Annotated[Path, typer.Argument(help="The batch's folder.")]


@verb
def submit(
    folder: Place,
    server: Server,
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds to look for a batch whose order went unanswered, before it is ordered again: "
            "servers list a new batch with a delay.",
        ),
    ] = 60,
) -> None:
    """Submit the files; one that was submitted before is looked for, and found again.

    Where it was ordered twice all the same, because the server listed it later than --patience waits, the
    doubles are named; `batch cancel` cancels them.

    Example:
    judge-eval batch submit batch/
    """
    from judge_eval.batch import ordering
    from judge_eval.batch.remote import Remote
    from judge_eval.batch.state import Folder

    with Folder(folder) as held:
        with closing(Remote(server.base_url or held.known.settings.base_url)) as remote:
            ordering.submit(held, remote, remark, patience=patience)
            doubled = ordering.doubles(held, remote)
        show_round(held, held.current)
        show_doubles(held, doubled)


@verb
def status(folder: Place, server: Server, json_: Json = False) -> None:
    """Show how far the batches are.

    Example:
    judge-eval batch status batch/
    """
    from judge_eval.batch import ordering
    from judge_eval.batch.remote import Remote
    from judge_eval.batch.state import Folder

    with Folder(folder) as held:
        doubled = []
        if held.known.rounds and any(part.phase == "submitted" for part in held.current.parts):
            with closing(Remote(server.base_url or held.known.settings.base_url)) as remote:
                ordering.refresh(held, remote)
                doubled = ordering.doubles(held, remote)
        if json_:
            give_json(held.known.model_dump_json(indent=2))
        elif not held.known.rounds:
            tell("nothing was exported: the cache held every answer")
        else:
            show_round(held, held.current)
        show_doubles(held, doubled)


@verb
def cancel(
    folder: Place,
    server: Server,
    batches: Annotated[list[str] | None, typer.Argument(help="Ids of batches of this round.")] = None,
    doubles: Annotated[
        bool, typer.Option("--doubles", help="Cancel the batches that do another's work over again.")
    ] = False,
) -> None:
    """Cancel batches; what one has answered by then can still be fetched.

    Example:
    judge-eval batch cancel batch/ --doubles
    """
    from judge_eval.batch import ordering
    from judge_eval.batch.remote import Remote
    from judge_eval.batch.state import Folder
    from judge_eval.errors import ConfigError

    if not batches and not doubles:
        raise ConfigError("name the batches to cancel, or say --doubles; `batch status` shows them")
    with Folder(folder) as held:
        with closing(Remote(server.base_url or held.known.settings.base_url)) as remote:
            ordering.cancel(held, remote, batches or (), doubled=doubles, tell=remark)
        show_round(held, held.current)


@verb
def fetch(
    folder: Place,
    server: Server,
    wait: Annotated[bool, typer.Option("--wait", help="Ask again until every batch has ended.")] = False,
    interval: Annotated[float, typer.Option(help="With --wait: seconds between checks.")] = 60,
) -> None:
    """Bring the replies of the batches that have ended.

    Example:
    judge-eval batch fetch batch/
    """
    from judge_eval.batch import flow, ordering
    from judge_eval.batch.remote import Remote
    from judge_eval.batch.state import Folder

    with Folder(folder) as held:
        with closing(Remote(server.base_url or held.known.settings.base_url)) as remote:
            done = ordering.fetch(held, remote, wait=interval if wait else None, tell=remark)
        show_round(held, done)
        if flow.under_way(held):
            raise typer.Exit(INCOMPLETE)
