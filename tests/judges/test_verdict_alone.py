"""Prompts that ask for a verdict alone: one token, whose probability is the score."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from judge_eval import Chunk, Completion, Evaluator, FakeBackend, Identity, Options, Request, Trace
from judge_eval.errors import ConfigError, PromptError
from judge_eval.judges import Pointwise
from judge_eval.judges.judge import judge_of_record, models_asked
from judge_eval.judges.parsing import Problem, read_word
from judge_eval.judges.token_confidence import likely_word, read_word_confidence
from judge_eval.llm.http.capabilities import Capabilities
from judge_eval.llm.http.chat_format import ChatCompletions
from judge_eval.llm.http.openai_responses import Responses
from judge_eval.prompts import load_prompt
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import BINARY, GRADED, Scale
from judge_eval.study.calibrate import calibrate, keep_threshold
from judge_eval.views.run_remarks import remarks_of
from judge_eval.wire import TokenLogprob
from tests.judges.test_confidence import reply
from tests.support.chat_server import ChatServer
from tests.support.command import FIXTURES, Shell

SOURCE = (Path(__file__).parents[2] / "prompts" / "support" / "verdict.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "scale", "grade"),
    [
        ("true", BINARY, 1), (" False.", BINARY, 0), ("TRUE\n", BINARY, 1), ("**True**", BINARY, 1),
        ("<think>false?</think>\ntrue", BINARY, 1), ("True. The passage", BINARY, 1),
        ("2", GRADED, 2), (" 3.", GRADED, 3),
        ("not true", BINARY, None), ("true or false", BINARY, None), ("trueish", BINARY, None), ("", BINARY, None),
        ("The answer is true", BINARY, None), ("yes", BINARY, None), ("4", GRADED, None), ("-1", GRADED, None),
        ('{"verdict": true}', BINARY, None), ("2 or 3", GRADED, None), ("²", GRADED, None),
    ],
)  # fmt: skip
def test_the_first_word_is_the_verdict(text: str, scale: Scale, grade: int | None) -> None:
    """A word of the contract that stands alone or ends a sentence; whatever else comes first has no verdict."""
    reading = read_word(Completion(text), scale)
    assert (reading.why if isinstance(reading, Problem) else reading.grade) == (
        "unparsable" if grade is None else grade
    )
    assert isinstance(reading, Problem) or (reading.evidence, reading.reason) == (None, None)


def test_the_probability_is_that_of_its_token() -> None:
    """P(true) over P(true) + P(false) of the token in which the word begins, also after blank ones and thoughts."""
    shares = {" true": 0.3, "True": 0.3, "false": 0.2, "The": 0.2}
    for before in ((), ("\n",), ("<think>", "false", "</think>")):
        sure = read_word_confidence(reply(*before, (" true", shares)), BINARY)
        assert sure is not None
        assert sure.confidence == pytest.approx(0.75)
    graded = read_word_confidence(reply(("2", {"2": 0.5, "1": 0.25, "3": 0.25})), GRADED)
    assert graded is not None
    assert (graded.confidence, graded.grades) == (pytest.approx(0.75), pytest.approx((0, 0.25, 0.5, 0.25)))
    assert read_word_confidence(Completion("true"), BINARY) is None


def test_another_word_leaves_the_verdict_to_the_probabilities() -> None:
    """Small models begin a sentence: the more probable word counts, unless both are too unlikely to mean anything."""
    for shares, kinds in (
        ({"The": 0.7, "True": 0.1, "False": 0.05}, ["verdict"]),
        ({"The": 0.9, "True": 0.01}, ["no_verdict"]),
    ):
        backend = FakeBackend(lambda request, shares=shares: reply(("The", shares), " passage"))  # type: ignore[misc]
        outcome = judged(backend).results[0].outcomes[0]  # type: ignore[attr-defined]
        assert [outcome.kind] == kinds
        if kinds == ["verdict"]:
            assert (outcome.grade, outcome.confidence, backend.calls) == (1, pytest.approx(2 / 3), 2)


def judged(backend: FakeBackend, prompt: str | Path = "support/verdict", **settings: object) -> object:
    """Judge two chunks."""
    trace = Trace(id="a", query="q", reference="r", chunks=[Chunk(id="x", text="one"), Chunk(id="y", text="two")])
    return Evaluator(backend, prompt=prompt, metrics=["P@2"], cache=False, **settings).evaluate(trace)  # type: ignore[arg-type]


def test_no_quote_is_asked_for_and_a_repair_asks_for_one_word() -> None:
    """A relevant verdict takes one call; what is no word of the contract is asked for once more, in its terms."""
    replies = iter(["true", "Sure thing", "false"])
    backend = FakeBackend(lambda request: next(replies))
    run = judged(backend)
    assert [outcome.grade for outcome in run.results[0].outcomes] == [1, 0]  # type: ignore[attr-defined]
    assert backend.calls == 3
    repaired = backend.requests[-1].messages[-1].content
    assert repaired.endswith("Answer with one word only: true or false.")
    assert "JSON" not in " ".join(message.content for request in backend.requests for message in request.messages)


@pytest.mark.parametrize("mode", ["strict", "json_schema", "json_object", "prompt"])
def test_no_schema_is_sent(mode: str) -> None:
    """In no form of asking: the body bears log-probabilities, the cap and the two messages."""
    requests: list[Request] = []
    backend = FakeBackend(lambda request: requests.append(request) or "true")  # type: ignore[func-returns-value]
    judged(backend)
    body = json.loads(ChatCompletions("m", {"logprobs": True}).write(requests[0], Capabilities(mode=mode)))  # type: ignore[arg-type]
    assert "response_format" not in body
    assert "schema" not in json.dumps(body)
    assert body["logprobs"] is True


@pytest.mark.parametrize("mode", ["strict", "json_schema", "json_object", "prompt"])
def test_responses_take_it_too(mode: str) -> None:
    """The Responses API takes caps from 16 tokens on, a verdict alone has one of 4; nothing asks for JSON."""
    backend = FakeBackend(lambda request: "true")
    judged(backend)
    body = json.loads(Responses("m", {"logprobs": True}).write(backend.requests[0], Capabilities(mode=mode)))  # type: ignore[arg-type]
    assert body["max_output_tokens"] == 16
    assert "JSON" not in json.dumps(body)
    assert "format" not in body.get("text", {})
    assert body["include"] == ["message.output_text.logprobs"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('mode = "pointwise"', 'mode = "listwise"', "a verdict alone is of one chunk"),
        ("max_tokens = 4", 'max_tokens = 4\nevidence = "required"', "a verdict alone quotes nothing"),
        ('contract = "verdict"', 'contract = "JSON"', "max_tokens: must be at least 16"),
        ("max_tokens = 4", "max_tokens = 0", "max_tokens: must be at least 1"),
    ],
)
def test_what_does_not_go_with_it_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    """The error says what to change."""
    path = tmp_path / "own.toml"
    path.write_text(SOURCE.replace(old, new), encoding="utf-8")
    with pytest.raises(PromptError, match=told):
        load_prompt(path)
    with pytest.raises(ConfigError, match="asks for a verdict alone"):
        Pointwise("support/verdict", evidence="required")


def test_its_record_makes_the_same_judge() -> None:
    """The record says that the verdict is alone; other prompts' records are as they were."""
    judge = Pointwise("support/verdict")
    assert judge.describe()["contract"] == "verdict"
    assert judge_of_record(judge.describe()).describe() == judge.describe()
    assert "contract" not in Pointwise("support/binary").describe()
    assert [use.confidence for use in models_asked(judge)] == [True]


