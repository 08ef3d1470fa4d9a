"""A judge file: everything about who judges, read by the command line, Python and the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import ConfigError
from judge_eval.judge_file import JudgeSpec, MemberSpec, read_judge, to_toml
from judge_eval.llm.options import LOGPROBS, Options
from judge_eval.study.cascade_file import read_cascade
from tests.support.command import FIXTURES
from tests.support.desk import Desk
from tests.support.unsure_server import MODELS, UnsureServer, dataset

ROWS = [
    {"id": "t1", "query": "Which?", "reference": "San Marzano.", "chunks": ["San Marzano tomatoes.", "Basil."]},
    {"id": "t2", "query": "How hot?", "reference": "450 degrees.", "chunks": ["At 450 degrees.", "A stone."]},
]
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pointwise": (
        'model = "fake/overlap"\nprompt = "support/graded"\nrelevant = 1\n',
        ("--model", "fake/overlap", "--prompt", "support/graded", "--relevant", "1"),
    ),
    "listwise": (
        'model = "fake/overlap"\nmode = "listwise"\n',
        ("--model", "fake/overlap", "--mode", "listwise"),
    ),
    "decision": (
        'model = "fake/overlap"\nmode = "decision"\n',
        ("--model", "fake/overlap", "--mode", "decision"),
    ),
    "repeated": (
        'model = "fake/hash"\nrepeat = 3\nvote = "median"\n',
        ("--model", "fake/hash", "--repeat", "3", "--vote", "median"),
    ),
    "panel": (
        'vote = "mean"\n[[member]]\nmodel = "fake/overlap"\n[[member]]\nmodel = "fake/inverted"\n'
        'prompt = "relevance/binary"\n',
        ("--member", "fake/overlap", "--member", "fake/inverted:relevance/binary", "--vote", "mean"),
    ),
    "cascade": (
        'threshold = 0.9\n[cheap]\nmodel = "fake/overlap"\n[strong]\nmodel = "fake/hash"\n',
        ("--cascade", "fake/overlap", "--strong-model", "fake/hash", "--cascade-threshold", "0.9"),
    ),
}  # fmt: skip


def judged(desk: Desk, *flags: object) -> Any:
    """Judge the first trace and return what is printed of it."""
    (desk.folder / "trace.json").write_text(json.dumps(ROWS[0]))
    done = desk("judge", "trace.json", *flags, "--json", "--cache", "none")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_judges_as_the_flags_do(kind: str, desk: Desk) -> None:
    """The file, a table of the configuration, the flags and Python give one run: verdicts, votes, judge."""
    text, flags = KINDS[kind]
    (desk.folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (desk.folder / "j.toml").write_text(text)
    lines = text.replace("[[member]]", "[[judge.mine.member]]")
    lines = lines.replace("[cheap]", "[judge.mine.cheap]").replace("[strong]", "[judge.mine.strong]")
    (desk.folder / "judge_eval.toml").write_text("[judge.mine]\n" + lines)
    runs = []
    for number, who in enumerate((flags, ("--judge", "j.toml"), ("--judge", "mine"))):
        done = desk("run", "data.jsonl", *who, "-q", "--cache", "none", "--out", f"runs{number}", "--json")
        assert done.code == 0, done.err
        (folder,) = (path.parent for path in (desk.folder / f"runs{number}").glob("*/manifest.json"))
        manifest = json.loads((folder / "manifest.json").read_text())
        results = sorted((folder / "results.jsonl").read_text().splitlines())
        outcomes = [json.loads(row)["outcomes"] for row in results if "outcomes" in row]
        runs.append((manifest["judge"], manifest["backend"], manifest["aggregates"], outcomes))
    assert runs[0] == runs[1] == runs[2]
    with Evaluator.from_file("j.toml", cache=False) as evaluator:
        run = evaluator.evaluate("data.jsonl")
    assert json.loads(json.dumps(run.manifest.judge)) == runs[0][0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_is_written_and_read_back(kind: str, tmp_path: Path) -> None:
    """What a spec writes as TOML reads back as the same spec."""
    path = tmp_path / "j.toml"
    path.write_text(KINDS[kind][0])
    spec = read_judge(path)
    path.write_text(to_toml(spec.table()))
    assert read_judge(path) == spec


def test_a_model_is_called_as_its_file_says() -> None:
    """Base URL, parameters and the key's variable reach each model; a member without takes the judge's."""
    table = {
        "params": {"seed": 1},
        "key_env": "ALL_KEY",
        "member": [
            {"model": "openai/a", "base_url": "http://127.0.0.1:1/v1", "key_env": "OWN_KEY"},
            {"model": "openai/b", "params": {"temperature": 1}},
        ],
    }
    options: Options = JudgeSpec.of_table(table, "j.toml").keywords()["options"]
    assert (options.key_env, dict(options.params)) == ("ALL_KEY", {"seed": 1})
    first, second = options.members["openai/a"], options.members["openai/b"]
    assert (first.base_url, first.key_env, dict(first.params)) == (
        "http://127.0.0.1:1/v1", "OWN_KEY", {"seed": 1},
    )  # fmt: skip
    assert (second.key_env, dict(second.params)) == ("ALL_KEY", {"seed": 1, "temperature": 1})


@pytest.mark.parametrize("mode", [None, "decision", "listwise"])
def test_chat_members_of_a_panel_are_asked_for_probabilities(mode: str | None) -> None:
    """`confidence` reaches each chat member and no decision model, whatever mode the panel names."""
    members = (MemberSpec(model="openai/m", mode="pointwise"), MemberSpec(model="decisions/m", mode="decision"))
    options = JudgeSpec(mode=mode, confidence=True, member=members).keywords()["options"]
    params = {model: options.members.get(model, options).params for model in ("openai/m", "decisions/m")}
    assert params == {"openai/m": LOGPROBS, "decisions/m": {}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('modle = "x"', "did you mean 'mode' or 'model'?"),
        ('[cheap]\nmodel = "a/b"\npromt = "x"\n[strong]\nmodel = "a/c"', "cheap: no setting 'promt'"),
        ('model = "a/b"\napi_key = "sk-1"', "a judge file never holds a key"),
        ('model = "a/b"\nkey_env = "sk-12-34"', "key_env must be the name of an environment variable"),
        ('model = "a/b"\n[[member]]\nmodel = "a/c"', "not two"),
        ('[cheap]\nmodel = "a/b"', "both tables"),
        ('model = "a/b"\nrepeat = 0', "repeat"),
    ],
)
def test_a_file_that_cannot_work_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """One message with the file and what is wrong; it never repeats what may be a key."""
    (tmp_path / "j.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"j\.toml") as refused:
        read_judge(tmp_path / "j.toml")
    assert said in str(refused.value)
    assert "sk-" not in str(refused.value)


def test_a_flag_that_contradicts_the_file_is_refused(desk: Desk) -> None:
    """A flag fills in what the file leaves open; the file wins over the environment and the configuration."""
    (desk.folder / "j.toml").write_text('model = "fake/overlap"\nprompt = "support/graded"\n')
    (desk.folder / "trace.json").write_text(json.dumps(ROWS[0]))
    done = desk("judge", "trace.json", "--judge", "j.toml", "--prompt", "support/binary", "--cache", "none")
    assert done.code == 2
    assert "(`--prompt`) support/binary: j.toml says support/graded; leave one of the two out" in done.err
    calls = ("judge", "trace.json", "--judge", "j.toml", "--mode", "listwise", "--json", "--cache", "none")
    done = desk(*calls, JUDGE_EVAL_PROMPT="support/binary", JUDGE_EVAL_MODEL="openai/x")
    assert done.code == 0, done.err


@pytest.mark.parametrize("verb", ["run", "serve"])
def test_a_second_base_url_beside_the_file_s_is_refused(verb: str, desk: Desk) -> None:
    """The file names one server: that the first of two flags names it, too, does not make the second be left out."""
    ours, other = "http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1"
    (desk.folder / "j.toml").write_text(f'model = "openai/m"\nbase_url = "{ours}"\n')
    data = () if verb == "serve" else ("trace.json",)
    (desk.folder / "trace.json").write_text(json.dumps(ROWS[0]))
    for urls in ((ours, other), (other, ours), (other,)):
        flags = [word for url in urls for word in ("--base-url", url)]
        done = desk(verb, *data, "--judge", "j.toml", *flags, "--cache", "none", OPENAI_API_KEY="sk-x")
        assert done.code == 2
        assert f"{', '.join(urls)}: the judge file says {ours}; leave one of the two out" in " ".join(done.err.split())


def test_a_prompt_is_found_beside_the_judge_file(desk: Desk) -> None:
    """`file:PATH` in a judge file starts at the file's folder."""
    there = desk.folder / "there"
    there.mkdir()
    (there / "own.toml").write_bytes((FIXTURES / "prompt_de.toml").read_bytes())
    (there / "j.toml").write_text('model = "fake/overlap"\nprompt = "file:own.toml"\n')
    assert judged(desk, "--judge", "there/j.toml")["outcomes"][0]["grade"] >= 2


