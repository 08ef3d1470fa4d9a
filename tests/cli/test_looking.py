from __future__ import annotations

import json

import pytest

from judge_eval.prompts import load_form
from tests.support.command import FIXTURES
from tests.support.desk import Desk

FAKE = ("--model", "fake/overlap", "-q")
DATA = FIXTURES / "docs_qa.jsonl"


def listed(desk: Desk, *arguments: str) -> list[list[str]]:
    """Return the rows of traces that `show` prints, in cells."""
    result = desk("show", "latest", *arguments)
    assert result.code == 0, result.err
    table = result.out.split("\ntrace ", 1)[1].splitlines()[1:]
    return [line.replace("(nothing retrieved)", "-").split() for line in table if line.startswith("docs-")]


def test_the_worst_traces_come_first_and_no_others(desk: Desk) -> None:
    """`--worst 3` lists the three lowest of the first metric, the lowest first, and says how many more."""
    assert desk("run", DATA, *FAKE, "-k", "AP@5,P@5,MRR,NDCG@5").code == 0
    every = [float(row[2]) for row in listed(desk)]
    worst = [float(row[2]) for row in listed(desk, "--worst", "3")]
    assert worst == sorted(every)[:3]
    assert f"... and {len(every) - 3} more" in desk("show", "latest", "--worst", "3").out
    by_precision = [float(row[3]) for row in listed(desk, "--worst", "5", "--sort", "P@5")]
    assert by_precision == sorted(by_precision)


@pytest.mark.slow
def test_traces_are_sorted_both_ways_and_limited(desk: Desk) -> None:
    """`--sort` takes a metric or `trace`, with `-` the highest first; `--limit` cuts; JSON has the same."""
    assert desk("run", DATA, *FAKE).code == 0
    highest = [float(row[2]) for row in listed(desk, "--sort", "-AP@5", "--limit", "4")]
    assert (len(highest), highest) == (4, sorted(highest, reverse=True))
    names = [row[0] for row in listed(desk, "--sort", "-trace")]
    assert names == sorted(names, reverse=True)
    document = json.loads(desk("show", "latest", "--sort", "-trace", "--limit", "2", "--json").out)
    assert [result["trace_id"] for result in document] == names[:2]
    assert [row[0] for row in listed(desk)] == [json.loads(line)["id"] for line in DATA.read_text().splitlines()]


def test_traces_without_a_value_come_last_and_are_told(desk: Desk) -> None:
    """A failed verdict is no low score: its trace is listed after those with a value."""
    lines = [json.loads(line) for line in DATA.read_text().splitlines()[:4]]
    (desk.folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (desk.folder / "v.jsonl").write_text(
        "".join(
            json.dumps({"trace_id": line["id"], "chunk_id": chunk["id"], "grade": chunk["label"]}) + "\n"
            for line in lines[1:]
            for chunk in line["chunks"]
        )
    )
    assert desk("runs", "import", "v.jsonl", "--data", "d.jsonl", "--max-failures", "99").code == 0
    rows = listed(desk, "--worst", "4")
    assert rows[-1][0] == lines[0]["id"]
    assert rows[-1][2] == "none"
    assert "1 have no AP@5, since verdicts failed: they come last" in desk("show", "latest", "--worst", "2").out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--sort", "P@1"), "this run has no P@1 to sort by; "),
        (("--sort", "APP"), "did you mean"),
        (("--worst", "0"), "--worst 0: write a whole number from 1"),
        (("--worst", "2", "--limit", "2"), "leave out --limit"),
    ],
)
def test_what_cannot_be_sorted_by_is_said(desk: Desk, arguments: tuple[str, ...], told: str) -> None:
    """A metric the run does not have, and numbers that contradict each other, end with advice."""
    assert desk("run", DATA, *FAKE, "--limit", "2").code == 0
    done = desk("show", "latest", *arguments)
    assert (done.code, told in done.err) == (2, True), done.err


def test_the_digest_of_a_prompt_is_the_one_in_the_manifest(desk: Desk) -> None:
    """`prompts list`, `show` and `check` print the digest that a run by the prompt has in its manifest."""
    assert desk("run", DATA, *FAKE, "--limit", "2", "--prompt", "support/graded").code == 0
    digest = json.loads(desk("show", "latest", "--json").out)["judge"]["prompt"]["digest"]
    (row,) = [line for line in desk("prompts", "list").out.splitlines() if line.startswith("support/graded@2")]
    assert row.split()[-1] == digest[:12]
    assert f"digest {digest}" in desk("prompts", "show", "support/graded").out
    own = load_form("support/graded").prompt.model_dump(mode="json", exclude={"evidence", "needs"})
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
    (desk.folder / "own.toml").write_text(text + 'needs = ["reference"]\n')
    assert f"digest {digest}" in desk("prompts", "check", "file:own.toml").out