def certain(share: float) -> Completion:
    """Answer by a token with this P(true)."""
    top = (("true", math.log(share)), ("false", math.log(1 - share)))
    token = "true" if share >= 0.5 else "false"
    return Completion(token, logprobs=(TokenLogprob(token, dict(top)[token], top),))


def test_labels_set_its_threshold() -> None:
    """A judge that says true of everything ranks well: the threshold of labels makes its verdicts right."""
    traces = [
        Trace(id=f"t{k}", query="q", reference="r", chunks=[
            Chunk(id=f"{k}a", text=f"good {k}", label=1), Chunk(id=f"{k}b", text=f"bad {k}", label=0),
        ])
        for k in range(30)
    ]  # fmt: skip

    def answer(request: Request) -> Completion:
        (passage,) = request.passages
        number = int(passage.text.split()[1])
        return certain(0.9 + number / 1000 if passage.text.startswith("good") else 0.7 + number / 1000)

    evaluator = Evaluator(
        FakeBackend(answer, identity=Identity("test", "one-token")),
        prompt="support/verdict",
        metrics=["P@2"],
        cache=False,
    )
    run = evaluator.evaluate(traces)
    assert run["P@2"] == 1.0
    fit = calibrate(run)
    assert fit.of == "probability"
    assert 0.729 < fit.threshold < 0.9
    assert fit.figures["kappa"].value == 1.0
    scored = rescore(run, ["P@2"], calibration=keep_threshold(fit))
    assert scored["P@2"] == 0.5
    assert all(o.relevant == (o.chunk_id[-1] == "a") == (o.grade == 1) for r in scored.results for o in r.outcomes)
    assert "relevant from a probability of 0.8" in " ".join(remark.text for remark in remarks_of(scored.manifest))


@pytest.mark.slow
def test_servers_are_asked_for_probabilities_and_what_is_missing_is_told(tmp_path: Path) -> None:
    """No flag is needed; without log-probabilities the run says that the token is the verdict."""
    data = FIXTURES / "pizza.jsonl"
    with ChatServer() as server:
        shell = Shell(tmp_path)
        asked = ("run", data, "--model", "openai/m", "--base-url", server.url, "--prompt", "support/verdict")
        run = shell(*asked, "--metrics", "P@2", OPENAI_API_KEY="sk-x")
        bodies = list(server.calls)
    assert bodies
    assert run.code in (0, 3), run
    assert all(body["logprobs"] is True and "response_format" not in body for body in bodies)
    assert "verdicts are single tokens: a chunk is relevant from P(true) = 0.5" in run.out, run
    fake = shell("run", data, "--model", "fake/overlap", "--prompt", "support/verdict", "--metrics", "AP@4")
    assert (fake.code, "so the token is the verdict" in fake.out) == (0, True), fake


def test_the_options_ask_for_it_alone() -> None:
    """A model of another prompt is asked for nothing more, and parameters of the user stay."""
    own = Options(params={"top_logprobs": 20})
    assert Evaluator("openai/m", prompt="support/verdict", options=own).options.params == {
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert Evaluator("openai/m", options=own).options.params == {"top_logprobs": 20}
    assert Evaluator("fake/overlap", prompt="support/verdict").options.params == {}


def test_thoughts_that_were_cut_are_no_verdict() -> None:
    """A reply of nothing but cut thoughts has no likely word, however probable `true` was in their place."""
    token = TokenLogprob("<think>", -0.2, (("<think>", -0.2), ("true", -1.8)))
    for text in ("<think>", "<think>I should"):
        cut = Completion(text, finish="length", logprobs=(token,))
        assert likely_word(cut, BINARY) is None
        assert read_word_confidence(cut, BINARY) is None
    begun = Completion("The", finish="length", logprobs=(TokenLogprob("The", -0.2, (("The", -0.2), ("true", -1.8))),))
    assert likely_word(begun, BINARY) == 1
