"""A pool that a new run joins."""

from collections.abc import Callable
from pathlib import Path

from judge_eval.pools.pool import Pool
from judge_eval.pools.scoring import PoolReport, default_cutoff, score_pool
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import counted


def grow(path: Path, run: Run, say: Callable[[str], None]) -> tuple[PoolReport, PoolReport | None]:
    """Add a run to the pool in a file, and score all runs of the pool, before and after.

    The file is made if there is none. It stays as it is if the run lacks questions of the pool, which a pool of both
    would lose, or is in the pool already.

    Args:
        path: The pool's file.
        run: What to add.
        say: Receives a sentence if the file stays as it is.

    Returns:
        The scores with the run, and those without it; None if there was no pool.

    Raises:
        RunError: The run and the pool have no question in common, or their scales differ.
        DataError: The file is not a pool.
        ConfigError: The file cannot be written.
    """
    if not path.exists():
        grown, before = Pool.of([run]), None
    else:
        before = Pool.load(path)
        if run.id in {system.run for system in before.systems}:
            say(f"{path} has this run already")
            return score_pool(before), None
        grown = Pool.of([before, run])
    lacks = 0 if before is None else len(before.questions) - len(grown.questions)
    if lacks:
        questions = counted(lacks, "question")
        say(f"the run lacks {questions} of {path}, which stays as it is; `judge-eval pool` joins what both have")
    else:
        grown.save(path)
    k = default_cutoff(grown)
    return score_pool(grown, k=k), None if before is None or not before.systems else score_pool(before, k=k)
