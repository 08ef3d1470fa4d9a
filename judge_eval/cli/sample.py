"""`sample`: traces chosen for people to label."""

import shlex
from pathlib import Path
from typing import Literal

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import OneRun, SafeCells, Seed
from judge_eval.cli.printing.output import remark
from judge_eval.settings import setting


@verb
def sample(
    chosen: OneRun,
    n: int | None = setting(None, "How many traces, or chunks with --chunks. Default: 50.", flags=("--n", "-n")),
    target: str | None = setting(
        None, "As many as give the corrected mean this half width, drawn the cheapest way.", metavar="METRIC=HALF"
    ),
    output: Path = setting(Path("to_label.jsonl"), "The file to write (.jsonl or .csv), for labels to be filled in."),
    by: Literal["none", "grade", "cluster", "neyman", "uncertain"] | None = setting(
        None,
        "none: all alike (the default); grade: equally many traces of each highest grade, weighted later; "
        "cluster: whole clusters; neyman, uncertain: more where labels should differ from verdicts.",
    ),
    without: Path | None = setting(None, "A file of labels: its traces are not chosen again; a plan learns from it."),
    chunks: bool = setting(False, "Choose single chunks instead of whole traces."),
    metric: str | None = setting(None, "With --chunks: prefer chunks whose label can move this metric, AP@K or RR@K."),
    seed: Seed = 0,
    safe_cells: SafeCells = False,
) -> None:
    """Choose traces for people to label, shown blind: without verdicts, scores or ranks.

    The file explains the labels and names the next command.

    Examples:
    judge-eval sample latest -n 100 -o to_label.csv
    judge-eval sample latest -n 50 --without to_label.csv -o more.csv
    judge-eval sample latest --chunks -n 200 --metric AP@5
    judge-eval sample latest --target AP@5=0.03
    """
    from judge_eval.export import text as export
    from judge_eval.runs.scoring.rescore import scale_of
    from judge_eval.study.label_plan import draw_sample, ids_changed_by_spreadsheets
    from judge_eval.study.matching import labels_of
    from judge_eval.study.sample import blind_csv, blind_jsonl, scale_words
    from judge_eval.views.correction import label_plan_sentences

    export.check_suffix(output, (".jsonl", ".csv"))
    run = chosen.loaded()
    pilot = None if without is None else labels_of(run, without)
    drawn = draw_sample(run, n, target=target, by=by, chunks=chunks, metric=metric, pilot=pilot, seed=seed)
    picked = drawn.chosen
    if drawn.plan is not None and drawn.planned is not None:
        for sentence in label_plan_sentences(drawn.plan, drawn.planned):
            remark(sentence)
    scale, then = scale_words(scale_of(run)), _next(chosen, run.id, output, chunks or target is not None)
    if output.suffix.lower() == ".csv":
        # Excel reads UTF-8, and writes it back, where a mark begins the file.
        text = "\ufeff" + blind_csv(picked, seed, scale=scale, then=then, safe_cells=safe_cells)
        changed = ids_changed_by_spreadsheets(picked)
    else:
        text, changed = blind_jsonl(picked, run, seed, then=then), []
    export.write_text(output, text)
    count = sum(len(pick.to_label(seed)) for pick in picked)
    remark(f"{len(picked)} traces with {count} chunks to label in {output}")
    if changed:
        remark(
            f"warning: a spreadsheet reads ids such as {changed[0]} as numbers or dates; import the columns "
            "trace_id and chunk_id as text, or write .jsonl"
        )
    remark(f"fill in `label`: {scale}")
    served = ["judge-eval", "serve", "--sample", str(output)]
    if chosen.out != Path("runs"):
        served += ["--out", str(chosen.out)]
    remark(f"or label in the browser: {shlex.join(served)}")
    remark(f"then: {then}")


def _next(chosen: OneRun, run_id: str, output: Path, corrects: bool) -> str:
    words = ["judge-eval", "agree", run_id[:8], str(output)]
    if corrects:
        words = ["judge-eval", "correct", run_id[:8], "--labels", str(output)]
    if chosen.out != Path("runs"):
        words += ["--out", str(chosen.out)]
    return shlex.join(words)
