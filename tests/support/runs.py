"""Small datasets, evaluators and what stays equal between runs."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from judge_eval.errors import FatalCallError
from judge_eval.evaluator import Evaluator
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.runs.folder.journal import with_digests
from judge_eval.runs.folder.records import Manifest
from judge_eval.schema import Trace


def traces(count: int, chunks: int = 3) -> list[Trace]:
    """Make traces `q0`, `q1`, ... with chunks `q0-a`, `q0-b`, ..."""
    return [
        Trace.parse(
            {
                "id": f"q{n}",
                "query": f"Question {n}?",
                "reference": f"Answer {n}.",
                "chunks": [{"id": f"q{n}-{'abcdefgh'[rank]}", "text": f"Text {n} {rank}."} for rank in range(chunks)],
            }
        )
        for n in range(count)
    ]


def evaluator(backend: FakeBackend, **settings: Any) -> Evaluator:
    """Make an evaluator without a cache."""
    return Evaluator(backend, **{"cache": False, "metrics": ["AP@3", "MRR"], **settings})


def lines(folder: Path) -> bytes:
    """Return the bytes of a run's results."""
    return (folder / "results.jsonl").read_bytes()


def things(count: int, chunks: int = 3) -> list[Trace]:
    """Make traces of as many things, each with so many chunks about it."""
    return [
        Trace.parse(
            {
                "id": f"q{n}",
                "query": f"What is thing {n}?",
                "reference": f"Thing {n} is blue.",
                "chunks": [f"Passage {k} says thing {n} is {k}." for k in range(chunks)],
            }
        )
        for n in range(count)
    ]


def unnamed(results: bytes) -> bytes:
    """Leave out the server's ids of requests, which differ between runs that agree otherwise."""
    return re.sub(rb'"request_id":"[^"]*"', b"", results)


def leave_failed(data: Path, label: str | None = None) -> None:
    """Leave a failed run without a verdict in `runs`: its first reply is paid and unreadable, the next call ends it."""
    replies = iter(["?"])
    backend = FakeBackend(lambda _: next(replies, FatalCallError("the key expired")))
    with suppress(FatalCallError), Evaluator(backend, cache=False) as evaluator:
        evaluator.evaluate(data, out="runs", label=label)


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    """Change fields of a run's manifest as its author can: with a new digest."""
    path = folder / "manifest.json"
    manifest = Manifest.from_json(path.read_bytes()).replace(**changes)
    path.write_text(with_digests(manifest, manifest.results_digest).model_dump_json(indent=2))
