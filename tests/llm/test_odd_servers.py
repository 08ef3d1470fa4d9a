"""Odd answers of a server in whole runs: they cost their own requests, whatever they are.

Every run has many traces, of which each second one gets an odd answer. What must hold: no error but the
package's own, the neighbours' verdicts are right, nothing is cached that was not a verdict, and the exit
code is the documented one. One seed of a few wires is the default; `-m slow` runs the 740 answers and more.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, Options
from judge_eval.schema import Outcome
from tests.support.canned import Canned
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.decision_server import DecisionServer
from tests.support.decision_shapes import DIALECT_NAMES
from tests.support.odd import KEY, holds_key, mutated, odd_reply
from tests.support.own_wires import ContentServer, MessagesServer


@dataclass(frozen=True)
class Wire:
    """A form in which servers are asked: its server, and how `judge-eval run` names a model there."""

    server: Callable[[], OddChat | OddDecisions]
    model: str = "openai/m"
    mode: str = "pointwise"
    params: tuple[str, ...] = ()


SEEDS = 10
ANSWERS = 40  # traces of a run that get two odd answers each: 800 a wire
_NUMBER = re.compile(r"ODD (\d+) ")


class OddChat(ChatServer):
    """A chat server that answers oddly what holds `ODD`, the same each time."""

    seed: int | None = None

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        number = _NUMBER.search(raw.decode())
        if self.seed is None or number is None:
            return super().answer(raw, headers)
        self.counts["calls"] += 1
        status, sent, body = odd_reply(random.Random(f"{self.seed} {number[1]}"))
        headers = {name: value for name, value in sent.items() if value.isascii() and value.isprintable()}
        return Canned(status, headers, body)


class OddNative(OddChat):
    """A server of another wire, whose odd answers are often its own, changed in a few places."""

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        number = _NUMBER.search(raw.decode())
        rng = random.Random(f"native {self.seed} {number and number[1]}")
        if self.seed is None or number is None or rng.random() < 0.4:
            return super().answer(raw, headers)
        changed = super(OddChat, self).answer(raw, headers).body  # as the wire's own server answers
        for _ in range(rng.randint(1, 4)):
            changed = mutated(changed, rng)
        return Canned(200, {}, json.dumps(changed).encode())


class OddMessages(OddNative, MessagesServer):
    """A server of Anthropic's Messages with odd answers."""


class OddContent(OddNative, ContentServer):
    """A server of Gemini's wire with odd answers."""


class OddDecisions(DecisionServer):
    """A server of decision models whose answers to what holds `ODD` are changed in a few places."""

    seed: int | None = None

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        number = _NUMBER.search(raw.decode())
        canned = super().answer(raw, headers)
        if self.seed is None or number is None:
            return canned
        rng = random.Random(f"{self.seed} {number[1]}")
        if rng.random() < 0.3:
            status, _, body = odd_reply(rng)
            return Canned(status, {}, body)
        changed = canned.body
        for _ in range(rng.randint(1, 4)):
            changed = mutated(changed, rng)
        return Canned(200, {}, json.dumps(changed).encode())


WIRES = {
    "chat": Wire(OddChat),
    "messages": Wire(OddMessages, "anthropic/m"),
    "content": Wire(OddContent, "gemini/m"),
    **{
        name: Wire(partial(OddDecisions, name), "decisions/m", "decision", (f"dialect={name}",))  # type: ignore[arg-type]
        for name in DIALECT_NAMES
    },
}
"""The three wires of chat models and the dialects of decision models; a new wire is one line."""

USUAL = ("chat", "messages", "openai")
"""The wires that are tried by default, each with one seed."""


def traces(odd: int) -> list[dict[str, Any]]:
    """Make traces: a plain one before each odd one, and one at the end."""
    made = []
    for number in range(2 * odd + 1):
        text = f"ODD {number} is odd." if number % 2 else f"Text {number} is plain."
        made.append(
            {
                "id": f"t{number}",
                "query": f"What is number {number}?",
                "reference": f"Number {number} is {'odd' if number % 2 else 'plain'}.",
                "chunks": [text, f"Nothing of {number}: {text}"],
            }
        )
    return made


def judged(server: OddChat | OddDecisions, wire: str, folder: Path | None) -> EvalRun:
    """Judge the traces, one call after the other and each once."""
    asked = WIRES[wire]
    params = dict(pair.split("=") for pair in asked.params)
    options = Options(base_url=server.url, concurrency=1, attempts=1, params=params)
    with Evaluator(asked.model, mode=asked.mode, metrics=["AP@2"], cache=folder or False, options=options) as evaluator:  # type: ignore[arg-type]
        return evaluator.evaluate(traces(ANSWERS))


def outcomes(run: EvalRun) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes of a run, by trace and chunk."""
    return {(result.trace_id, outcome.chunk_id): outcome for result in run.results for outcome in result.outcomes}


@cache
def honest_outcomes(wire: str) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes where every answer is honest."""
    with WIRES[wire].server() as server:
        return outcomes(judged(server, wire, None))


@pytest.mark.parametrize(
    ("wire", "seed"),
    [
        pytest.param(wire, seed, marks=[pytest.mark.slow] if seed or wire not in USUAL else [])
        for wire in WIRES
        for seed in range(SEEDS)
    ],
)
def test_odd_answers_cost_their_own_requests(
    wire: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends, its other verdicts are those of an honest server, and a second run mends the rest."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    honest = honest_outcomes(wire)
    with WIRES[wire].server() as server:
        server.seed = seed
        run = judged(server, wire, tmp_path)
        odd = outcomes(run)
        failed = {place for place, outcome in odd.items() if outcome.kind != "verdict"}
        assert run.status == ("incomplete" if failed else "done")
        assert {trace for trace, _ in failed} <= {f"t{number}" for number in range(1, 2 * ANSWERS, 2)}
        for (trace, chunk), outcome in honest.items():
            if int(trace[1:]) % 2 == 0:
                assert odd[trace, chunk] == outcome
        assert failed
        for outcome in odd.values():
            assert not holds_key(outcome.model_dump_json())
        server.seed = None
        before = server.counts["calls"]
        mended = outcomes(judged(server, wire, tmp_path))
        assert server.counts["calls"] - before <= len(failed)
    for place, outcome in mended.items():
        assert outcome == (honest if place in failed else odd)[place]


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["chat", "messages", "content", "systemone"])
def test_a_command_ends_with_its_documented_code(wire: str, tmp_path: Path) -> None:
    """Three for a run with failed verdicts, without a traceback or the key."""
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces(ANSWERS)))
    asked = WIRES[wire]
    model = [asked.model, "--mode", asked.mode, *(word for pair in asked.params for word in ("-p", pair))]
    with WIRES[wire].server() as server:
        server.seed = 0
        result = Shell(tmp_path)(
            *("run", "traces.jsonl", "--model", *model, "--base-url", server.url, "--concurrency", "1"),
            *("--attempts", "1", "--metrics", "AP@2", "--out", "runs"),
            OPENAI_API_KEY=KEY,
            ANTHROPIC_API_KEY=KEY,
            GEMINI_API_KEY=KEY,
        )
    assert result.code == 3, result
    assert "Traceback" not in result.err
    assert not holds_key(result.out + result.err)
