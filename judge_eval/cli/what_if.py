"""`what-if`: a new run from old verdicts, compared with the runs it was made of."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.common import Json
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.keeping import AT_ONCE, KeepingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import give_json, remark
from judge_eval.cli.printing.errors import spelled_remark, verb
from judge_eval.pools.pool import Settling


@verb
def what_if(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs of the same questions: folder, id or the start of it, label:NAME or latest.",
            autocompletion=completion.runs,
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Annotated[KeepingFlags, AT_ONCE],
    fuse: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Fuse the runs: rrf (or rrf:k=60), combsum, combmnz or weighted:a=.3."),
    ] = None,
    interleave: Annotated[bool, typer.Option("--interleave", help="Take the next chunk of each run in turn.")] = False,
    threshold: Annotated[
        str | None, typer.Option(metavar="score>=X", help="Keep chunks whose retriever's score is high enough.")
    ] = None,
    dedup: Annotated[
        Literal["text"] | None, typer.Option(help="Drop chunks whose text is that of an earlier one.")
    ] = None,
    rerank: Annotated[
        str | None, typer.Option(metavar="mmr:lambda=.7", help="Rerank for diversity (similarity: shared words).")
    ] = None,
    cut: Annotated[int | None, typer.Option(help="Keep the first so many chunks.")] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Try many values of k, a, lambda, threshold or cut: k=10,30,60 or a=0:1:.1; keeps no run.",
        ),
    ] = None,
    conflicts: Annotated[
        Settling, typer.Option(help="Which verdict counts if runs disagree: most runs', the first run's, or none.")
    ] = "majority",
    json_: Json = False,
) -> None:
    """Make a run of new lists from the verdicts of runs, and compare it with each of them. Nothing is judged.

    Examples:
    judge-eval what-if label:bm25 label:dense --fuse rrf
    judge-eval what-if label:dense --rerank mmr:lambda=.7 --cut 5 --label diverse
    judge-eval what-if label:bm25 label:dense --fuse weighted --sweep a=0:1:.1
    """
    from judge_eval.cli.printing.output import say, show, show_comparison, summary
    from judge_eval.runs.columns import parquet as parts
    from judge_eval.runs.keeping.mirror import written
    from judge_eval.views.pool import sweep_view
    from judge_eval.whatif import sweep as try_values
    from judge_eval.whatif import what_if as make

    if keeping.columnar:
        parts.load_arrow()
    given = [keeping.load(name, remark) for name in runs]
    if sweep is not None:
        tried = try_values(
            given, sweep, fuse=fuse, interleave=interleave, threshold=threshold, dedup=dedup is not None,
            rerank=rerank, cut=cut, metric=(numbers.names or (None,))[0], conflicts=conflicts,
        )  # fmt: skip
        if json_:
            give_json(tried.model_dump_json(indent=2))
        else:
            show(sweep_view(tried))
        return
    kept = keeping.resolved()
    keeping.page()
    with written(keeping.out, spelled_remark):
        made = make(
            given,
            fuse=fuse,
            interleave=interleave,
            threshold=threshold,
            dedup=dedup is not None,
            rerank=rerank,
            cut=cut,
            metrics=numbers.names or None,
            conflicts=conflicts,
            out=keeping.out,
            label=kept.label,
            tags=kept.tags,
        )
        if keeping.columnar:
            parts.write_parts(made)
    if json_:
        give_json(made.manifest.model_dump_json(indent=2))
        return
    for run in given:
        show_comparison(run.compare(made, metrics=made.manifest.metrics))
        say()
    summary(made, page=keeping.page(made))
