"""A backend, a judge, a metric and a reader of an installed package."""

import json

import numpy as np

from judge_eval import Completion, Identity, Pointwise, Usage
from judge_eval.data.shapes.shape import Shape
from judge_eval.judges import JudgeAround
from judge_eval.metrics import Parameter, Spec
from judge_eval.registry import Kind
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


class Quoting(JudgeAround):
    """A judge that accepts a relevant verdict only if its quote is in the chunk."""

    def describe(self):
        return {**self.judge.describe(), "mode": "quoting", "judge": "quoting/1"}

    def conclude(self, trace, judgment):
        outcomes = tuple(map(self._checked, judgment.outcomes))
        return judgment.model_copy(update={"outcomes": outcomes})

    def _checked(self, outcome):
        if outcome.kind == "verdict" and outcome.relevant and not outcome.evidence_found:
            return NoVerdict(chunk_id=outcome.chunk_id, why="unparsable", detail="relevant without a quote")
        return outcome


def quoting(prompt, *, relevant=None):
    """Make the judge for `--judge quoting`."""
    return Quoting(Pointwise(prompt, relevant=relevant))


QUOTING = Kind(quoting, from_record=lambda record: Quoting(Pointwise.from_record(record)), asks="text")


def all_relevant(table, k, rel=None):
    """Compute 1 if every chunk of the top k is relevant, else 0; 0 for an empty list."""
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
    formula="1 if every chunk within the top K is relevant, else 0; 0 for an empty list",
)


def quiz(record):
    """Read a record of `{"asks": ..., "wants": ..., "hits": [texts]}`."""
    yield {"query": record["asks"], "reference": record["wants"], "chunks": record["hits"]}


QUIZ = Shape(
    name="quiz",
    title="a quiz with retrieved chunks",
    fits=lambda keys: {"asks", "hits"} <= keys,
    read=quiz,
    known=frozenset({"asks", "wants", "hits"}),
    lists=frozenset({"hits"}),
)
