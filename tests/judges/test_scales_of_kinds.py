"""Every kind of judge grades on any scale of a prompt file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Options
from judge_eval.errors import ConfigError, PromptError
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import Judge
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.token_confidence import read_confidence
from judge_eval.prompts import load_form
from judge_eval.schema import Scale
from judge_eval.wire import Completion, Request, TokenLogprob
from tests.support.chat_answers import decide, words_of
from tests.support.chat_server import ChatServer
from tests.support.decision_server import DecisionServer
from tests.support.scales import (
    FIVE,
    ONE_TO_FIVE,
    SCALES,
    SHIPPED,
    check_run,
    judge_on,
    judged,
    labels_in,
    names,
    prompt_file,
    traces,
)

ALONE = [(mode, span) for mode in SHIPPED for span in SCALES if (mode, span) != ("decision", "0-10")]


@pytest.mark.parametrize(("mode", "span"), ALONE)
def test_a_judge_grades_on_any_scale(mode: str, span: str, tmp_path: Path) -> None:
    """Every way of asking gives grades of the prompt file's scale, and metrics that follow from them."""
    scale = SCALES[span]
    judge = judge_on(tmp_path, mode, scale)
    assert judge.describe()["mode"] == mode
    check_run(judged(judge, scale), scale)


@FIVE
def test_a_panel_grades_on_any_scale(scale: Scale, tmp_path: Path) -> None:
    """Every vote and the verdict are on the members' scale; the vote that rounds a mean too."""
    prompt = prompt_file(tmp_path, "pointwise", scale)
    with Evaluator("fake/hash", prompt=prompt, repeat=3, vote="mean", metrics=names(scale), cache=False) as evaluator:
        run = evaluator.evaluate(traces())
    check_run(run, scale)
    for result in run.results:
        assert {grade for votes in result.votes.values() for grade in votes} <= set(scale.grades)


def cascade(cheap: Path, strong: Path) -> Judge:
    """Make a cascade of a decision model and a model that writes."""
    return cascade_of(
        "fake/overlap", "fake/hash", threshold=0.75, cheap_prompt=cheap, cheap_mode="decision", prompt=strong
    )


@FIVE
def test_a_cascade_grades_on_any_scale(scale: Scale, tmp_path: Path) -> None:
    """Both stages give grades of their common scale; a decision model takes up to ten levels."""
    strong = prompt_file(tmp_path, "pointwise", scale)
    if len(scale.grades) > 10:
        with pytest.raises(PromptError, match=r"2 to 10 levels, and 0-10 has 11.*a model that writes"):
            load_form(prompt_file(tmp_path, "decision", scale))
        return
    quick = prompt_file(tmp_path, "decision", scale)
    judge = cascade(quick, strong)
    with Evaluator(
        {"cheap": "fake/overlap", "strong": "fake/hash"}, judge=judge, metrics=names(scale), cache=False
    ) as evaluator:
        check_run(evaluator.evaluate(traces()), scale)


def test_judges_of_one_panel_need_equal_scales_whatever_the_words(tmp_path: Path) -> None:
    """Grades and threshold must be the same; descriptions of the levels may differ."""
    first, other = (SCALES[span] for span in ("0-4", "1-5"))
    quick = prompt_file(tmp_path, "decision", first)
    differs = prompt_file(tmp_path, "pointwise", other)
    with pytest.raises(ConfigError, match=r"cheap 0-4 \(relevant from 3\), strong 1-5 \(relevant from 4\)"):
        cascade(quick, differs)
    same = prompt_file(tmp_path, "pointwise", first)
    same.write_text(same.read_text().replace("supports 1 of", "shows 1 of"))
    cascade(quick, same)


def test_a_list_asks_alone_on_its_own_scale(tmp_path: Path) -> None:
    """What a reply leaves out is asked again by the same prompt, not by a shipped one on another scale."""
    asked: list[int] = []

    def answer(request: Request) -> str:
        asked.append(len(request.passages))
        verdict = {"evidence": "on a clay floor", "reason": "So.", "instruction_in_chunk": False, "grade": 5}
        numbers = range(2, len(request.passages) + 1) if len(request.passages) > 1 else [1]
        return json.dumps({"verdicts": [{"id": number, **verdict} for number in numbers]})

    judge = judge_on(tmp_path, "listwise", ONE_TO_FIVE)
    run = judged(judge, ONE_TO_FIVE, FakeBackend(answer))
    check_run(run, ONE_TO_FIVE)
    assert sorted(asked) == [1] * 6 + [6] * 6
    assert "pointwise" not in judge.describe()
    with pytest.raises(PromptError, match="its pointwise prompt 'support/graded' on 0-3"):
        Listwise(prompt_file(tmp_path, "listwise", ONE_TO_FIVE), pointwise="support/graded")


