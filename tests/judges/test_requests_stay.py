"""What is asked of traces without a conversation stays as it was, byte for byte: paid answers stay in the cache."""

import hashlib
import json
from collections.abc import Iterator

import pytest

from judge_eval import Trace, open_dataset
from judge_eval.errors import JudgeEvalError
from judge_eval.judges.questions import distinct, request_for
from judge_eval.judges.splitting import Splitting
from judge_eval.llm.backend import Identity
from judge_eval.llm.cache.cached import cache_key
from judge_eval.prompts import AnyForm, CellForm, DecisionForm, PromptForm, load_form, prompt_ids, prompt_versions
from judge_eval.prompts.claims import CellPrompt, ClaimsForm
from judge_eval.schema import Claim
from judge_eval.wire import Request
from tests.support.command import FIXTURES
from tests.support.golden import check_golden

DATA = ("docs_qa.jsonl", "docs_qa_graded.jsonl", "pizza.jsonl", "claims.jsonl")
FORMATS = FIXTURES / "formats"
CLAIMS = (Claim(id="1", text="The sauce has San Marzano tomatoes."), Claim(id="2", text="It is raw."))


def forms() -> Iterator[tuple[str, AnyForm]]:
    """Every form of every version of every shipped prompt, and of a prompt of a user's own."""
    for name in prompt_ids():
        for version in prompt_versions(name):
            form = load_form(f"{name}@{version}")
            yield form.prompt.ref, form
            if isinstance(form, DecisionForm):
                for layout in ("input", "request"):
                    yield f"{form.prompt.ref} {layout}", DecisionForm(form.prompt, layout)
            if isinstance(form, CellForm) and isinstance(form.prompt, CellPrompt):
                yield f"{form.prompt.ref} together", CellForm(form.prompt, together=True)
    yield "own", load_form(FIXTURES / "prompt_de.toml")


def requests_of(form: AnyForm, trace: Trace) -> Iterator[Request]:
    """What a form asks of a trace: of each passage alone, or of all at once."""
    questions = distinct(trace.chunks, {})
    claims = () if isinstance(form, PromptForm | DecisionForm) else CLAIMS
    if isinstance(form, ClaimsForm) and form.prompt.mode == "split":
        yield Splitting(form).request(trace)
        return
    many = form.listwise or getattr(form, "together", False) or getattr(form, "layout", "") == "input"
    for some in [questions] if many and questions else [[question] for question in questions]:
        yield request_for(form, trace, some, 512, 0, accepts=lambda _: True, claims=claims)


def fingerprints() -> dict[str, str]:
    """A digest over what every prompt asks of every fixture, and over the digests of every readable fixture."""
    found: dict[str, str] = {}
    identity = Identity("openai", "m")
    traces = [trace for name in DATA for trace in open_dataset(FIXTURES / name)]
    for name, form in forms():
        hashed, count = hashlib.sha256(), 0
        for trace in traces:
            for request in requests_of(form, trace):
                hashed.update(request.digest + cache_key(identity, request.digest))
                for message in request.billed:
                    hashed.update(f"{message.role}:{len(message.content)}:{message.content}".encode())
                count += 1
        found[name] = f"{count} {hashed.hexdigest()}"
    for path in sorted([*FIXTURES.glob("*.jsonl"), *FORMATS.iterdir()]):
        if path.suffix in (".parquet", ".xlsx") or path.name == "conversation.jsonl":  # two need packages
            continue
        try:
            hashed = hashlib.sha256("".join(t.id + t.digest for t in open_dataset(path)).encode())
        except JudgeEvalError:
            continue
        found[str(path.relative_to(FIXTURES))] = hashed.hexdigest()
    return found


@pytest.mark.slow
def test_requests_digests_and_keys_of_traces_without_a_conversation_are_as_before() -> None:
    """Over all prompts and fixtures, as they were recorded before traces could have a conversation."""
    check_golden("requests.json", json.dumps(fingerprints(), indent=1) + "\n")
