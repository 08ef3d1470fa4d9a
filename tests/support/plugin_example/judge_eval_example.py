"""A backend, a judge and a metric, as an installed package brings them."""

import json

import numpy as np

from judge_eval import Completion, Identity, Pointwise, Usage
from judge_eval.metrics import Parameter, Spec
from judge_eval.schema import NoVerdict


class Parrot:
    """A backend that finds a chunk relevant if it repeats the whole reference."""

    def __init__(self, model):
        self.identity = Identity("parrot", model)

    async def complete(self, request):
        (passage,) = request.passages
        repeated = bool(request.reference) and request.reference in passage.text
        reply = {
            "evidence": request.reference if repeated else "",
            "reason": "It repeats the reference." if repeated else "It does not repeat the reference.",
            "instruction_in_chunk": False,
            "verdict": repeated,
        }
        return Completion(json.dumps(reply), usage=Usage(1, 1), model=self.identity.model)

    async def aclose(self):
        pass


def parrot(model, *, base_url, timeout, concurrency, params):
    """Make the backend for `--model parrot/MODEL`."""
    return Parrot(model)


class Quoting:
    """A judge that takes no verdict for relevant unless its quote stands in the chunk."""

    def __init__(self, prompt, *, relevant=None):
        self._inner = Pointwise(prompt, relevant=relevant)
        self.scale, self.needs = self._inner.scale, self._inner.needs

    def describe(self):
        return {**self._inner.describe(), "judge": "quoting/1"}

    def inquire(self, trace, known={}):
        judgment = yield from self._inner.inquire(trace, known)
        outcomes = tuple(map(self._checked, judgment.outcomes))
        return judgment.model_copy(update={"outcomes": outcomes})

    def _checked(self, outcome):
        if outcome.kind == "verdict" and outcome.relevant and not outcome.evidence_found:
            return NoVerdict(chunk_id=outcome.chunk_id, why="unparsable", detail="relevant without a quote")
        return outcome


def all_relevant(table, k, rel=None):
    """Compute 1 where every chunk of the top k is relevant, else 0; 0 for an empty list."""
    least = table.relevant if rel is None else rel
    values = np.zeros(len(table))
    for rows, grades in table.blocks(k):
        there = grades != -128
        values[rows] = there.any(axis=0) & ((grades >= least) | ~there).all(axis=0)
    return values


ALL_RELEVANT = Spec(
    name="AllRelevant",
    family="rag",
    cutoff="optional",
    parameters=(Parameter("rel", None, {}, "relevant"),),
    compute=all_relevant,
    formula="1 where every chunk within the top K is relevant, else 0; 0 for an empty list",
)
