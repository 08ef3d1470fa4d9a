"""`pool`: several runs as one pool, and each run scored against it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Json, NumbersFlags, Runs, runs_argument
from judge_eval.cli.flags.groups import only
from judge_eval.cli.printing.output import give_json, remark, show
from judge_eval.errors import ConfigError, DataError, OtherCutsError
from judge_eval.pools.joining import Settling
from judge_eval.settings import setting

if TYPE_CHECKING:
    from judge_eval.pools.pool import Pool
    from judge_eval.runs.folder.run import Run
    from judge_eval.schema import Scale

FORMATS = (".json", ".qrels", ".md", ".html")


@verb
def pool(
    runs: Annotated[
        list[str],
        runs_argument(
            "Runs of the same questions: folder, id or the start of it, label:NAME or latest; also pools "
            "(FILE.json) and TREC judgments (FILE.qrels)."
        ),
    ],
    numbers: Annotated[NumbersFlags, only("metrics")],
    keeping: Runs,
    depth: int | None = setting(None, "How many ranks of each run enter the pool; else all."),
    conflicts: Settling = setting(
        "majority", "Which verdict counts if runs disagree: most runs', the first run's, or none (an error)."
    ),
    output: list[Path] | None = setting(
        None, "Write the pool here (.json), its judgments (.qrels) or the report (.md, .html). Repeatable."
    ),
    json_: Json = False,
) -> None:
    """Join runs into a pool and score each against it: recall, and what it would miss. Nothing is judged.

    Chunks are joined by id, or by text where ids differ. Each score is "of the pool".

    Examples:
    judge-eval pool label:bm25 label:dense
    judge-eval pool label:bm25 label:dense label:hybrid -o pool.json -o pool.qrels
    """
    from judge_eval.export import text as export
    from judge_eval.export.trec import pool_lines, pool_provenance, provenance_beside
    from judge_eval.pages.page import page_named
    from judge_eval.pages.poolpage import pool_data
    from judge_eval.pages.report import document
    from judge_eval.pools.scoring import score_pool
    from judge_eval.views.markdown import markdown_of
    from judge_eval.views.pool import pool_json, pool_view

    export.prepare(output or (), FORMATS)
    try:
        made = _joined(runs, keeping, depth, conflicts)
    except OtherCutsError as error:
        raise OtherCutsError(f"{error}{_by_evidence(runs, keeping)}") from None
    report = score_pool(made, numbers.names or None)
    if json_:
        give_json(pool_json(report))
    else:
        show(pool_view(report))
    for path in output or ():
        if path.suffix.lower() == ".json":
            made.save(path)
        else:
            suffix = path.suffix.lower()
            if suffix == ".html":
                text = document(page_named("pool"), (drawn := pool_data(report)).title, drawn.data, [])
            else:
                text = markdown_of(pool_view(report)) if suffix == ".md" else "".join(pool_lines(made))
            export.write_text(path, text)
            if suffix == ".qrels":
                export.write_text(provenance_beside(path), pool_provenance(made, text))


def _by_evidence(names: list[str], keeping: Runs) -> str:
    """Say what each other run would add to the first by the words that are read."""
    from judge_eval.compare.compare import compare
    from judge_eval.views.findings import together_sentences

    first, *others = (keeping.load(name) for name in names if not Path(name).is_file())
    return "".join(f"; {sentence}" for sentence in together_sentences(compare(first, *others, keep=0)))


def _joined(names: list[str], keeping: Runs, depth: int | None, conflicts: Settling) -> Pool:
    from judge_eval.data.collection import read_qrels
    from judge_eval.pools.pool import Pool
    from judge_eval.runs.scoring.rescore import scale_of

    given: dict[str, Run | Pool] = {}
    for name in names:
        if not Path(name).is_file():
            given[name] = keeping.load(name)
        elif Path(name).suffix.lower() == ".json":
            given[name] = Pool.load(name)
    first = next(iter(given.values()), None)
    if first is None:
        raise ConfigError("name a run or a pool: judgments alone score nothing")
    scale = first.scale if isinstance(first, Pool) else scale_of(first)
    joined = (
        given.get(name) or Pool.from_qrels(read_qrels(Path(name)), _scale_of(Path(name), scale)) for name in names
    )
    return Pool.of(joined, depth=depth, conflicts=conflicts)


def _scale_of(path: Path, usual: Scale) -> Scale:
    """Return the scale of judgments: what stands beside them if it describes this file, else that of the runs."""
    from judge_eval.export.trec import provenance_beside
    from judge_eval.schema import Scale

    if not (beside := provenance_beside(path)).is_file():
        return usual
    try:
        known = json.loads(beside.read_text(encoding="utf-8"))
        scale, digest = Scale.model_validate(known["scale"]), known["sha256"]
    except (ValueError, KeyError, TypeError):
        fault = "does not say where a pool's judgments are from; delete it or write the pool again"
        raise DataError(fault, file=str(beside)) from None
    if digest == sha256(path.read_bytes()).hexdigest():
        return scale
    remark(f"{path.name} was changed after {beside.name} was written; its grades are read on the scale of the runs")
    return usual
