"""`validate-judge`: the table of a judge on labelled sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from judge_eval import FakeBackend
from judge_eval.errors import FatalCallError
from judge_eval.llm.fake import rules
from judge_eval.registry import Provider, provider_of
from judge_eval.wire import Completion, Request
from tests.support.command import FIXTURES
from tests.support.decision_server import DecisionServer
from tests.support.desk import Desk
from tests.support.installing import install_providers


@pytest.mark.slow
def test_a_folder_and_a_file_make_rows_that_join(desk: Desk) -> None:
    """A row a set and language, systems ranked where runs are there; tables of two judges join into one page."""
    shutil.copytree(FIXTURES / "formats/beir", desk.folder / "beir")
    run = (desk.folder / "beir/run.trec").read_text(encoding="utf-8")
    (desk.folder / "beir/runs").mkdir()
    (desk.folder / "beir/runs/one.trec").write_text(run, encoding="utf-8")
    lines = [line.split() for line in run.splitlines()]
    turned = "".join(" ".join([q, z, d, r, str(-float(s)), "two"]) + "\n" for q, z, d, r, s, _ in lines)
    (desk.folder / "beir/runs/two.trec").write_text(turned, encoding="utf-8")
    rows = [
        {
            "query_id": f"{language}{k}", "query": f"was ist thing{k}", "language": language,
            "positive_passages": [{"docid": "p", "text": f"thing{k} ist ein seltenes Tier."}],
            "negative_passages": [{"docid": "n", "text": "Heute regnet es."}],
        }
        for language in ("de", "fr") for k in range(12)
    ]  # fmt: skip
    (desk.folder / "miracl.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name in ("overlap", "hash"):
        done = desk(
            "validate-judge", "-m", f"fake/{name}", "--prompt", "relevance/binary", "--sets", "beir",
            "--sets", "miracl.jsonl", "-o", f"{name}.json",
        )  # fmt: skip
        assert done.code == 0, done.err
    table = json.loads((desk.folder / "overlap.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["set"], row["language"]) for row in table] == [
        ("beir", ""), ("miracl.jsonl", ""), ("miracl.jsonl", "de"), ("miracl.jsonl", "fr"),
    ]  # fmt: skip
    assert table[0]["systems"] is not None
    assert table[1]["kappa"]["interval"] is not None
    assert table[1]["evidence_found"]["value"] == 1
    both = desk("validate-judge", "--join", "overlap.json", "--join", "hash.json", "-o", "both.md", "-o", "both.html")
    assert both.code == 0, both.err
    text = (desk.folder / "both.md").read_text(encoding="utf-8")
    assert text.count("| miracl.jsonl") == 6
    assert "<table" in (desk.folder / "both.html").read_text(encoding="utf-8")
    assert desk("validate-judge").code == 2
    assert "not a table of validate-judge" in desk("validate-judge", "--join", "miracl.jsonl").err


def test_a_dry_run_asks_nothing_and_tables_of_lines_join(desk: Desk) -> None:
    """`--dry-run` says the calls and tokens of each set and prompt; rows as JSON Lines join, also put together."""
    shutil.copytree(FIXTURES / "formats/beir", desk.folder / "beir")
    planned = desk("validate-judge", "-m", "fake/overlap", "--sets", "beir", "--dry-run", "-o", "no.json")
    assert planned.code == 0, planned.err
    for prompt in ("relevance/binary", "relevance/graded"):
        assert f"beir, {prompt}: " in planned.out
    assert planned.out.count("input tokens") == 2
    assert "no request was sent" in planned.err
    assert not (desk.folder / "no.json").exists()
    both = ""
    for name in ("overlap", "hash"):
        judge = ("-m", f"fake/{name}", "--prompt", "relevance/binary")
        assert desk("validate-judge", *judge, "--sets", "beir", "-o", f"{name}.jsonl").code == 0
        both += (desk.folder / f"{name}.jsonl").read_text(encoding="utf-8")
    (desk.folder / "both.jsonl").write_text(both, encoding="utf-8")
    for joined in (("--join", "both.jsonl"), ("--join", "overlap.jsonl", "--join", "hash.jsonl")):
        shown = desk("validate-judge", *joined, "--json")
        assert shown.code == 0, shown.err
        assert [row["model"] for row in json.loads(shown.out)["rows"]] == ["fake/overlap-1", "fake/hash-1"]
    (desk.folder / "broken.jsonl").write_text('{"set": 1}\n', encoding="utf-8")
    assert "not a table of validate-judge" in desk("validate-judge", "--join", "broken.jsonl").err


def labelled(path: Path, referenced: int, count: int = 6) -> Path:
    """Write traces with labels, of which the first have a reference."""
    rows = [
        {
            "id": f"{path.stem}{k}", "query": f"What is thing{k}?",
            "reference": f"thing{k} is rare" if k < referenced else None,
            "chunks": [
                {"id": "p", "text": f"{path.stem}: thing{k} is rare.", "label": 1},
                {"id": "n", "text": "It rains.", "label": 0},
            ],
        }
        for k in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_model_of_yes_and_no_is_asked_by_binary_prompts_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one row a set, by the prompt for decisions, where a model that takes grades has two."""
    fake = provider_of("fake/overlap").create
    providers = {
        "yesno": Provider(lambda _: fake("overlap"), writes_text=False, takes_grades=False, takes_logprobs=False),
        "grades": Provider(lambda _: fake("overlap"), writes_text=False, takes_logprobs=False),
    }
    install_providers(monkeypatch, providers)
    sets = ("--sets", labelled(desk.folder / "with.jsonl", 6), "--sets", labelled(desk.folder / "without.jsonl", 0))
    prompts = {}
    for name in providers:
        done = desk("validate-judge", "-m", f"{name}/x", *sets, "--json")
        assert done.code == 0, done.err
        prompts[name] = [row["prompt"].partition("@")[0] for row in json.loads(done.out)["rows"]]
    assert prompts["yesno"] == ["support/decision", "relevance/decision"]
    assert prompts["grades"] == [f"{f}/decision{end}" for f in ("support", "relevance") for end in ("", "-graded")]
    assert provider_of("local/x").takes_grades is False


