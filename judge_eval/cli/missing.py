"""`missing`: whether the corpus holds what a retriever lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from judge_eval.cli.exit_codes import INCOMPLETE, OK, advise_resume, close, verb
from judge_eval.cli.flags.common import FinishedRun, Json, KeepingFlags, Quiet, Seed
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import OF_THE_RUN, HowCalled, JudgingFlags, judge_of_run
from judge_eval.cli.printing.output import print_record, remark, show_plan, tell, watching
from judge_eval.errors import ConfigError
from judge_eval.safe_text import counted
from judge_eval.settings import RANGES, Range, setting

_PER_SECOND, _MEMORY = 4e6, 2.8
"""Bytes of a corpus that are read and indexed in a second, and bytes of memory for each of them, on a slow machine."""
_PACKED = 5
"""How many bytes of text a byte of a packed file holds, about."""
_LARGE = 50e6
"""From so many bytes on, the time and the memory of a search are told before it."""


@verb
def missing(
    run: FinishedRun,
    judging: Annotated[JudgingFlags, only("model", "judge", "prompt", "mode"), OF_THE_RUN],
    calling: HowCalled,
    keeping: Annotated[KeepingFlags, only("out", "label", "tags", "resume", "new_if_done")],
    corpus: Path | None = setting(
        None, "The chunks that can be retrieved: JSON Lines, CSV, TSV or Parquet, or a folder with them."
    ),
    depth: int = setting(10, "How many chunks of the corpus to judge for each lost question."),
    limit: int | None = setting(None, "Search for at most so many lost questions, drawn at random."),
    seed: Seed = 0,
    dry_run: bool = setting(False, "Search, and show calls, cache hits and tokens; make no call."),
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Missing or missed: does the corpus hold what the retriever lost?

    For each question for which RUN retrieved nothing relevant, the corpus is searched by BM25 for question and
    reference together, and the run's judge judges the first chunks that it has not seen. What it accepts is for people
    to read. The chunks are kept as a run; label them, name that run, and no corpus: its report counts what people
    confirm. Needs bm25s (extra `corpus`).

    Examples:
    judge-eval missing latest --corpus corpus.jsonl --model openai/NAME --label missing
    judge-eval missing latest --corpus corpus.jsonl --model openai/NAME --dry-run
    judge-eval missing label:missing
    """
    from judge_eval.evaluator import Evaluator
    from judge_eval.missing import check_run_to_search, search_corpus
    from judge_eval.study.missing import missing_report
    from judge_eval.views.missing import missing_view

    RANGES["limit"].check(depth, "--depth")
    Range(1, RANGES["limit"].high).check(limit, "--limit")
    before = keeping.load(run)
    if before.manifest.dataset.search is not None:
        if corpus is not None:
            raise ConfigError(f"run {before.name} holds what was found in a corpus; leave out --corpus to report on it")
        print_record(missing_report(before), json_, missing_view)
        return OK
    if corpus is None:
        raise ConfigError("name the chunks that can be retrieved with --corpus FILE")
    if before.manifest.counted is None:
        raise ConfigError(f"run {before.name} is not finished: resume it first")
    kept = keeping.resolved().keywords()
    with Evaluator(**judge_of_run(judging, calling, before), cache=calling.used or False) as given:
        evaluator = check_run_to_search(given, before)
        announce = (lambda _: None) if quiet else _tell_what_it_takes
        lost = search_corpus(before, corpus, depth=depth, limit=limit, seed=seed, announce=announce)
        if lost is None:
            tell(f"no question of {before.name} is lost: each has a relevant chunk, or a failed verdict")
            return OK
        if lost.repeated and not quiet:
            ids = ", ".join(lost.repeated[:3]) + (", ..." if len(lost.repeated) > 3 else "")
            remark(f"ids of several chunks in the corpus ({ids}) are followed by # and the chunk's place in it")
        if dry_run:
            show_plan(evaluator, lost.traces, {"name": lost.name})
            return OK
        with keeping.written(), watching(quiet or json_) as evaluator.watch:
            made = lost.judged(evaluator, **kept)
        close(given)
    print_record(missing_report(made), json_, missing_view)
    if not made.manifest.tally.open_verdicts:
        return OK
    if not quiet and made.folder is not None:
        advise_resume(str(made.folder))
    return INCOMPLETE


def _tell_what_it_takes(files: Sequence[Path]) -> None:
    """Tell how long searching a large corpus will take, and in how much memory; a small one needs no words."""
    packed = (".bz2", ".gz", ".parquet", ".xz")
    size = sum(file.stat().st_size * (_PACKED if file.suffix in packed else 1) for file in files if file.is_file())
    if size >= _LARGE:
        minutes = counted(max(1, round(size / _PER_SECOND / 60)), "minute")
        remark(
            f"searching {size / 1e9:.1f} GB of text takes about {minutes} and {size * _MEMORY / 1e9:.1f} GB of memory"
        )