def answer_on(body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as the schema of a body asks, with any of its grades."""
    schema = body["response_format"]["json_schema"]["schema"]
    listwise = "verdicts" in schema["properties"]
    fields = schema["properties"]["verdicts"]["items"]["properties"] if listwise else schema["properties"]
    name = "grade" if "grade" in fields else "verdict"
    grades = fields[name].get("enum", [False, True])

    def verdict(salt: str) -> dict[str, Any]:
        quote = {"evidence": "on a clay floor", "reason": "So.", "instruction_in_chunk": False}
        text = re.sub(r" \d{9}>", ">", words_of(body))  # the codes of the fences differ from run to run
        return {**quote, name: grades[decide(text + salt) % len(grades)]}

    if not listwise:
        return verdict("")
    count = len(re.findall(r"<chunk \d+ \d{9}>", body["messages"][1]["content"]))
    return {"verdicts": [{"id": number, **verdict(str(number))} for number in range(1, count + 1)]}


@FIVE
@pytest.mark.parametrize("mode", ["pointwise", "listwise"])
def test_a_server_is_asked_for_the_grades_of_the_scale(mode: str, scale: Scale, tmp_path: Path) -> None:
    """Schema and prompt name exactly the scale's grades and levels, and each of them is read."""
    with ChatServer(verdict=answer_on) as server:
        judge = judge_on(tmp_path, mode, scale)
        how = Options(base_url=server.url)
        with Evaluator("openai/m", judge=judge, metrics=names(scale), cache=False, options=how) as evaluator:
            check_run(evaluator.evaluate(traces()), scale)
        asked = json.dumps(server.calls[0])
    assert f"- {scale.maximum}: supports {scale.maximum} of {scale.maximum} parts" in asked
    assert "$levels" not in asked
    assert "$grades" not in asked
    if not scale.binary:
        assert f'"enum": {json.dumps(list(scale.grades))}' in asked


@pytest.mark.parametrize("dialect", ["openai", "vllm", "sglang", "systemone"])
@pytest.mark.parametrize("span", ["0-4", "1-5"])
def test_a_decision_model_is_asked_for_the_levels(dialect: Any, span: str, tmp_path: Path) -> None:
    """A level for each grade, the lowest first; the median of the answer is a grade of the scale."""
    scale = SCALES[span]
    shares = (0.1, 0.2, 0.1, 0.15, 0.45)
    with DecisionServer(dialect, rule=lambda _: shares) as server:
        judge = judge_on(tmp_path, "decision", scale)
        how = Options(base_url=server.url, params={"dialect": dialect})
        metrics = ["SoftP@5", "ENDCG@5"]
        with Evaluator("decisions/m", judge=judge, metrics=metrics, cache=False, options=how) as evaluator:
            run = evaluator.evaluate(traces(2))
        assert server.objections == []
    for result in run.results:
        for outcome in result.outcomes:
            assert outcome.kind == "verdict"
            assert outcome.grade == scale.minimum + 3
            assert outcome.grade_probabilities == pytest.approx(shares)
            assert outcome.confidence == pytest.approx(sum(shares[scale.relevant - scale.minimum :]))
            mean = sum(grade * share for grade, share in zip(scale.grades, shares, strict=True))
            assert outcome.expected_grade == pytest.approx(mean)
        assert result.scores["SoftP@5"] == pytest.approx(0.6)


@FIVE
@pytest.mark.parametrize(("model", "extreme"), [("fake/always", "maximum"), ("fake/never", "minimum")])
def test_fake_judges_reach_the_ends_of_a_scale(model: str, extreme: str, scale: Scale, tmp_path: Path) -> None:
    """A fake that finds everything gives the highest grade, one that finds nothing the lowest."""
    run = judged(judge_on(tmp_path, "pointwise", scale), scale, model)
    assert set(labels_in(run).grades.values()) == {getattr(scale, extreme)}
    table = FakeBackend.table({}, default=extreme == "maximum")
    run = judged(judge_on(tmp_path, "pointwise", scale), scale, table)
    assert set(labels_in(run).grades.values()) == {getattr(scale, extreme)}


@pytest.mark.parametrize(
    ("top", "grade", "expected"),
    [
        ({"10": 0.6, "1": 0.3, "7": 0.1}, 10, [0, 0.3, 0, 0, 0, 0, 0, 0.1, 0, 0, 0.6]),
        ({"1": 0.9, "7": 0.1}, 1, None),
        ({"7": 0.995, "1": 0.005}, 7, [0, 0.005, 0, 0, 0, 0, 0, 0.995, 0, 0, 0]),
    ],
)
def test_a_token_that_may_begin_ten_has_no_probability(
    top: dict[str, float], grade: int, expected: list[float] | None
) -> None:
    """A model that writes 10 digit by digit says 1 first: its probability is of neither, so none is kept."""
    logs = tuple((token, math.log(share)) for token, share in top.items())
    token = str(grade)
    tokens = (
        TokenLogprob('{"grade":', 0.0, ()),
        TokenLogprob(token, math.log(top[token]), logs),
        TokenLogprob("}", 0.0, ()),
    )
    token_confidence = read_confidence(Completion(f'{{"grade":{grade}}}', logprobs=tokens), SCALES["0-10"], grade)
    assert (token_confidence and token_confidence.grades) == (pytest.approx(tuple(expected)) if expected else None)
