"""Runs whose judge tells probabilities, with labels beside them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from judge_eval import Completion, EvalRun, Evaluator, FakeBackend, Identity, Request, Trace
from judge_eval.llm.fake import rules
from judge_eval.wire import TokenLogprob


class Renamed(FakeBackend):
    """A backend whose server calls the model by a name of its own."""

    name = ""

    async def complete(self, request: Request) -> Completion:
        """Answer one request."""
        return replace(await super().complete(request), model=self.name)


def likely_run(
    traces: int = 60,
    *,
    model: str = "sure",
    answers_as: str | None = None,
    silent: int = 0,
    told: bool = True,
    cluster: int = 0,
    seed: int = 1,
    settings: dict[str, Any] | None = None,
    **keep: Any,
) -> EvalRun:
    """Judge traces of six labelled chunks by a judge that is too sure of itself.

    Args:
        traces: How many.
        model: The model that is asked for.
        answers_as: The name by which the server calls it.
        silent: How many chunks of each trace come without a probability.
        told: Whether any comes with one.
        cluster: How many traces in a row share a cluster; 0 for none.
        seed: Of probabilities and labels.
        settings: Of the evaluator.
        keep: Of `Evaluator.evaluate`: folder, label.
    """
    rng = np.random.default_rng(seed)
    shares: dict[str, float] = {}
    rows = []
    for place in range(traces):
        chunks = []
        for rank in range(6):
            text, logit = f"chunk {rank} of {place}", 2.5 * rng.normal()
            if told and rank >= silent:
                shares[text] = min(max(round(1 / (1 + math.exp(-logit)), 3), 0.001), 0.999)
            relevant = rng.random() < 1 / (1 + math.exp(0.5 - 0.5 * logit))
            chunks.append({"id": f"c{rank}", "text": text, "label": int(relevant)})
        fields = {"id": f"t{place:03}", "query": f"question {place}", "reference": "r", "chunks": chunks}
        if cluster:
            fields["metadata"] = {"cluster": f"d{place // cluster}"}
        rows.append(Trace.parse(fields))

    def answer(request: Request) -> Completion:
        text = request.passages[0].text
        share = shares.get(text)
        relevant = share is not None and share >= 0.5
        reply = rules.reply_text(request, [rules.Opinion(int(relevant), text)])
        if share is None:
            return Completion(reply)
        word = "true" if relevant else "false"
        head, _, tail = reply.rpartition(word)
        both = (("true", math.log(share)), ("false", math.log(1 - share)))
        parts = ((head, 0.0, ()), (word, dict(both)[word], both), (tail, 0.0, ()))
        return Completion(reply, logprobs=tuple(TokenLogprob(*part) for part in parts))

    more: dict[str, Any] = {"metrics": ["AP@5", "SoftP@5", "EDCG@5"], "cache": False, **(settings or {})}
    backend = Renamed(answer, identity=Identity("fake", model))
    backend.name = answers_as or model
    with Evaluator(backend, **more) as judge:
        return judge.evaluate(rows, **keep)
