"""What is wrong with an answer: never a number, never another chunk's, and never the end of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval.wire import Completion
from tests.support.asking_decisions import (
    GRADED_PROMPT,
    PROMPTS,
    TEXTS,
    asked_of_backend,
    complete_all,
    confidences,
    judged,
    outcomes,
    replayed,
    request,
    row,
    whys,
)
from tests.support.canned import Canned
from tests.support.decision_faults import VALUES
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES, DialectName
from tests.support.examples import mostly_slow

RULE = dict(zip(TEXTS, (0.9, 0.8, 0.7, 0.6), strict=True)).__getitem__
OF_ONE = (*VALUES, "kind", "odd_kind")
"""Faults of one answer, which leave the others what they are."""
NO_OBJECTS = (
    "not json", "", "[]", "null", "7", '"text"', "<html>fine</html>", '{"answers": ',
)  # fmt: skip
"""Bodies of a reply that hold no JSON object."""
OF_LISTS = ("short", "long")
"""Faults after which nobody knows which answer of a list is whose."""
OF_NAMES = {"swapped": 2, "renamed": 1, "unnamed": 1, "no_object": 1}
"""Faults of one answer's name or shape, and of how many answers they are."""


@pytest.mark.parametrize(("dialect", "fault", "prompt"), mostly_slow(DIALECT_NAMES, OF_ONE, PROMPTS))
def test_an_odd_answer_is_no_verdict_and_the_others_stand(
    dialect: DialectName, fault: str, prompt: str, tmp_path: Path
) -> None:
    """A missing or impossible probability is never 0 or 1: it is asked for once more, then no verdict."""
    with DecisionServer(dialect, RULE) as server:
        server.fault, server.fault_at = fault, TEXTS[1]
        run = judged(server, prompt=prompt, cache=tmp_path)
        # Twice within the judging, and in the run's second pass over what failed.
        assert [server.paid(text) for text in TEXTS] == [1, 4, 1, 1]
        assert whys(run) == [None, "unparsable", None, None]
        assert confidences(run) == pytest.approx([0.9, None, 0.7, 0.6])
        server.fault = None
        later = judged(server, prompt=prompt, cache=tmp_path)  # nothing of no use was kept
        assert [server.paid(text) for text in TEXTS] == [1, 5, 1, 1]
    assert confidences(later) == pytest.approx([0.9, 0.8, 0.7, 0.6])


@pytest.mark.parametrize(("dialect", "fault", "prompt"), mostly_slow(["openai", "vllm"], OF_LISTS, PROMPTS, every=3))
def test_verdicts_never_shift(dialect: DialectName, fault: str, prompt: str, tmp_path: Path) -> None:
    """Too few or too many answers, or under other names: none is any chunk's, and none is kept."""
    with DecisionServer(dialect, RULE) as server:
        server.fault = fault
        run = judged(server, prompt=prompt, cache=tmp_path)
        assert whys(run) == ["unparsable"] * 4
        assert server.counts["calls"] == 2
        server.fault = None
        assert confidences(judged(server, prompt=prompt, cache=tmp_path)) == pytest.approx([0.9, 0.8, 0.7, 0.6])


