"""`validate-judge`: a judge on public labelled sets that the user downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.common import Json, Seed, output_flag
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import SEVERAL, JudgingFlags
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.printing.door import give_json, remark
from judge_eval.cli.printing.errors import verb
from judge_eval.errors import ConfigError


@verb
def validate_judge(
    judging: Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence", "judge", *SEVERAL)],
    numbers: Annotated[NumbersFlags, only("relevant")],
    calling: Annotated[CallingFlags, without("fleet", "record", "replay", "warm_prefix", "hedge", "otel")],
    sets: Annotated[
        list[Path] | None,
        typer.Option(help="A labelled set: a file, or a folder with queries, corpus and qrels; repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Judge a random sample of this many traces of each set.")] = None,
    join: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Add the rows of an earlier table (.json); repeatable.")
    ] = None,
    output: Annotated[
        list[Path] | None, output_flag("Also write the table to this file: .md, .html or .json. Repeatable.")
    ] = None,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Measure a judge on public labelled sets: a row for each set, language and prompt, that anyone can make again.

    Sets: TREC DL and LLMJudge (queries, collection, qrels), WiCE, AttributionBench, NoMIRACL, HotpotQA, ClapNQ, BEIR
    folders, TREC RAG nuggets. Nothing is downloaded. TREC runs in a folder `runs/` beside qrels are ranked too.

    Examples:
    judge-eval validate-judge --model openai/NAME --sets wice.jsonl --sets trec-dl-2019 --limit 100 -o table.json
    judge-eval validate-judge --join one.json --join two.json -o both.md
    """
    from judge_eval.cli.printing.output import show
    from judge_eval.data.collection import JUDGED
    from judge_eval.data.options import ReadOptions
    from judge_eval.export import text as export
    from judge_eval.study.validation import ValidationTable, validated_sets
    from judge_eval.views.markdown import markdown_of
    from judge_eval.views.validation import validation_page, validation_view

    export.check_suffixes(output or (), (".md", ".html", ".json"))
    if not sets and not join:
        raise ConfigError("name a set with --sets, or tables to join with --join")
    rows = []
    for path in sets or ():
        reader = ReadOptions(format=JUDGED if path.is_dir() else None, relevant=numbers.relevant, yes_ids=True)
        with judging.evaluator(calling, numbers, ["P@5"]) as evaluator:
            run = evaluator.evaluate(path, reader=reader, limit=limit, seed=seed if limit else None, name=path.name)
        remark(f"{path.name}: {run.manifest.tally.verdicts:,} verdicts")
        rows += validated_sets(run, path.name, path / "runs" if path.is_dir() else None)
    table = ValidationTable.joined(join or (), rows)
    if json_:
        give_json(table.model_dump_json(indent=2))
    else:
        show(validation_view(table))
    for path in output or ():
        suffix = path.suffix.lower()
        text = {".json": lambda: table.model_dump_json(indent=2) + "\n", ".html": lambda: validation_page(table)}
        export.write_text(path, text.get(suffix, lambda: markdown_of(validation_view(table)))())
