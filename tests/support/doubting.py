"""Labelled traces, and judges to be probed for doubt."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from judge_eval import Completion, FakeBackend, Request, Trace
from judge_eval.llm.fake import rules
from judge_eval.schema import Chunk
from judge_eval.trials import ProbeReport, probe
from judge_eval.wire import TokenLogprob

DATA = Path(__file__).parents[2] / "fixtures" / "docs_qa.jsonl"
DOUBTS = [
    "out-of-scope", "other-reference", "negated-reference", "nothing-relevant", "length-bait", "echo-bait",
]  # fmt: skip


def rows(*, labelled: bool = True) -> list[Trace]:
    """Read the fixtures' traces that have chunks, with or without labels."""
    traces = [Trace.parse(json.loads(line)) for line in DATA.read_text(encoding="utf-8").splitlines()]
    if not labelled:
        bare = {t.id: tuple(c.model_copy(update={"label": None}) for c in t.chunks) for t in traces}
        traces = [trace.model_copy(update={"chunks": bare[trace.id]}) for trace in traces]
    return [trace for trace in traces if trace.chunks]


def gold_of(traces: list[Trace]) -> dict[str, Chunk]:
    """Return by trace the first chunk that people found relevant."""
    result = ((t.id, next((c for c in t.chunks if c.label), None)) for t in traces)
    return {name: chunk for name, chunk in result if chunk is not None}


def sure_reply(request: Request, probability: float) -> Completion:
    """Reply as a server that tells log-probabilities: relevant from one half."""
    opinion = rules.Opinion(int(probability >= 0.5), request.passages[0].text[:60].strip(), "Drawn.")
    head, _, _ = rules.reply_text(request, [opinion]).rpartition(" ")
    top = (("true", math.log(probability)), ("false", math.log1p(-probability)))
    word, logprob = top[0] if probability >= 0.5 else top[1]
    tokens = (TokenLogprob(head + " ", 0.0), TokenLogprob(word, logprob, top), TokenLogprob("}", 0.0))
    return Completion(head + f" {word}}}", logprobs=tokens)


def surely(probability: Callable[[str, str, Request], float]) -> FakeBackend:
    """Make a judge that tells a probability for each trace and probe."""

    def answer(request: Request) -> Completion:
        source, _, name = request.trace_id.partition("~")
        return sure_reply(request, probability(source, name, request))

    return FakeBackend(answer, keep=0)


def probed(model: str | FakeBackend, *names: str, data: object = DATA, **settings: object) -> ProbeReport:
    """Probe a judge without a cache."""
    return probe(data, model, probes=names or DOUBTS, cache=False, **settings)  # type: ignore[arg-type]
