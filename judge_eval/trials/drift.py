"""Asking a judge again about the same chunks, so that a look is paid once even if it is killed."""

import shutil
from collections.abc import Callable
from pathlib import Path

from judge_eval.errors import ConfigError
from judge_eval.files import absent, held_folder, remove_empty
from judge_eval.llm.stack import open_store
from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import counted
from judge_eval.spelling import option
from judge_eval.study.drift import MOST_FAILED, Anchors, DriftHistory, DriftLook, DriftReport, drift_report

BASELINE_LOOKS = 5
"""How often the baseline is asked, so that the judge's own noise is known."""


def watch_judge(
    ask: Callable[[Path], Run], history: Path, earlier: Run | None = None, *, baseline_looks: int = BASELINE_LOOKS
) -> DriftReport:
    """Take a look at a judge: ask it anew about all anchors, add what it says to the history, and report.

    The first looks make the baseline, all of them in one call. Each look has a cache folder of its own beside the
    history: it begins empty, so nothing old is taken for new, and a look that was killed continues where it stopped.
    The folder is removed when the look is in the history.

    Args:
        ask: Judges the anchors with a cache in this folder.
        history: The file of the looks; it is made if there is none.
        earlier: A run whose verdicts are the baseline, in place of new ones.
        baseline_looks: How often to ask for a baseline, at least 1.

    Raises:
        ConfigError: The history is of other anchors, or too many verdicts failed; the replies are kept.
    """
    replies = history.with_name(f"{history.name}.replies")
    made = absent(replies)
    with held_folder(replies):
        known = DriftHistory(history)
        if earlier is not None and not known.looks:
            known.accept(Anchors.of(earlier))
            assert known.anchors is not None
            known.add(DriftLook.of(earlier, known.anchors, baseline=True))
        wanted = max(1, baseline_looks) if earlier is None else 1
        as_baseline = len(known.baseline) < wanted
        notes: list[str] = []
        for _ in range(wanted - len(known.baseline) if as_baseline else 1):
            place = replies / f"look-{len(known.looks) + 1}"
            try:
                run = ask(place)
            except Exception:
                if not open_store(place).info().entries:  # such as without a key: nothing is left of it
                    shutil.rmtree(place, ignore_errors=True)
                    remove_empty(replies, *made[1:])
                raise
            notes = known.accept(Anchors.of(run))
            assert known.anchors is not None
            look = DriftLook.of(run, known.anchors, baseline=as_baseline)
            if look.failed > MOST_FAILED * len(look.grades):
                raise ConfigError(
                    f"{look.failed} of {counted(len(look.grades), 'verdict')} failed, too many for a look; the "
                    f"replies are kept in {place}: run the command again with the same {option('history')}"
                )
            known.add(look)
            shutil.rmtree(place, ignore_errors=True)
        remove_empty(replies)
        return drift_report(known, notes)