@pytest.mark.parametrize(("dialect", "fault", "prompt"), mostly_slow(["openai", "vllm"], OF_NAMES, PROMPTS, every=3))
def test_an_odd_name_costs_its_own_questions(dialect: DialectName, fault: str, prompt: str) -> None:
    """Answers of a list that stand under other names are nobody's; the others are their chunks'."""
    with DecisionServer(dialect, RULE) as server:
        server.fault = fault
        made, asked = request(*TEXTS, prompt=prompt), asked_of_backend(server)
        (completion,) = complete_all(asked, [made])
        assert isinstance(completion, Completion)
        assert [bool(answer.probabilities) for answer in completion.answers] == [
            place > 1 or place < 2 - OF_NAMES[fault] for place in range(4)
        ]
        run = judged(server, prompt=prompt)
    for outcome, expected in zip(confidences(run), (0.9, 0.8, 0.7, 0.6), strict=True):
        assert outcome in (None, pytest.approx(expected))
    assert confidences(run)[2:] == pytest.approx([0.7, 0.6])


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("dialect", ["sglang", "systemone"])
def test_answers_in_an_object_are_found_by_name(dialect: DialectName, prompt: str) -> None:
    """One that is missing there is its own chunk's loss; more answers than questions spoil all."""
    alone = [None, "unparsable", None, None]
    faults = (("short", alone), ("no_object", alone), ("renamed", alone), ("long", ["unparsable"] * 4))
    for fault, result in faults:
        with DecisionServer(dialect, RULE) as server:
            server.fault = fault
            run = judged(server, prompt=prompt)
            assert (fault, whys(run)) == (fault, result)


@pytest.mark.parametrize(("dialect", "fault"), mostly_slow(DIALECT_NAMES, ["reordered", "sum", "score"], every=4))
def test_levels_sums_and_scores_are_checked(dialect: DialectName, fault: str) -> None:
    """Levels in another order, sums that are not 1 and scores that do not follow make no verdict."""
    with DecisionServer(dialect, RULE) as server:
        server.fault, server.fault_at = fault, TEXTS[1]
        run = judged(server, prompt=GRADED_PROMPT)
    assert whys(run) == [None, "unparsable", None, None]


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_two_decimals_are_exact_enough(dialect: DialectName) -> None:
    """Rounded probabilities pass: ties, 0.00 and 1.00, and sums that miss 1 by the rounding."""
    thirds = dict(zip(TEXTS, [(1 / 3, 1 / 3, 1 / 3, 0.0), (0.0, 0.5, 0.5, 0.0), (1.0, 0, 0, 0), (0.125,) * 2 +
                              (0.375,) * 2], strict=True))  # fmt: skip
    with DecisionServer(dialect, thirds.__getitem__, decimals=2) as server:
        run = judged(server, prompt=GRADED_PROMPT)
    assert whys(run) == [None] * 4
    grades = [outcome.grade for outcome in outcomes(run) if outcome.kind == "verdict"]
    assert grades == [1, 1, 0, 2]  # the lower of two medians; so .5 is not more likely relevant than not
    with DecisionServer(dialect, lambda text: 0.5, decimals=2) as server:
        run = judged(server)
    assert confidences(run) == [0.5] * 4
    assert not any(outcome.relevant for outcome in outcomes(run) if outcome.kind == "verdict")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_declined_question_is_its_chunks_alone(prompt: str, tmp_path: Path) -> None:
    """It is that chunk's refusal with the id of the request; the others stand, and it is not paid again."""
    tape = tmp_path / "tape.jsonl"
    with DecisionServer("openai", lambda text: None if text == TEXTS[2] else 0.75) as server:
        run = judged(server, prompt=prompt, cache=tmp_path / "cache", record=tape)
        assert whys(run) == [None, None, "refused", None]
        assert server.counts["calls"] == 1
        again = judged(server, prompt=prompt, cache=tmp_path / "cache")
        assert server.counts["calls"] == 1
    assert again.results[0].outcomes == run.results[0].outcomes
    assert "req_1" in str(outcomes(run)[2])
    assert replayed(tape, prompt=prompt).results[0].outcomes == run.results[0].outcomes
    offline = judged(server, prompt=prompt, cache=tmp_path / "cache", offline=True)
    assert offline.results[0].outcomes == run.results[0].outcomes


def test_where_all_is_declined_nothing_is_kept(tmp_path: Path) -> None:
    """A reply without any verdict is not stored; it is not asked again in the same run either."""
    with DecisionServer("openai", lambda text: None) as server:
        assert whys(judged(server, cache=tmp_path)) == ["refused"] * 4
        assert server.counts["calls"] == 1
        server.rule = RULE
        assert whys(judged(server, cache=tmp_path)) == [None] * 4


