from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.integrations.lynxius import ContextChunk, ContextPrecision, LynxiusClient
from judge_eval.server.server_settings import ServerSettings
from tests.support.blocks import python
from tests.support.chat_server import ChatServer
from tests.support.pizza import CONTEXT, QUERY, REFERENCE, REFUSED, SCORE, VERDICTS, body, pizza_judge
from tests.support.serving import serving

# The hosted evaluator's example in its own order of statements; of it only the imports are other ones.
THEIRS = """
from lynxius.client import LynxiusClient
from lynxius.evals.context_precision import ContextPrecision
from lynxius.rag.types import ContextChunk
"""
OURS = """
from judge_eval.integrations.lynxius import LynxiusClient
from judge_eval.integrations.lynxius import ContextPrecision
from judge_eval.integrations.lynxius import ContextChunk
"""
EXAMPLE = """
client = LynxiusClient()

label = "PR #111"
tags = ["GPT-4", "chat_pizza", "info_retrieval", "PROD", "Pizza-DB:v2"]
context_precision = ContextPrecision(label=label, href="https://host/pull/111", tags=tags)

context_precision.add_trace(
    query="Which tomatoes are used for the sauce of a Neapolitan pizza?",
    reference="San Marzano tomatoes.",
    context=[
        ContextChunk(document="The oven must be very hot.", relevance=0.92),
        ContextChunk(document="The sauce is made of San Marzano tomatoes.", relevance=0.9),
    ],
)

answer = client.evaluate(context_precision)
"""
SHOWN = """
import json
print(json.dumps([answer, answer.uuid, answer.score, answer.verdicts]))
"""
pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")


def precision(*documents: str, **more: Any) -> ContextPrecision:
    """Make the example's evaluation, of other chunks where some are given."""
    made = ContextPrecision(label="PR #111", href="https://host/pull/111", tags=["Pizza-DB:v2"], **more)
    pairs = [(text, 0.5) for text in documents] or CONTEXT
    made.add_trace(
        query=QUERY,
        reference=REFERENCE,
        context=[ContextChunk(document=text, relevance=score) for text, score in pairs],
    )
    return made


@pytest.mark.slow
@pytest.mark.parametrize("set_by", ["variable", "file"])
def test_the_documented_example_runs_with_other_imports(tmp_path: Path, set_by: str) -> None:
    """The example, its model named by a variable or the configuration file, is judged over HTTP and kept."""
    with ChatServer() as chat:
        named = "import os\nos.environ['JUDGE_EVAL_MODEL'] = 'openai/some-model'\n"
        if set_by == "file":
            named = ""
            (tmp_path / "judge_eval.toml").write_text('model = "openai/some-model"\nmetrics = ["NDCG@5"]\n')
        done = python(named + OURS + EXAMPLE + SHOWN, tmp_path, chat.url)
        assert done.returncode == 0, done.stderr
        calls = len(chat.calls)
    answer, uuid, score, verdicts = json.loads(done.stdout.splitlines()[-1])
    assert calls == 2
    assert answer == uuid
    (folder,) = (tmp_path / "runs").iterdir()
    run = EvalRun.load(folder)
    assert run.id == uuid
    assert (run.label, run.manifest.href) == ("PR #111", "https://host/pull/111")
    assert run.manifest.tags[-1] == "Pizza-DB:v2"
    assert run["AP"] == score
    assert ("NDCG@5" in run.manifest.metrics) == (
        set_by == "file" or "NDCG@5" in Evaluator("fake/overlap").scorer.names
    )
    assert [o.relevant for o in run.results[0].outcomes if o.kind == "verdict"] == verdicts


