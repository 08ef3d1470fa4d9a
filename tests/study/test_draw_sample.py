"""Drawing a sample from Python: the same ways, sizes and refusals as on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.stats_planning import simulated_run
from judge_eval.errors import ConfigError
from judge_eval.study.label_plan import DEFAULT_SIZE, draw_sample, ids_changed_by_spreadsheets

RUN, TRUTH = simulated_run(np.random.default_rng(4), 80, (0.6, 0.9), (0.9, 0.9), "P@5")


@pytest.mark.slow
def test_a_sample_has_the_size_that_is_asked_for() -> None:
    """Traces and chunks are drawn in the number given, or the default one; a target draws as many as its plan says."""
    assert len(draw_sample(RUN).chosen) == DEFAULT_SIZE
    assert len(draw_sample(RUN, 7, by="neyman").chosen) == 7
    chunks = draw_sample(RUN, 9, chunks=True).chosen
    assert sum(len(pick.chunks or ()) for pick in chunks) == 9
    drawn = draw_sample(RUN, target="P@5=0.1")
    assert drawn.planned is not None
    assert len(drawn.chosen) == drawn.planned.n


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": True, "by": "grade"}, "draws from all chunks"),
        ({"chunks": True, "pilot": TRUTH}, "leave `by` .* and `without` .* out"),
        ({"metric": "AP@5"}, "add `chunks`"),
        ({"target": "P@5=0.1", "n": 5}, "leave `n` .* and `metric` .* out"),
        ({"target": "P@5=0.1", "by": "grade"}, 'cannot be planned with `by="grade"'),
        ({"target": "P@5=0.001"}, "is not reached"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    """The error names the options as Python spells them."""
    with pytest.raises(ConfigError, match=message):
        draw_sample(RUN, **options)


def test_ids_that_a_spreadsheet_changes_are_named() -> None:
    """Ids that read like numbers or dates are listed, others are not."""
    chosen = draw_sample(RUN, 1).chosen
    assert ids_changed_by_spreadsheets(chosen) == []
    odd = chosen[0].result.replace(trace_id="1e5")
    assert ids_changed_by_spreadsheets([type(chosen[0])(odd, 1.0)]) == ["1e5"]
