from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from judge_eval import Completion, Evaluator, FakeBackend, Identity, Request, Trace
from judge_eval.judges.token_confidence import read_confidence
from judge_eval.llm.fake import rules
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import BINARY, GRADED
from judge_eval.wire import TokenLogprob

HEAD = '{"evidence": "a \\"verdict\\": false b", "reason": "", "instruction_in_chunk": false, '


def reply(*tokens: str | tuple[str, dict[str, float]]) -> Completion:
    """Make a reply of tokens; a pair gives a token and the probabilities told for it."""
    out = []
    for token in tokens:
        text, shares = token if isinstance(token, tuple) else (token, {token: 1.0})
        top = tuple((t, math.log(p) if p else -9999.0) for t, p in shares.items())
        out.append(TokenLogprob(text, dict(top).get(text, -9999.0), top))
    return Completion("".join(t.token for t in out), logprobs=tuple(out))


def test_the_verdict_token_tells_the_probability() -> None:
    """P(relevant) is the share of `true` among `true` and `false`; other tokens are left out."""
    shares = {" true": 0.6, " false": 0.2, " maybe": 0.2}
    token_confidence = read_confidence(reply(HEAD, '"verdict":', (" true", shares), "}"), BINARY, 1)
    assert token_confidence is not None
    assert token_confidence.confidence == pytest.approx(0.75)
    assert token_confidence.expected_grade == pytest.approx(0.75)


@pytest.mark.parametrize(
    "tokens",
    [
        (HEAD + '"verdict', ('": tr', {'": tr': 0.9, '": f': 0.1}), "ue}"),
        (HEAD, '"verdict": ', ("true}", {"true}": 0.9, "false}": 0.1})),
        (HEAD, '"verdict":\n', ("True", {"True": 0.5, "true": 0.4, "FALSE": 0.1}), "}"),
        (
            '{"verdict": ',
            ("false", {"false": 1.0}),
            "} no, ",
            HEAD,
            '"verdict": ',
            ("true", {"true": 0.9, "false": 0.1}),
            "}",
        ),
    ],
)
def test_tokens_are_cut_anywhere(tokens: tuple[str | tuple[str, dict[str, float]], ...]) -> None:
    """Parts of words, joined punctuation, other cases, an earlier draft: the same probability."""
    token_confidence = read_confidence(reply(*tokens), BINARY, 1)
    assert token_confidence is not None
    assert token_confidence.confidence == pytest.approx(0.9)


def test_grades_have_a_mean_and_a_share_above_the_threshold() -> None:
    """On a graded scale the mean grade and the probability of reaching the threshold are told."""
    shares = {"3": 0.4, "2": 0.3, "1": 0.2, "0": 0.1, "7": 0.0}
    token_confidence = read_confidence(reply(HEAD, '"grade": ', ("3", shares), "}"), GRADED, 3)
    assert token_confidence is not None
    assert token_confidence.confidence == pytest.approx(0.7)
    assert token_confidence.expected_grade == pytest.approx(2.0)


def test_each_entry_of_a_listwise_reply_has_its_own() -> None:
    """Entries go by their id, in whatever order they come."""
    entry = '{{"id": {}, "evidence": "\\"id\\": 9", "verdict": '
    text = reply(
        '{"verdicts": [' + entry.format(2),
        ("false", {"false": 0.8, "true": 0.2}),
        "}, " + entry.format(1),
        ("true", {"true": 0.9, "false": 0.1}),
        "}]}",
    )
    first, two = read_confidence(text, BINARY, 1, 1), read_confidence(text, BINARY, 0, 2)
    assert first is not None
    assert two is not None
    assert (first.confidence, two.confidence) == pytest.approx((0.9, 0.2))
    assert read_confidence(text, BINARY, 1, 3) is None


def test_what_does_not_fit_is_no_confidence() -> None:
    """No log-probabilities, another verdict than was read, or no mass on the contract: None, silently."""
    assert read_confidence(Completion(HEAD + '"verdict": true}'), BINARY, 1) is None
    assert read_confidence(reply(HEAD, '"verdict": ', "true", "}"), BINARY, 0) is None
    assert read_confidence(reply(HEAD, '"verdict": ', ("true", {"true": 0.0}), "}"), BINARY, 1) is None
    assert read_confidence(reply("nothing"), BINARY, 1) is None


def _sure(request: Request) -> Completion:
    """Answer as `always`, with 80% on `true` for the chunk `one` and nothing told for others."""
    text = rules.reply_text(request, [rules.Opinion(1, request.passages[0].text)])
    if request.passages[0].text != "one":
        return Completion(text)
    head, _, tail = text.rpartition("true")
    return reply(head, ("true", {"true": 0.8, "false": 0.2}), tail)


def test_a_verdict_keeps_its_confidence_through_cache_and_run(tmp_path: Path) -> None:
    """Confidence stands in the verdict, feeds the soft metrics, and comes back from cache and folder."""
    trace = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": ["one", "two"]})
    for calls in (2, 0):
        backend = FakeBackend(_sure, identity=Identity("fake", "sure"))
        metrics = ["P@2", "SoftP@2", "EDCG@2", "EAP@2", "SoftRR@2", "ENDCG@2", "ERR@2"]
        with Evaluator(backend, cache=tmp_path / "c", metrics=metrics) as evaluator:
            run = evaluator.evaluate([trace], out=tmp_path / "runs")
        assert backend.calls == calls
        first, second = run.results[0].outcomes
        assert first.kind == second.kind == "verdict"
        assert first.confidence == pytest.approx(0.8)
        assert second.confidence is None
        scores = run.results[0].scores
        assert scores["P@2"] == 1.0
        assert scores["SoftP@2"] == pytest.approx(0.9)
        assert scores["EDCG@2"] == pytest.approx(0.8 + 1 / math.log2(3))
        assert scores["EAP@2"] == scores["SoftRR@2"] == pytest.approx(0.8 + 0.2 / 2)
        assert scores["ENDCG@2"] == pytest.approx(0.8 + 0.2 / math.log2(3))
        assert scores["ERR@2"] == 1 / 2 + 1 / 2 * 1 / 2 / 2
        assert "NaN" not in (run.folder / "results.jsonl").read_text()  # type: ignore[operator]


def test_another_threshold_has_another_probability() -> None:
    """Scoring with another threshold sums the probabilities of the grades from it on, and keeps the mean."""

    def graded(request: Request) -> Completion:
        text = rules.reply_text(request, [rules.Opinion(2, "one")])
        head, _, tail = text.rpartition("2")
        return reply(head, ("2", {"2": 0.5, "1": 0.5}), tail)

    trace = Trace.parse({"id": "t", "query": "q", "reference": "r", "chunks": ["one"]})
    with Evaluator(FakeBackend(graded), prompt="support/graded", cache=False, metrics=["SoftP@1"]) as evaluator:
        run = evaluator.evaluate(trace)
    assert run["SoftP@1"] == pytest.approx(0.5)
    other = rescore(run, ["SoftP@1", "EDCG@1"], relevant=1)
    outcome = other.results[0].outcomes[0]
    assert outcome.kind == "verdict"
    assert (outcome.confidence, outcome.expected_grade) == (1.0, 1.5)
    assert other["SoftP@1"] == 1.0
    assert other["EDCG@1"] == pytest.approx(1.5)
    assert json.loads(other.results[0].model_dump_json())["outcomes"][0]["confidence"] == 1.0
    assert rescore(run, ["SoftP@1"], relevant=3)["SoftP@1"] == 0.0
