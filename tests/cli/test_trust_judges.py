from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.chat_server import ChatServer
from tests.support.command import FIXTURES, judge_eval
from tests.support.golden import check_golden as assert_golden

DATA = FIXTURES / "docs_qa.jsonl"


@pytest.mark.slow
def test_a_probe_reads_as_it_should_and_gates(tmp_path: Path) -> None:
    """The obedient judge: its report word for word, the gate's sentence, exit code 1."""
    done = judge_eval(
        tmp_path, "probe", DATA, "-m", "fake/obedient", "--fail-over", "injection=0.05", "--fail-over",
        "random=0.05", "-o", "probe.md",
    )  # fmt: skip
    assert done.returncode == 1
    written = (tmp_path / "probe.md").read_text(encoding="utf-8")
    assert "| probe | fooled | rate" in written
    assert "| injection | **30 of 37** |" in written
    assert "error: gate failed: injection fooled the judge in" in done.stderr
    assert "gate passed: random fooled the judge in 0.0000" in done.stderr
    assert_golden("trust_probe.txt", done.stdout)


DOUBTS = "out-of-scope,other-reference,negated-reference,nothing-relevant,length-bait,echo-bait"


@pytest.mark.slow
def test_a_probe_tells_at_what_probability_a_chunk_was_accepted(tmp_path: Path) -> None:
    """A server that tells log-probabilities: the report word for word, and a gate on what it accepts."""
    with ChatServer() as server:
        key = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.url, "JUDGE_EVAL_CONFIDENCE": "1"}
        done = judge_eval(
            tmp_path, "probe", DATA, "-m", "openai/m", "--only", DOUBTS, "--limit", "12",
            "--fail-over", "out-of-scope=1", "--fail-over", "nothing-relevant=0.1", environment=key,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "gate passed: out-of-scope fooled the judge in" in done.stderr
    assert "error: gate failed: nothing-relevant fooled the judge in" in done.stderr
    assert_golden("trust_probe_probabilities.txt", done.stdout)


@pytest.mark.parametrize("prompt", ["support/binary", "relevance/binary"])
def test_no_probability_is_told_where_the_judge_gives_none(tmp_path: Path, prompt: str) -> None:
    """A server that refuses log-probabilities: null in the report, and a gate without a case fails."""
    with ChatServer(flavour="reasoning") as server:
        key = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.url, "JUDGE_EVAL_CONFIDENCE": "1"}
        done = judge_eval(
            tmp_path, "probe", DATA, "-m", "openai/m", "--only", DOUBTS, "--limit", "3",
            "--json", "--prompt", prompt, "--fail-over", "negated-reference=1", environment=key,
        )  # fmt: skip
    document = json.loads(done.stdout)
    assert {result["assurance"] for result in document["results"]} == {None}
    probed = {result["probe"] for result in document["results"]}
    assert ("negated-reference" in probed) is (prompt == "support/binary")
    if prompt == "relevance/binary":
        assert done.returncode == 1
        assert "negated-reference has no verdict" in done.stderr


@pytest.mark.parametrize(("model", "code"), [("fake/inverted", 1), ("fake/overlap", 0)])
def test_the_canary_gates_without_being_asked(tmp_path: Path, model: str, code: int) -> None:
    """An inverted judge fails the polarity canary, a sound one passes."""
    done = judge_eval(tmp_path, "probe", DATA, "-m", model, "--only", "polarity", "--limit", "20")
    assert done.returncode == code, done.stdout
    assert ("inverted" in done.stdout) is bool(code)


def test_unknown_probes_are_advised_on(tmp_path: Path) -> None:
    """A typo in a probe's name or a rate above 1 has exit code 2."""
    for flags in (["--only", "injektion"], ["--fail-over", "injektion=0.1"], ["--fail-over", "injection=5"]):
        assert judge_eval(tmp_path, "probe", DATA, "-m", "fake/overlap", *flags).returncode == 2


@pytest.mark.slow
def test_a_panel_from_flags_and_from_a_file_is_the_same(tmp_path: Path) -> None:
    """Three members by flags, or in TOML: the same verdicts, the second time without a call."""
    members = ["fake/overlap", "fake/obedient:relevance/binary", "fake/always"]
    flags = [part for member in members for part in ("--member", member)]
    done = judge_eval(tmp_path, "run", DATA, *flags, "-q", "--label", "flags")
    assert done.returncode == 0, done.stderr
    assert "with a panel of 3 (majority)" in done.stdout
    assert "ordinal alpha" in done.stdout
    (tmp_path / "panel.toml").write_text(
        'vote = "majority"\n[[member]]\nmodel = "fake/overlap"\n[[member]]\nmodel = "fake/obedient"\n'
        'prompt = "relevance/binary"\n[[member]]\nname = "yes"\nmodel = "fake/always"\n'
    )
    again = judge_eval(tmp_path, "run", DATA, "--judge", "panel.toml", "-q", "--label", "file")
    assert again.returncode == 0, again.stderr
    assert "0 calls" in again.stdout
    document = json.loads(judge_eval(tmp_path, "compare", "label:flags", "label:file", "--json").stdout)
    assert document["traces"] == []
    shown = judge_eval(tmp_path, "show", "label:file", "--members").stdout
    assert "yes" in shown
    assert "outvoted" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[member]]\nmodel = 'fake/overlap'\n", "two members or more"),
        (
            "[[member]]\nprompt = 'support/binary'\n[[member]]\nmodel = 'fake/overlap'\n",
            "member 1 of the panel names no model",
        ),
        ("[[member]]\nmodle = 'fake/overlap'\n", "did you mean 'mode' or 'model'?"),
        ("vote = 'loud'\n[[member]]\nmodel = 'fake/never'\n", "vote: must be 'majority'"),
        ("member = 3", "write a table [[member]]"),
        ("not toml", "not TOML"),
    ],
)
def test_a_panel_file_that_cannot_work_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """One message that says where, exit code 2."""
    (tmp_path / "panel.toml").write_text(text)
    done = judge_eval(tmp_path, "run", DATA, "--judge", "panel.toml")
    assert done.returncode == 2
    assert said in done.stderr


def test_repeat_reports_the_share_of_flips(tmp_path: Path) -> None:
    """Three samples of a judge that draws its verdicts: three times the calls, and the flips are told."""
    done = judge_eval(tmp_path, "run", DATA, "-m", "fake/hash", "--repeat", "3", "-q", "--limit", "5")
    assert done.returncode == 0, done.stderr
    assert "flips: " in done.stdout
    assert "sample 3" in done.stdout


@pytest.mark.parametrize(("flavour", "told"), [("openai", True), ("reasoning", False)])
def test_confidence_is_asked_for_and_done_without(tmp_path: Path, flavour: str, told: bool) -> None:
    """A server that tells log-probabilities gives confidence; one that refuses them judges all the same."""
    with ChatServer(flavour=flavour) as server:  # type: ignore[arg-type]
        key = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.url}
        done = judge_eval(
            tmp_path, "run", DATA, "-m", "openai/m", "--confidence", "-q", "--limit", "3",
            "-k", "SoftP@5,P@5", environment=key,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    lines = (folder / "results.jsonl").read_text().splitlines()
    outcomes = [o for line in lines for o in json.loads(line)["outcomes"]]
    assert {o["confidence"] is not None for o in outcomes} == {told}
    assert ("the server does not take" in done.stdout) is not told
