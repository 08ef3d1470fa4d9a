"""Chunks without text: nobody is asked, they have no verdict, or are irrelevant where the user says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Member, Options, Panel
from judge_eval.errors import ConfigError, TransientError
from judge_eval.judge_file import read_judge
from judge_eval.judges import Judge, Listwise, Pointwise
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import OnRoute, judge_of_record, make_judge, with_blank
from judge_eval.views.run_remarks import remarks_of

ROW = {"id": "t", "query": "q", "reference": "oak", "chunks": ["oak", "", " \n"]}
KINDS: dict[str, Judge] = {
    "pointwise": Pointwise(),
    "listwise": Listwise(),
    "decision": make_judge("support/binary", "decision"),
    "claims": make_judge("support/binary", "claims"),
    "panel": Panel([Member("a", Pointwise()), Member("b", Pointwise("relevance/binary"))]),
    "cascade": cascade_of("decisions/a", "openai/b", threshold=0.9),
    "listwise cascade": cascade_of("decisions/a", "openai/b", threshold=0.9, mode="listwise"),
    "around": OnRoute(Pointwise(), "x"),
}


def rules(record: dict[str, Any]) -> set[str]:
    """Return every rule for blanks in a record."""
    values = {record["blank"]} if "blank" in record else set()
    parts = [part for part in record.values() if isinstance(part, dict)]
    return values.union(*(rules(part) for part in (*parts, *record.get("members", ()))))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rule_is_in_the_record_of_each_kind(kind: str) -> None:
    """It is made again from the record; unset, it changes no record."""
    plain, rated = KINDS[kind], with_blank(KINDS[kind], "irrelevant")
    assert rules(plain.describe()) == set()
    assert rules(rated.describe()) == {"irrelevant"}
    assert with_blank(rated, "no_verdict").describe() == plain.describe()
    if kind != "around":
        for judge in (plain, rated):
            assert rules(judge_of_record(judge.describe()).describe()) == rules(judge.describe())


def run_of(chunks: Any, **settings: Any) -> EvalRun:
    """Judge one trace."""
    with Evaluator("fake/overlap", cache=False, metrics=["P@3"], **settings) as evaluator:
        return evaluator.evaluate([{**ROW, "chunks": chunks}])


def said(run: EvalRun) -> list[Any]:
    """Return each grade, or why there is none."""
    return [o.grade if o.kind == "verdict" else o.why for o in run.results[0].outcomes]


def test_a_chunk_without_text_is_a_failed_verdict() -> None:
    """The mean is an expected value within its bounds, and the summary names the count and the option."""
    run = run_of(ROW["chunks"])
    assert (said(run), run.status) == ([1, "empty", "empty"], "done")
    assert run.aggregates["P@3"].bounds is not None
    (remark,) = [remark.text for remark in remarks_of(run.manifest) if remark.about == "empty"]
    assert remark == "2 chunks have no text and so no verdict (`empty`); the option `blank` can make them irrelevant"


@pytest.mark.parametrize("more", [{}, {"mode": "listwise"}, {"repeat": 3}])
def test_blank_text_is_irrelevant_on_request(more: dict[str, Any]) -> None:
    """Then it is a verdict with the lowest grade."""
    run = run_of(ROW["chunks"], blank="irrelevant", **more)
    assert (said(run), run["P@3"]) == ([1, 0, 0], pytest.approx(1 / 3))


def test_other_rules_are_refused() -> None:
    """A wrong value names the known ones; a judge that has a rule of its own says so."""
    with pytest.raises(ConfigError, match="blank is 'skip'; known: no_verdict, irrelevant"):
        Evaluator("fake/overlap", blank="skip")  # type: ignore[arg-type]
    own = SimpleNamespace(plan=None, describe=dict, scale=Pointwise().scale, needs=())
    with pytest.raises(ConfigError, match="already has a rule for chunks without text"):
        with_blank(own, "irrelevant")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        'model = "fake/overlap"',
        '[[member]]\nmodel = "fake/overlap"\n[[member]]\nmodel = "fake/always"',
        'threshold = 0.9\n[cheap]\nmodel = "decisions/a"\n[strong]\nmodel = "fake/overlap"',
    ],
)
def test_a_judge_file_states_the_rule(tmp_path: Path, text: str) -> None:
    """One judge, a panel and a cascade take it."""
    file = tmp_path / "judge.toml"
    file.write_text(f'blank = "irrelevant"\n{text}\n')
    with Evaluator(**read_judge(file).keywords()) as evaluator:
        assert rules(evaluator.chosen_judge.describe()) == {"irrelevant"}


PICTURES: list[Any] = [
    {"id": "i", "text": "", "image_url": "a.png"},
    {"id": "i", "text": "", "metadata": {"file_type": "image/png"}},
    SimpleNamespace(page_content=" ", metadata={"image_path": "a.png"}, id="i"),
    SimpleNamespace(node=SimpleNamespace(text="", image_url="a.png", node_id="i", metadata={}), score=0.5),
]


@pytest.mark.parametrize("picture", PICTURES)
def test_an_image_is_named_as_unsupported(picture: Any) -> None:
    """Nobody is asked about an image without a text, and the run says why."""
    run = run_of(["oak", picture])
    assert said(run) == [1, "empty"]
    (remark,) = run.manifest.dataset.remarks
    assert remark.startswith("images are not supported: one without a text has no verdict")
    assert run_of(["oak", ""]).manifest.dataset.remarks == ()


def test_a_resume_asks_for_what_failed_and_not_for_blanks(tmp_path: Path) -> None:
    """A run with failed calls beside blanks is completed by the calls alone."""
    whys = []
    for answer in (TransientError("down"), False):
        backend = FakeBackend.table({"c1": answer})
        with Evaluator(backend, cache=False, metrics=["P@3"], options=Options(attempts=1)) as evaluator:
            run = evaluator.evaluate([ROW], out=tmp_path, resume=True)
        assert [chunk for request in backend.requests for chunk in request.chunk_ids] == ["c1"]
        whys.append((run.id, run.status, said(run)))
    (first, *begun), (second, *ended) = whys
    assert first == second
    assert begun == ["incomplete", ["unreachable", "empty", "empty"]]
    assert ended == ["done", [0, "empty", "empty"]]
