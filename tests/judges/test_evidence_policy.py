"""A relevant verdict without sound evidence: flagged and counted, or none where evidence is required."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError
from judge_eval.eval_run import EvalRun
from judge_eval.export.mlflow import metrics_of
from judge_eval.export.text import as_markdown
from judge_eval.judges import Listwise, Pointwise
from judge_eval.judges.panel import repeated
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.pages.figures import head
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.schema import Outcome
from judge_eval.views.run_remarks import remarks_of
from tests.support.chat_answers import judge
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.driving import drive, trace_of
from tests.support.installing import install_judges
from tests.support.replies import entry, graded, many, one

TEXT = "The sauce is made of San Marzano tomatoes from the slopes of a volcano."
UNSOUND = {
    "an invention": ("They came from California.", "its quote is not in the chunk: 'They came from California.'"),
    "nothing": ("", "it quotes nothing"),
    "a letter": ("T", "its quote is too short: 'T'"),
    "a word": ("volcano", "its quote is too short: 'volcano'"),
    "crumbs": ("The ... s ... of ... a", "its quote is too short: 'The ... s ... of ... a'"),
}


def judged(evidence: Any, quote: str, relevant: bool = True) -> Outcome:
    """What becomes of a verdict that quotes this, twice where it is asked again."""
    reply = one(relevant, quote)
    judgment, rounds = drive(Pointwise(evidence=evidence), trace_of(TEXT), lambda _: reply)
    assert len(rounds) == (2 if relevant and not quote else 1)
    return judgment.outcomes[0]


@pytest.mark.parametrize("quote", UNSOUND)
def test_required_takes_it_for_no_verdict(quote: str) -> None:
    """A relevant verdict whose quote is invented, missing after the second ask or too short is none."""
    outcome = judged("required", UNSOUND[quote][0])
    assert outcome.kind == "no_verdict"
    assert (outcome.why, outcome.detail) == ("unsupported", f"relevant, but {UNSOUND[quote][1]}")


@pytest.mark.parametrize("quote", UNSOUND)
@pytest.mark.parametrize("policy", ["flag", None])
def test_flag_counts_it_and_says_so(quote: str, policy: Any) -> None:
    """By default such a verdict stays, marked as one without evidence."""
    outcome = judged(policy, UNSOUND[quote][0])
    assert outcome.kind == "verdict"
    assert outcome.relevant
    assert outcome.unsupported
    assert not outcome.evidence_found


@pytest.mark.parametrize("policy", ["flag", "required"])
def test_sound_and_irrelevant_verdicts_are_left_alone(policy: Any) -> None:
    """A verbatim quote is evidence; what is not relevant needs none."""
    for quote, relevant in (("made of San Marzano tomatoes", True), ("invented", False), ("", False)):
        outcome = judged(policy, quote, relevant)
        assert outcome.kind == "verdict"
        assert not outcome.unsupported


def test_the_threshold_says_what_needs_evidence() -> None:
    """Of a graded judge the verdicts from the threshold on need evidence, wherever it is put."""
    for relevant, kind in ((2, "verdict"), (1, "no_verdict")):
        result = json.dumps(graded(1, "invented words here"))
        asking = Pointwise("support/graded", relevant=relevant, evidence="required")
        backend = FakeBackend(lambda _, outcome=result: outcome)
        with Evaluator(backend, judge=asking, cache=False) as evaluator:
            run = evaluator.evaluate(trace_of(TEXT))
        assert run.results[0].outcomes[0].kind == kind
        if kind == "verdict":
            lower = rescore(run, ["AP@5"], 1)
            assert lower.results[0].outcomes[0].kind == "no_verdict"
            assert lower.manifest.tally.failures == {"unsupported": 1}
            assert (lower.manifest.tally.verdicts, lower.manifest.tally.failed_traces) == (0, 1)


def test_listwise_and_panels_keep_the_policy() -> None:
    """Entries of a list are held to it, those asked again one by one too, and every member of a panel."""
    replies = [[many(entry(1, True, "invented words"), entry(2, True, ""))], [one(True, "")], [one(True, "")]]
    judgment, _ = drive(Listwise(evidence="required"), trace_of(TEXT, "Another text."), replies)
    assert [o.kind == "no_verdict" and o.why for o in judgment.outcomes] == ["unsupported", "unsupported"]
    panel = repeated("support/binary", repeat=2, evidence="required")
    judgment, _ = drive(panel, trace_of(TEXT), lambda _: one(True, "invented words"))
    (outcome,) = judgment.outcomes
    assert outcome.kind == "no_verdict"
    assert outcome.why == "unsupported"


def test_a_judge_that_takes_no_policy_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy is never dropped: an installed judge that does not take one refuses it."""
    install_judges(monkeypatch, {"plain": lambda prompt: Pointwise(prompt)})
    with pytest.raises(ConfigError, match="already has a policy"):
        Evaluator("fake/overlap", judge="plain", evidence="required")


