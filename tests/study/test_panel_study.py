"""A run of a panel against labels: what its members are worth."""

from __future__ import annotations

import numpy as np
import pytest

from judge_eval import Evaluator, FakeBackend
from judge_eval.errors import ConfigError
from judge_eval.judges.panel import Member, Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.study.agree import agree
from judge_eval.study.members import PanelChoice
from judge_eval.views.agreement import agreement_view
from judge_eval.views.markdown import markdown_of
from tests.support.verdicts import traces_of


def test_agree_weights_a_panels_members() -> None:
    """A good judge has a greater weight than one that guesses, and the page's text says who adds nothing."""
    rng = np.random.default_rng(5)
    names = [f"t{k}" for k in range(60)]
    truth = {(n, c): int(rng.random() < 0.4) for n in names for c in "abcd"}
    labels = {n: {"chunks": [{"id": c, "text": f"{c} {n}", "label": truth[n, c]} for c in "abcd"]} for n in names}
    good = {key: y if rng.random() < 0.9 else 1 - y for key, y in truth.items()}
    guess = {key: int(rng.random() < 0.5) for key in truth}
    panel = Panel([Member("good", Pointwise(), "a"), Member("guess", Pointwise(), "b")])
    models = {"a": FakeBackend.table(good), "b": FakeBackend.table(guess)}
    with Evaluator(models, judge=panel, metrics=["P@3"], cache=False) as evaluator:
        run = evaluator.evaluate(traces_of(dict.fromkeys(names, "abcd"), **labels))
    choice = PanelChoice(size=2, costs={"good": 0.002, "b": 0.001})  # by a member's name, or its model's
    result = agree(run, None, panel_choice=choice)
    assert result.panel is not None
    assert result.panel.best is not None
    best = result.panel.best
    assert (best.members, best.cost, best.whole_cost, best.priced) == (("good",), 0.002, 0.003, "stated costs")
    cheap = agree(run, None, panel_choice=choice.but(within=0.001)).panel
    assert cheap is not None
    assert cheap.best is not None
    assert cheap.best.members == ("guess",)
    unknown = agree(run, None, panel_choice=PanelChoice(size=2)).panel
    assert unknown is not None
    assert unknown.best is not None
    assert unknown.best.priced.startswith("the number of members")
    for costs, fault in (({"good": 1.0}, "price of guess is not known"), ({"god": 1.0}, "did you mean 'good'")):
        with pytest.raises(ConfigError, match=fault):
            agree(run, None, panel_choice=PanelChoice(size=2, costs=costs))
    first, second = result.panel.members
    assert first.weight > 2 * abs(second.weight)
    assert (first.adds_nothing, second.adds_nothing) == (False, True)
    text = markdown_of(agreement_view(result))
    assert "logistic stacking" in text
    assert "The best panel: good. It costs 0.002 of 0.003 (stated costs)." in text
    assert "adds nothing" in text
