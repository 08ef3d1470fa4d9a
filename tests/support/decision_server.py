"""A server of decision models on loopback: real HTTP, one dialect each, strict about what it is sent.

In a test::

    with DecisionServer("openai", rule=lambda text: 0.9 if "tomato" in text else 0.1) as server:
        server.fault = "swapped"               # every answer from now on has it
        server.script(error(429))              # the next call gets this
        backend = create("some-model", base_url=server.url, params={"dialect": "openai"})

As a process of its own (for benchmarks): `python -m tests.support.decision_server --latency 0.05` prints its
URL as the first line. `GET /_stats` counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from tests.support.canned import Canned, error
from tests.support.chat_answers import decide
from tests.support.chat_server import ChatServer
from tests.support.decision_answers import Posed, Share, answer, posed, shared_of
from tests.support.decision_faults import spoil
from tests.support.decision_shapes import DIALECT_NAMES, JSON, DialectName, objection


class DecisionServer(ChatServer):
    """A server of decision models in a thread of its own; use it as a context manager.

    Args:
        dialect: Which server it is like, in what it takes and how it writes.
        rule: The answer to a question about a chunk's text.
        latency: Seconds each answer takes.
        keep: Whether bodies are kept for `calls`.
        decimals: To how many the probabilities are rounded; None does not round.
        each: Whether what the questions share is billed for each of them.
    """

    def __init__(
        self,
        dialect: DialectName = "openai",
        rule: Callable[[str], Share] = lambda text: round(decide(text) / 255, 2),
        *,
        latency: float = 0.0,
        keep: bool = True,
        decimals: int | None = None,
        each: bool = False,
        port: int = 0,
    ) -> None:
        super().__init__(latency=latency, keep=keep, port=port)
        self.dialect, self.rule, self.decimals, self.each = dialect, rule, decimals, each
        self.path = "/systemone" if dialect == "systemone" else "/decisions"
        self.fault: str | None = None
        """What is wrong with every answer that follows; see `spoil`."""
        self.fault_at: str | None = None
        """The text whose answer it is; None for the second of a request, or the only one."""
        self.most: int | None = None
        """More questions are declined, in words."""
        self.most_characters: int | None = None
        """More in a body are declined as `too_large` says."""
        self.too_large: Literal["413", "504", "context"] = "413"
        self.filtered: str | None = None
        """A body that holds it meets a content filter."""
        self.disliked: str | None = None
        """A body that holds it is declined without a reason."""
        self.slow: dict[str, float] = {}
        """Seconds that a body which holds a text takes."""
        self.packed = False
        """Whether replies are packed with gzip."""
        self.billed: list[int] = []
        """Tokens of each call that was answered."""
        self.objections: list[str] = []
        """What was wrong with what it was sent."""

    def paid(self, text: str) -> int:
        """Return how often answers about a chunk were sent."""
        return self.counts[f"about {text}"]

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decide on the reply to one call."""
        self.counts["calls"] += 1
        self._seen[raw] += 1
        body = json.loads(raw)
        if self.keep:
            self.calls.append(body)
            self.headers.append(headers)
        if self._scripted and (canned := self._scripted.popleft()).body is not None:
            return canned
        if wrong := objection(self.dialect, body):
            self.objections.append(wrong)
            return error(400, wrong)
        if declined := self._declined(body, raw.decode()):
            return declined
        canned = self._answered(body, raw)
        wait = max((seconds for text, seconds in self.slow.items() if text in raw.decode()), default=0.0)
        canned = replace(canned, delay=wait)
        if self.packed:
            packed = gzip.compress(json.dumps(canned.body).encode())
            canned = replace(canned, body=packed, headers={**canned.headers, "content-encoding": "gzip"})
        return canned

    def _declined(self, body: JSON, text: str) -> Canned | None:
        if self.most is not None and len(body["questions"]) > self.most:
            return error(400, f"Too many questions: at most {self.most} are allowed")
        if self.most_characters is not None and len(text) > self.most_characters:
            if self.too_large == "504":
                page = "<html><body><h1>504 Gateway Time-out</h1></body></html>"
                return Canned(504, {"content-type": "text/html"}, page)
            if self.too_large == "413":
                return Canned(413, {"content-type": "text/html"}, "<html>Request Entity Too Large</html>")
            message = "This model's maximum context length is 4096 tokens"
            return error(400, message, code="context_length_exceeded")
        if self.filtered is not None and self.filtered in text:
            return error(400, "The content was flagged", code="content_filter")
        if self.disliked is not None and self.disliked in text:
            return error(400, "The request was declined")
        return None

    def _answered(self, body: JSON, raw: bytes) -> Canned:
        questions = posed(self.dialect, body)
        answers = [answer(self.dialect, item, self.rule(item.text), self.decimals) for item in questions]
        if self.fault is not None:
            answers = self._spoiled(answers, questions)
        tokens = len(raw) // 4
        if self.each:
            tokens += (len(questions) - 1) * (len(json.dumps(shared_of(self.dialect, body))) // 4)
        self.billed.append(tokens)
        done = self._written(body, answers, tokens)
        headers = {"x-request-id": f"req_{self.counts['calls']}"}
        return Canned(200, headers, done, paid=("paid", *(f"about {item.text}" for item in questions)))

    def _spoiled(self, answers: list[JSON], questions: Sequence[Posed]) -> list[JSON]:
        assert self.fault is not None
        places = [n for n, first in enumerate(questions) if first.text == self.fault_at]
        if self.fault_at is not None and not places:
            return answers
        place = places[0] if places else min(1, len(answers) - 1)
        return spoil(self.fault, answers, place)

    def _written(self, body: JSON, answers: list[Any], tokens: int) -> JSON:
        done: JSON = {"model": f"{body['model']}-2026-10-01"}
        if self.dialect in ("openai", "vllm"):
            parts = {"cached_tokens": 0, "cache_write_tokens": 0}
            usage: JSON = {"input_tokens": tokens, "input_tokens_details": parts, "output_tokens": 0}
            usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens}
            return {**done, "answers": answers, "usage": usage}
        names = [str(item.pop("name")) if isinstance(item, dict) else "c2" for item in answers]
        named = dict(zip(names, answers, strict=True))
        if self.dialect == "systemone":
            return {**done, "answers": named, "usage": {"input_tokens": tokens, "output_tokens": 0}}
        counts = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        values = {"object": "decisions", "prompt_format_version": 1}
        return {**done, **values, "answers": named, "usage": counts}


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the first line printed is the base URL."""
    parser = argparse.ArgumentParser(prog="decision_server", description="Decision models on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dialect", default="openai", choices=DIALECT_NAMES)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds an answer takes")
    parser.add_argument("--no-keep", action="store_true", help="do not keep bodies")
    given = parser.parse_args(arguments)
    server = DecisionServer(given.dialect, latency=given.latency, keep=not given.no_keep, port=given.port)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: server._stop.set())
        await server.serve(lambda: print(server.url, flush=True))  # noqa: T201

    asyncio.run(serve())


if __name__ == "__main__":
    main()