def test_doctor_prints_the_judge_as_a_file(desk: Desk) -> None:
    """What `doctor` prints of the judge in force can be saved and used as a judge file."""
    (desk.folder / "j.toml").write_text(KINDS["cascade"][0])
    done = desk("doctor", "--judge", "j.toml")
    assert done.code == 0, done.out + done.err
    assert '[cheap]\n  model = "fake/overlap"' in done.out
    table = json.loads(desk("doctor", "--judge", "j.toml", "--json").out)["judge"]
    (desk.folder / "again.toml").write_text(to_toml(table))
    again, before = (read_judge(desk.folder / name).replace(file="") for name in ("again.toml", "j.toml"))
    assert again == before


@pytest.mark.slow
def test_a_cascade_of_a_judge_file_is_fitted_into_a_judge_file(desk: Desk) -> None:
    """The two judges of a file give the fit of the flags; TOML and JSON hold the same, and both judge."""
    with UnsureServer() as server:
        data = dataset(desk.folder / "traces.jsonl", 60)
        text = '[cheap]\nmodel = "openai/cheap"\n[strong]\nmodel = "openai/strong"\n'
        (desk.folder / "two.toml").write_text(f'base_url = "{server.url}"\n{text}')
        fits = {
            "flags.json": (*MODELS, "--base-url", server.url),
            "fitted.json": ("--judge", "two.toml"),
            "fitted.toml": ("--judge", "two.toml"),
        }
        for output, flags in fits.items():
            fit = desk("cascade", "fit", data, *flags, "--alpha", "0.2", "-o", output, OPENAI_API_KEY="sk-x")
            assert fit.code == 0, fit.err
        assert server.counts["calls"] == 60 * 3 + 60
        by_flags = read_cascade(desk.folder / "flags.json")
        for output in ("fitted.json", "fitted.toml"):
            file = read_cascade(desk.folder / output)
            assert (file.fit, file.cheap, file.strong) == (by_flags.fit, by_flags.cheap, by_flags.strong)
            flags = ("--judge", output, "--out", output[-4:], "-q", "--json")
            done = desk("run", data, *flags, OPENAI_API_KEY="sk-x")
            assert done.code == 0, done.err
            assert json.loads(done.out)["judge"]["guarantee"]["digest"] == file.digest
