import asyncio
import json
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from judge_eval.llm.fake import fake_backend as fake
from judge_eval.schema import Trace
from judge_eval.wire import Passage, Request
from tests.support.plain_form import PlainForm

pytestmark = pytest.mark.foreign


def kappa(path: Path) -> float:
    """Cohen's kappa of the overlap rule's verdicts against the labels, over all chunks of a file."""

    async def run() -> tuple[list[bool], list[bool]]:
        backend, form = fake.create("overlap"), PlainForm()
        verdicts, labels = [], []
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                trace = Trace.parse(json.loads(line), file=path.name, line=number)
                for chunk in trace.chunks:
                    shown = (Passage(chunk.text, chunk.title),)
                    request = Request(form, trace.query, shown, 300, reference=trace.reference)
                    verdicts.append(json.loads((await backend.complete(request)).text)["verdict"])
                    labels.append(bool(chunk.label))
        return verdicts, labels

    return float(cohen_kappa_score(*asyncio.run(run())))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("clapnq/answerable.jsonl", 0.70),
        # Two gold paragraphs of ten for answers of a word or two: counting words cannot do much better.
        ("hotpotqa/distractor.jsonl", 0.40),
    ],
)
def test_overlap_agrees_with_people(conformance_data: Path, name: str, least: float):
    """The overlap rule agrees with human labels well enough to be a credible demonstration."""
    assert kappa(conformance_data / name) >= least