def test_sets_without_what_the_prompt_needs_are_named(desk: Desk) -> None:
    """A set without references is left out by name, one that lacks some says how many; without any set it fails."""
    some, none = labelled(desk.folder / "some.jsonl", 4), labelled(desk.folder / "none.jsonl", 0)
    judge = ("validate-judge", "-m", "fake/overlap", "--prompt", "support/binary", "--json", "--sets")
    done = desk(*judge, none, "--sets", some)
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert "none.jsonl: no trace has the reference, which support/binary@2 needs; the set is left out" in said
    assert "some.jsonl: 2 of 6 traces lack the reference, which support/binary@2 needs" in said
    assert [(row["set"], row["skipped"]) for row in json.loads(done.out)["rows"]] == [("some.jsonl", 2)]
    alone = desk(*judge, none)
    assert (alone.code, "no set could be judged" in alone.err) == (2, True)


def test_rows_are_written_if_the_judge_fails_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second set ends the command with its error and code, and the table holds the row of the first."""

    def reply(request: Request) -> Completion | FatalCallError:
        if any("second" in passage.text for passage in request.passages):
            return FatalCallError("HTTP 401: the key was revoked")
        return Completion(rules.reply_text(request, [rules.Opinion(1, "x") for _ in request.passages]))

    install_providers(monkeypatch, {"mine": Provider(lambda _: FakeBackend(reply))})
    sets = [flag for name in ("first", "second") for flag in ("--sets", labelled(desk.folder / f"{name}.jsonl", 6))]
    done = desk(
        "validate-judge", "-m", "mine/x", "--prompt", "support/binary", *sets, "-o", "t.json", "--cache", "none"
    )
    assert done.code not in (0, None)
    assert "the key was revoked" in done.err
    rows = json.loads((desk.folder / "t.json").read_text(encoding="utf-8"))["rows"]
    assert [row["set"] for row in rows] == ["first.jsonl"]


@pytest.mark.slow
def test_a_judge_stands_beside_a_floor(desk: Desk) -> None:
    """Both commands say first that a judge is no better than chance or the floor, by a paired difference of AUCs."""
    data = FIXTURES / "docs_qa.jsonl"
    done = desk("validate-judge", "-m", "fake/hash", "--prompt", "support/binary", "--sets", data, "-o", "t.json")
    assert done.code == 0, done.err
    chance, floor = done.out.splitlines()[:2]
    assert "the judge is no better than chance as far as the labels show: kappa" in chance
    assert "The judge is no better than the floor as far as these labels show: its AUC 0.49 minus" in floor
    (row,) = json.loads((desk.folder / "t.json").read_text(encoding="utf-8"))["rows"]
    assert row["floor"]["model"] == "fake/overlap-1"
    assert row["floor"]["difference"]["value"] == pytest.approx(row["auc"]["value"] - row["floor"]["floor"]["value"])
    assert row["floor"]["difference"]["interval"][1] < 0
    none = desk("validate-judge", "-m", "fake/hash", "--prompt", "support/binary", "--sets", data, "--floor", "none")
    assert (none.code, "than the floor" in none.out) == (0, False)

    assert desk("run", data, "-m", "fake/biased", "-p", "sensitivity=0.6", "--out", "runs").code == 0
    below = desk("agree", "latest", "--floor", "fake/overlap", "--out", "runs")
    assert "\n\nThe judge is no better than the floor as far as these labels show" in below.out, below
    assert desk("run", data, "-m", "fake/overlap", "--out", "runs").code == 0
    above = desk("agree", "latest", "--floor", "fake/hash", "--out", "runs")
    assert "\nThe judge is better than the floor: its AUC 0.87 minus that of fake/hash-1" in above.out, above
    for model, told in (("decisions/x", "calls a server"), ("local/nothing-here", "no installed package of this name")):
        refused = desk("agree", "latest", "--floor", model, "--out", "runs", OPENAI_API_KEY="sk-x")
        assert (refused.code, told in refused.err) == (2, True), refused


def test_what_the_advice_names_is_there(desk: Desk) -> None:
    """A server whose dialect cannot be guessed is named by the parameter that the error names."""
    shutil.copytree(FIXTURES / "formats/beir", desk.folder / "beir")
    desk.patch.setenv("OPENAI_API_KEY", "sk-x")
    with DecisionServer("vllm") as server:
        asked = ("validate-judge", "-m", "decisions/m", "--base-url", server.url, "--sets", "beir", "--floor", "none")
        refused = desk(*asked)
        assert refused.code == 2
        assert "-p dialect=NAME" in refused.err
        done = desk(*asked, "-p", "dialect=vllm")
    assert "beir: 3 verdicts" in done.err