def test_a_prompt_file_may_say_it(tmp_path: Path) -> None:
    """A prompt's own policy holds where nobody says otherwise, is described, and leaves cache keys alone."""
    from judge_eval.prompts import load_prompt

    shipped = Path(__file__).parents[2] / "prompts" / "support" / "binary.toml"
    own = tmp_path / "own.toml"
    own.write_text(shipped.read_text().replace("version = 2", 'version = 2\nevidence = "required"'))
    assert load_prompt(own).digest == load_prompt("support/binary").digest
    for given, holds in ((None, "required"), ("flag", "flag"), ("required", "required")):
        asking: Any = Pointwise(own, evidence=given)  # type: ignore[arg-type]
        assert asking.describe()["evidence"] == holds
    with pytest.raises(ConfigError, match="evidence is 'must'; "):
        Pointwise(evidence="must")  # type: ignore[arg-type]


def sloppy(body: Any) -> dict[str, Any]:
    """Quote words that the chunk does not hold."""
    return {**judge(body), "verdict": True, "evidence": "words that nobody wrote"}


@pytest.mark.slow
def test_every_place_tells_the_same_count(tmp_path: Path) -> None:
    """Summary, Markdown, MLflow, notebook, page, REST's manifest and a re-scored run count alike."""
    shell = Shell(tmp_path)
    with ChatServer(verdict=sloppy) as server:
        (tmp_path / "data.jsonl").write_text(trace_of(TEXT, "Another text.").model_dump_json() + "\n")
        result = shell(
            *("run", "data.jsonl", "--model", "openai/m", "--base-url", server.url, "--out", "runs"),
            *("-o", "run.md"),
            OPENAI_API_KEY="x",
        )
        assert result.code == 0, result.err
        run = EvalRun.load(next((tmp_path / "runs").iterdir()))
        message = "2 relevant verdicts rest on no quote found in their chunks; the means count them"
        assert run.manifest.judge["evidence"] == "flag"
        assert run.manifest.tally.unsupported == 2
        assert next(remark.text for remark in remarks_of(run.manifest)) == message
        assert message in result.out
        assert message in (tmp_path / "run.md").read_text()
        assert message in as_markdown(run)
        assert message in run._repr_html_()
        assert head(run.manifest)["unsupported"] == 2
        assert metrics_of(run)["judge_eval/unsupported"] == 2
        assert rescore(run, ["MRR"]).manifest.tally.unsupported == 2
        asked = server.stats["calls"]

        (tmp_path / "pyproject.toml").write_text('[tool.judge_eval]\nevidence = "required"\n')
        again = shell(
            *("run", "data.jsonl", "--model", "openai/m", "--base-url", server.url, "--out", "strict"),
            *("--max-failures", "5"),
            OPENAI_API_KEY="x",
        )
        assert again.code == 0, again.err
        assert server.stats["calls"] == asked  # the replies are those of the cache, read anew
    strict = EvalRun.load(next((tmp_path / "strict").iterdir()))
    assert strict.manifest.judge["evidence"] == "required"
    assert strict.manifest.tally.failures == {"unsupported": 2}
    assert strict.manifest.tally.unsupported == 0
    assert "unsupported 2" in again.out