def test_doctor_and_cache_info_as_json(desk: Desk) -> None:
    """Both print one JSON document with what their tables show, and nothing else."""
    document = json.loads(desk("doctor", "--json", "--model", "fake/overlap", JUDGE_EVAL_OUT="kept").out)
    values = {setting["name"]: (setting["value"], setting["source"]) for setting in document["settings"]}
    assert values["model"] == ("fake/overlap", "flag")
    assert values["out"] == ("kept", "environment")
    assert values["base_url"] == (None, "default")
    assert (document["usable"], document["problems"]) == (True, [])
    assert document["packages"]["diskcache"] == "5.6.3"
    failed = desk("doctor", "--json", "--model", "fake/overlp")
    assert failed.code == 2
    assert "did you mean" in json.loads(failed.out)["problems"][0]
    empty = json.loads(desk("cache", "info", "--json").out)
    assert (empty["entries"], empty["path"]) == (0, str(desk.folder / "xdg" / "judge_eval"))
    assert desk("run", DATA, *FAKE, "--limit", "1").code == 0
    assert json.loads(desk("cache", "info", "--json").out)["entries"] == 5


def test_an_inspect_log_makes_its_folder(desk: Desk) -> None:
    """`-o logs/` makes the folder and a file in it that `inspect view` finds; a `.json` is that file."""
    assert desk("run", DATA, *FAKE, "--limit", "2").code == 0
    result = desk("export", "latest", "--format", "inspect", "-o", "new/logs/")
    assert result.code == 0, result.err
    (file,) = (desk.folder / "new" / "logs").iterdir()
    assert json.loads(file.read_text())["version"] == 2
    assert f"as inspect in new/logs/{file.name}" in result.out
    assert "inspect view --log-dir new/logs" in result.out
    assert desk("export", "latest", "--format", "inspect", "-o", "one.json").code == 0
    assert (desk.folder / "one.json").is_file()
    (desk.folder / "taken").write_text("")
    assert "cannot write taken" in desk("export", "latest", "--format", "inspect", "-o", "taken").err


TRACE = {"id": "t", "query": "When?", "reference": "At nine.", "chunks": [{"id": "a", "text": "At nine."}]}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("listed_", [False, True])
def test_a_trace_is_judged_from_a_file_and_from_standard_input(desk: Desk, indent: int | None, listed_: bool) -> None:
    """A trace as one line, as indented JSON or as a list of one is read; `-` reads standard input."""
    text = json.dumps([TRACE] if listed_ else TRACE, indent=indent)
    (desk.folder / "one.json").write_text("\ufeff" + text, encoding="utf-8")
    by_file = desk("judge", "one.json", "--model", "fake/overlap", "--json")
    by_pipe = desk("judge", "-", "--model", "fake/overlap", "--json", stdin=text)
    assert by_file.code == 0, by_file.err
    outcomes = [json.loads(line.out)["outcomes"] for line in (by_file, by_pipe)]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (("-",), "", "standard input: it is empty"),
        (("-",), json.dumps(TRACE) + "\n" + json.dumps(TRACE), "`judge-eval run` judges them all"),
        (("-",), json.dumps([TRACE, TRACE]), "`judge-eval run` judges them all"),
        (("-",), "{", "standard input: not JSON"),
        (("gone.json",), "", "gone.json: cannot be read: No such file"),
        (("-", "--query", "q"), "{}", "give the trace once"),
        ((), "", "give a FILE with a trace"),
    ],
)
def test_what_is_no_trace_to_judge_is_said(desk: Desk, arguments: tuple[str, ...], stdin: str, told: str) -> None:
    """Nothing, several traces or no JSON: one message that says what to do, and no traceback."""
    done = desk("judge", *arguments, "--model", "fake/overlap", stdin=stdin)
    assert (done.code, told in done.err) == (2, True), done.err


@pytest.mark.slow
def test_a_large_run_is_not_listed_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `--limit` a limited number of traces is listed, and the rest is counted; JSON has all."""
    monkeypatch.setattr("judge_eval.cli.show.LISTED", 3)
    assert desk("run", DATA, *FAKE).code == 0
    every = json.loads(desk("show", "latest", "--sort", "trace", "--json").out)
    shown = desk("show", "latest").out
    assert f"... and {len(every) - 3} more" in shown
    assert "... and" not in desk("show", "latest", "--limit", str(len(every))).out


def test_doctor_names_the_key_that_is_missing(desk: Desk) -> None:
    """The key of the model in force is listed, and without it nothing works: the exit code says so."""
    result = desk("doctor", "--model", "anthropic/m", "--json", ANTHROPIC_API_KEY="")
    document = json.loads(result.out)
    assert result.code == 2
    assert ["ANTHROPIC_API_KEY", "not set"] in [[row["name"], row["value"]] for row in document["settings"]]
    assert document["problems"] == [
        "no key: set the environment variable ANTHROPIC_API_KEY to the key for https://api.anthropic.com/v1"
    ]
    assert document["judge"]["model"] == "anthropic/m"
    assert desk("doctor", "--model", "anthropic/m", ANTHROPIC_API_KEY="sk-test-1").code == 0
    assert desk("doctor", "--model", "ollama/m").code == 0
    assert desk("doctor", "--model", "openai/m", JUDGE_EVAL_KEY_COMMAND="false").code == 0  # it is not run
