"""What a real model of llama.cpp's server replies, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge_eval import NoVerdict, Verdict
from judge_eval.llm.http.capabilities import LONGEST
from tests.support.llama import Llama
from tests.support.real_runs import RealRuns

pytestmark = pytest.mark.real


def test_a_grammar_makes_every_reply_a_verdict(server: Llama, real: RealRuns) -> None:
    """With a schema every reply is read, nothing is left out of requests, and log-probabilities make confidences.

    The default concurrency is far above the server's two slots; no call fails for that.
    """
    said = real.judge(server.url, "--confidence")
    assert said.code == 0, said
    tally = real.run.manifest.tally
    assert (tally.verdicts, tally.failed_verdicts, tally.dropped, tally.retries) == (6, 0, (), {})
    verdicts = [verdict for result in real.run.results for verdict in result.outcomes]
    assert all(isinstance(verdict, Verdict) for verdict in verdicts)
    confidences = {verdict.confidence for verdict in verdicts if isinstance(verdict, Verdict)}
    assert len(confidences) > 1
    assert all(confidence is not None and 0 <= confidence <= 1 for confidence in confidences)


def test_a_cut_reply_is_not_asked_for_again(server: Llama, tmp_path: Path) -> None:
    """A reply that fills its cap with visible text is `truncated`; each chunk takes one call."""
    real = RealRuns(tmp_path, cap=16)
    assert real.judge(server.url).code == 3
    tally = real.run.manifest.tally
    assert (tally.failures, tally.calls, tally.dropped) == ({"truncated": 6}, 6, ())
    assert details(real) == {"the reply ended at the cap of 16 tokens"}


def test_a_looping_reply_is_recognised(server: Llama, tmp_path: Path) -> None:
    """A model that may not end its reply repeats a sentence until the cap, is told of, and not asked again."""
    real = RealRuns(tmp_path, [["The oven is ready at noon."]], cap=120)
    free = [part for form in ("strict", "json_schema", "json_object") for part in ("--unsupported", form)]
    assert real.judge(server.url, "-p", "repeat_penalty=0.9", "-p", "ignore_eos=true", *free).code == 3
    assert (details(real), real.run.manifest.tally.calls) == ({"the model repeats itself"}, 1)


def test_the_length_of_texts_ends_a_loop(server: Llama, tmp_path: Path) -> None:
    """The grammar keeps `maxLength`: a model that repeats itself in a string gives a verdict below its cap."""
    real = RealRuns(tmp_path, [["The oven is ready at noon."]], cap=400)
    said = real.judge(server.url, "-p", "repeat_penalty=0.9")
    assert said.code == 0, said
    (verdict,) = real.run.results[0].outcomes
    assert isinstance(verdict, Verdict)
    assert len(verdict.evidence) <= LONGEST["evidence"]
    assert len(verdict.reason) <= LONGEST["reason"]
    assert len(verdict.reason) == LONGEST["reason"] or len(verdict.evidence) == LONGEST["evidence"]


@pytest.mark.parametrize("place", [0, 2], ids=["first", "last"])
def test_a_chunk_beyond_the_context_is_named_and_fails_alone(server: Llama, tmp_path: Path, place: int) -> None:
    """A chunk that is longer than a slot takes one request, wherever it stands, and no objection is made of it."""
    texts = ["The oven is ready at noon.", "It opens at noon."]
    texts.insert(place, "word " * 2000)
    real = RealRuns(tmp_path, [texts[:2], texts[2:]])
    requests = server.log().count("exceeds the available context size")
    assert real.judge(server.url, "--concurrency", "1").code == 3
    assert server.log().count("exceeds the available context size") == requests + 1
    others = [outcome for result in real.run.results for outcome in result.outcomes]
    long = others.pop(place)
    assert isinstance(long, NoVerdict)
    assert long.detail.startswith("the request is too long: ")
    assert "exceeds the available context size (1024 tokens)" in long.detail
    assert all(isinstance(other, Verdict) for other in others)
    assert real.run.manifest.tally.dropped == ()


def test_the_route_like_anthropics(server: Llama, tmp_path: Path) -> None:
    """The same model answers by Anthropic's Messages; it ignores the schema there, so nothing is said of verdicts."""
    real = RealRuns(tmp_path, [["The oven is ready at noon."]])
    assert real.judge(server.url, model="anthropic/smol").code in (0, 3)
    tally = real.run.manifest.tally
    assert not tally.failures.keys() & {"unreachable", "refused"}
    assert tally.calls >= 1
    assert tally.output_tokens > 0
    assert tally.retries == {}


def test_the_route_like_openais_responses(server: Llama, tmp_path: Path) -> None:
    """The same model answers by Responses; it ignores the schema there, so nothing is said of verdicts."""
    real = RealRuns(tmp_path, [["The oven is ready at noon."]], cap=16)
    assert real.judge(server.url, model="openai-responses/smol").code in (0, 3)
    tally = real.run.manifest.tally
    assert not tally.failures.keys() & {"unreachable", "refused"}
    assert tally.calls >= 1
    assert tally.output_tokens > 0
    assert (tally.retries, tally.dropped) == ({}, ("seed",))


def test_a_model_that_takes_no_decisions(server: Llama, real: RealRuns) -> None:
    """Its decision route answers 501, which no second attempt would change and no other address."""
    said = real.shell(
        "run", "data.jsonl", "--model", "decisions/smol", "--base-url", server.url, "-p", "dialect=systemone"
    )
    assert said.code == 2
    assert "501" in said.err
    assert "This model is not a decision model (the server does not do this, or not with this model)" in said.err
    assert "attempts" not in said.err


def details(real: RealRuns) -> set[str]:
    """Return why chunks have no verdict."""
    outcomes = (outcome for result in real.run.results for outcome in result.outcomes)
    return {outcome.detail for outcome in outcomes if isinstance(outcome, NoVerdict)}


def test_a_verdict_alone_is_one_token_with_a_probability(server: Llama, tmp_path: Path) -> None:
    """Each verdict has P(true), of a reply of few tokens without a schema; a reply of other words is no verdict."""
    real = RealRuns(tmp_path)
    said = real.shell(
        "run", "data.jsonl", "--model", "llamacpp/smol", "--base-url", server.url, "--prompt", "support/verdict",
        "-p", "top_logprobs=20", "--out", "runs",
    )  # fmt: skip
    tally = real.run.manifest.tally
    assert said.code == (3 if tally.failed_verdicts else 0), said
    assert "verdicts are single tokens" in said.out
    assert (tally.verdicts + tally.failed_verdicts, tally.calls, tally.dropped) == (6, 6, ())
    assert tally.failures.keys() <= {"unparsable"}  # so small a model may begin with another word
    assert tally.output_tokens <= 6 * 4
    outcomes = [outcome for result in real.run.results for outcome in result.outcomes]
    chances = [outcome.confidence for outcome in outcomes if isinstance(outcome, Verdict)]
    assert chances
    assert all(chance is not None and 0 <= chance <= 1 for chance in chances)