@pytest.mark.parametrize(("dialect", "body"), mostly_slow(DIALECT_NAMES, NO_OBJECTS, every=14))
def test_a_body_that_is_no_object_is_not_asked_for_again(dialect: DialectName, body: str) -> None:
    """It may have been billed: its chunks have no verdict, after one call."""
    with DecisionServer(dialect, RULE) as server:
        server.script(Canned(200, {}, body))
        assert whys(judged(server)) == ["unparsable"] * 4
        assert server.counts["calls"] == 1


@pytest.mark.parametrize(
    "body",
    [{}, {"answers": None}, {"answers": 7}, {"answers": []}, {"answers": {}}, {"answers": "c1"},
     {"answers": [None] * 4}, {"answers": {"c1": None, "c2": []}}, {"answers": [[]] * 4},
     {"choices": [{"message": {"content": '{"verdict": true}'}}]}],
)  # fmt: skip
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_a_body_without_answers_makes_no_verdict(dialect: DialectName, body: dict[str, Any]) -> None:
    """Whatever stands in the place of answers is none, after one more try."""
    with DecisionServer(dialect, RULE) as server:
        server.script(Canned(200, {}, body), Canned(200, {}, body))
        assert whys(judged(server)) == ["unparsable"] * 4


def test_a_recorded_answer_of_no_use_gives_way(tmp_path: Path) -> None:
    """The cassette ends with what the run ended with, also where the second try asked the very same."""
    tape = tmp_path / "tape.jsonl"
    with DecisionServer("openai", RULE) as server:
        server.script(Canned(200, {}, {"answers": []}))
        run = judged(server, record=tape)
    assert whys(run) == [None] * 4
    assert replayed(tape).results[0].outcomes == run.results[0].outcomes
    assert len(tape.read_text().splitlines()) == 2


def test_a_cassette_can_be_reviewed(tmp_path: Path) -> None:
    """It shows what was asked, the probabilities in the chunks' order, and why there is none."""
    tape = tmp_path / "tape.jsonl"
    with DecisionServer("openai", lambda text: None if text == TEXTS[1] else RULE(text)) as server:
        judged(server, record=tape)
    _, line = map(json.loads, tape.read_text().splitlines())
    assert line["asked"] == "Which tomatoes?"
    assert line["passage"] == TEXTS[0]
    assert line["chunk_ids"] == ["c1", "c2", "c3", "c4"]
    assert line["answers"][0] == [0.1, 0.9]
    assert line["answers"][1][0] == "refused"


def test_equal_chunks_are_asked_once_and_blank_ones_never() -> None:
    """Both hold over HTTP too: what the server is sent says so, and a blank chunk has no grade."""
    with DecisionServer("openai", RULE) as server:
        run = judged(server, row(TEXTS[0], "  ", TEXTS[0], TEXTS[1]))
        assert [len(body["questions"]) for body in server.calls] == [2]
    assert [getattr(outcome, "grade", None) for outcome in outcomes(run)] == [1, None, 1, 1]


def test_slow_answers_are_not_mixed_up() -> None:
    """Calls that come back in another order than they were made keep to their chunks."""
    rows = [row(f"text {n} x", id=f"t{n}", query=f"q{n}") for n in range(8)]
    with DecisionServer("openai", lambda text: int(text.split()[1]) / 10) as server:
        server.slow = {f"text {n} ": 0.08 - n / 100 for n in range(8)}
        run = judged(server, *rows)
    assert confidences(run) == [n / 10 for n in range(8)]


def test_unpacked_replies_are_read_too() -> None:
    """Gzip is asked for and read."""
    for dialect in DIALECT_NAMES:
        with DecisionServer(dialect, RULE) as server:
            server.packed = True
            assert whys(judged(server)) == [None] * 4
            assert "gzip" in server.headers[0]["accept-encoding"]