def test_judged_here_the_answer_is_the_id_with_score_and_booleans(tmp_path: Path) -> None:
    """What is returned is the run's id as a text, as their client returns it, with the run's figures."""
    with pizza_judge() as evaluator:
        client = LynxiusClient(evaluator=evaluator)
        answer = client.evaluate(precision())
        assert isinstance(answer, str)
        assert json.loads(json.dumps(answer)) == answer.uuid == answer.run.id
        assert (answer.score, answer.verdicts) == (SCORE, VERDICTS)
        assert "score=0.5" in repr(answer)
        outcome = client.get_eval_run(answer)
        assert pickle.loads(pickle.dumps(answer)) == answer
    assert (outcome["status"], outcome["aggregate_score"], outcome["label"]) == ("SUCCESS", SCORE, "PR #111")
    (result,) = outcome["results"]
    assert (result["score"], result["verdicts"]) == (SCORE, VERDICTS)
    assert {key: result[key] for key in ("query", "reference", "contexts")} == body()["data"][0]  # type: ignore[index]
    assert EvalRun.load(tmp_path / "runs" / answer.run.folder.name).id == answer  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_server_that_is_named_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an address given or in the environment the server judges, and gives what judging here gives."""
    token = "a token that is long enough"
    with serving(ServerSettings(tmp_path / "served", token=token), pizza_judge()) as url:
        answer = LynxiusClient(api_key=token, base_url=url + "/").evaluate(precision())
        assert (answer.score, answer.verdicts) == (SCORE, VERDICTS)
        monkeypatch.setenv("JUDGE_EVAL_SERVER", url)
        monkeypatch.setenv("JUDGE_EVAL_SERVER_TOKEN", token)
        client = LynxiusClient()
        second = client.evaluate(precision(baseline_eval_run_label="PR #111"))
        assert second.baseline is not None
        assert second.baseline.id == answer.uuid
        assert client.get_eval_run(second)["aggregate_score"] == SCORE
        with pytest.raises(DataError, match="no run labelled 'PR #1'"):
            client.evaluate(precision(baseline_eval_run_label="PR #1"))
    assert not (tmp_path / "runs").exists()
    with pizza_judge() as evaluator:  # named for this client, whatever the environment says
        assert LynxiusClient(evaluator=evaluator).evaluate(precision()).score == SCORE
    assert LynxiusClient(run_local=True, model="fake/overlap").evaluate(precision()).verdicts[1] is True


def test_a_failed_verdict_is_none_and_never_a_score() -> None:
    """A chunk that was declined is None among the verdicts; a trace with it has no score."""
    with pizza_judge() as evaluator:
        client = LynxiusClient(evaluator=evaluator)
        made = precision("Salt.", "San Marzano.", f"Dough {REFUSED}.")
        answer = client.evaluate(made)
        assert (answer.score, answer.verdicts) == (None, [False, True, None])
        result = client.get_eval_run(answer.uuid)
        assert (result["status"], result["aggregate_score"], result["p20"]) == ("INCOMPLETE", None, None)
        made.add_trace(QUERY, REFERENCE, [ContextChunk("Dough.", 0.1), ContextChunk("San Marzano.", 0.1)])
        answer = client.evaluate(made)
        assert (answer.score, answer.verdicts) == (None, [False, True, None, False, True])
        assert answer.run.aggregate("AP@5").n_failed == 1  # over 5% of the verdicts failed: no mean heads it


def test_a_baseline_is_found_among_the_runs_here() -> None:
    """The newest run of the label is at hand to compare with; a label of none ends it before judging."""
    with pizza_judge() as evaluator:
        client = LynxiusClient(evaluator=evaluator)
        first = client.evaluate(precision())
        assert first.baseline is None
        second = client.evaluate(precision(baseline_eval_run_label="PR #111"))
        assert second.baseline is not None
        assert second.baseline.compare(second.run).paired == (1,)
        with pytest.raises(RunError, match="no run labelled 'main'"):
            client.evaluate(precision(baseline_eval_run_label="main"))


def test_without_a_model_one_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that nobody can judge for cannot be made; the hosted evaluator's variables change nothing."""
    monkeypatch.setenv("LYNXIUS_API_KEY", "theirs")
    monkeypatch.setenv("LYNXIUS_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(ConfigError) as caught:
        LynxiusClient()
    for way in ("no model is named", "model=", "JUDGE_EVAL_MODEL", "pyproject.toml", "JUDGE_EVAL_SERVER"):
        assert way in str(caught.value)
    with pytest.raises(ConfigError, match="a server uses its own model"):
        LynxiusClient(base_url="http://127.0.0.1:9", model="fake/overlap")
    monkeypatch.setenv("JUDGE_EVAL_REPEAT", "many")
    with pytest.raises(ConfigError, match="repeat"):
        LynxiusClient(model="fake/overlap")


def test_what_cannot_be_judged_is_refused_where_it_is_added() -> None:
    """A trace without question or reference is refused as their client refuses it, and so is no trace."""
    made = ContextPrecision(label="x")
    with pytest.raises(DataError, match="the query and the reference"):
        made.add_trace(query="", reference="r")
    with pytest.raises(DataError, match=r"chunks\[0\]"):
        made.add_trace(query="q?", reference="r", context=[3])  # type: ignore[list-item]
    with pytest.raises(DataError, match="no traces to judge"):
        LynxiusClient(model="fake/overlap").evaluate(made)
