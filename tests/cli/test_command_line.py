import json
import subprocess
import sys
from pathlib import Path

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.llm.backend import Identity
from judge_eval.llm.fake import fake_backend as fake
from tests.support.command import FIXTURES, Shell, stable
from tests.support.golden import check_golden
from tests.support.runs import traces

FAKE = ("--model", "fake/overlap")
PIZZA = FIXTURES / "pizza.jsonl"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with the pizza case in it."""
    (tmp_path / "pizza.jsonl").write_bytes(PIZZA.read_bytes())
    return Shell(tmp_path)


def only_run(shell: Shell) -> Path:
    """Return the folder of the one run there is."""
    (folder,) = (shell.folder / "runs").iterdir()
    return folder


@pytest.mark.slow
def test_run_show_score_and_list(shell: Shell) -> None:
    """The main road from a file to a table of metrics reads as agreed, and every step finds the run."""
    result = shell("run", "pizza.jsonl", *FAKE, "--label", "main", "--tag", "prod", "-o", "out.md")
    assert (result.code, result.err) == (0, "")
    check_golden("cli/run.txt", stable(result.out, shell.folder))
    assert "\n## judge_eval: main\n" in (shell.folder / "out.md").read_text()
    trace = EvalRun.load(only_run(shell)).results[0].trace_id
    for name, arguments in {
        "show": ("show", "latest"),
        "show_trace": ("show", "label:main", trace),
        "score": ("score", "latest", "-k", "P@1,NDCG(gain=exp)@3"),
        "runs_list": ("runs", "list", "--tag", "prod"),
    }.items():
        result = shell(*arguments)
        assert result.code == 0, result.err
        check_golden(f"cli/{name}.txt", stable(result.out, shell.folder))
    assert "no runs in runs with this label or tag" in shell("runs", "list", "--tag", "absent").out
    again = shell("run", "pizza.jsonl", *FAKE)
    assert "4 verdicts, 0 calls, 4 from the cache" in again.out


def test_judge_shows_every_verdict(shell: Shell) -> None:
    """One trace from the command line shows verdict, reason and the quote marked in its chunk."""
    result = shell(
        "judge", *FAKE, "--query", "Which tomatoes?", "--reference", "San Marzano tomatoes from Naples.",
        "-c", "The oven is hot.", "-c", "The sauce is made of San Marzano tomatoes from Naples.", "-c", "",
    )  # fmt: skip
    assert result.code == 0, result.err
    check_golden("cli/judge.txt", stable(result.out, shell.folder))
    (shell.folder / "one.json").write_text(traces(1)[0].model_dump_json())
    result = shell("judge", "one.json", *FAKE, "--json")
    assert json.loads(result.out)["trace_id"] == "q0"
    assert shell("judge", *FAKE).code == 2


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("prompts_list", ("prompts", "list")),
        ("prompts_show", ("prompts", "show", "support/binary")),
        ("prompts_check", ("prompts", "check")),
    ],
)
def test_what_needs_no_run(shell: Shell, name: str, arguments: tuple[str, ...]) -> None:
    """The prompts read as agreed."""
    result = shell(*arguments)
    assert result.code == 0, result.err
    check_golden(f"cli/{name}.txt", stable(result.out, shell.folder))


def test_help_names_every_verb(shell: Shell) -> None:
    """Every verb has its line of help, and no arguments at all show the same."""
    result = shell("--help")
    verbs = ("run", "judge", "score", "show", "validate", "doctor", "runs", "prompts", "cache")
    assert all(f" {verb} " in result.out for verb in verbs)
    assert shell().code in (0, 2)
    assert shell("--version").out.startswith("judge-eval ")


def test_validate(shell: Shell) -> None:
    """Every error is printed with file, line and field; the exit code says whether there was one."""
    assert shell("validate", "pizza.jsonl").code == 0
    (shell.folder / "bad.jsonl").write_text(
        '{"query": "q", "chunks": ["a"]}\nnot JSON\n{"query": "q", "chunks": [{"id": "x", "text": 3}]}\n[]\n'
        '{"query": "q", "chunks": [{"text": "a", "score": Infinity}]}\n'
    )
    result = shell("validate", "bad.jsonl", "--prompt", "support/binary")
    assert result.code == 2
    check_golden("cli/validate.txt", result.out)
    piped = shell("validate", "-", stdin="{bad\n" + PIZZA.read_text())
    assert piped.out.startswith("standard input:1: not JSON")
    assert "1 valid traces" in piped.out
    assert "... and 3 more" in shell("validate", "bad.jsonl", "--most", "1").out


@pytest.mark.slow
def test_the_cache_is_told_and_cleared(shell: Shell) -> None:
    """Path, size and clearing of the cache."""
    assert shell("cache", "path").out.strip() == str(shell.folder / "cache")
    assert "empty" in shell("cache", "info").out
    shell("run", "pizza.jsonl", *FAKE)
    assert "4 replies" in shell("cache", "info").out
    assert shell("cache", "clear", stdin="n\n").code == 130
    assert "4 replies" in shell("cache", "info").out
    assert "cleared" in shell("cache", "clear", "--yes").out
    assert " 0 replies" in shell("cache", "info").out


def test_a_refusing_server_is_told(shell: Shell) -> None:
    """Where nobody listens the message names the address, and no key."""
    done = shell(
        "run", "pizza.jsonl", "--model", "openai/x", "--base-url", "http://127.0.0.1:9", "--attempts", "1",
        OPENAI_API_KEY="sk-secret",
    )  # fmt: skip
    assert done.code == 2
    assert "http://127.0.0.1:9" in done.err
    assert "Traceback" not in done.err
    written = b"".join(path.read_bytes() for path in shell.folder.rglob("*") if path.is_file())
    assert b"sk-secret" not in written + (done.out + done.err).encode()


def test_a_trace_that_is_not_there(shell: Shell) -> None:
    """A typo in a trace's id is advised."""
    trace = json.loads(PIZZA.read_text().splitlines()[0])["id"]
    shell("run", "pizza.jsonl", *FAKE)
    done = shell("show", "latest", trace + "x")
    assert done.code == 2
    assert f"did you mean '{trace}'" in done.err


def test_skipping_invalid_records(shell: Shell) -> None:
    """`--on-invalid skip` judges the rest and says how many were left out."""
    bad = '{"query": "q", "chunks": ["a"]}\n{bad\n'
    (shell.folder / "mixed.jsonl").write_text(bad + PIZZA.read_text())
    done = shell("run", "mixed.jsonl", *FAKE, "--on-invalid", "skip")
    assert done.code == 0, done.err
    assert "mixed.jsonl: 1 trace," in done.out
    assert "2 invalid records were skipped" in done.out


def test_standard_input_and_dry_run(shell: Shell) -> None:
    """`-` reads standard input; a dry run asks nobody and writes no run."""
    done = shell("run", "-", *FAKE, "--dry-run", stdin=PIZZA.read_text())
    assert done.code == 0, done.err
    check_golden("cli/dry_run.txt", done.out)
    assert not (shell.folder / "runs").exists()
    done = shell("run", "-", *FAKE, stdin=PIZZA.read_text())
    assert done.out.startswith("standard input: 1 trace,")


@pytest.mark.slow
def test_json_output_parses(shell: Shell) -> None:
    """With --json standard output is one JSON document and nothing else."""
    run = json.loads(shell("run", "pizza.jsonl", *FAKE, "--json").out)
    assert run["tally"]["verdicts"] == 4
    trace = EvalRun.load(only_run(shell)).results[0].trace_id
    assert json.loads(shell("show", "latest", "--json").out)["id"] == run["id"]
    assert json.loads(shell("show", "latest", trace, "--json").out)["trace_id"] == trace
    assert json.loads(shell("score", run["id"][:6], "-k", "P@1", "--json").out)["metrics"] == ["P@1"]
    assert [match["id"] for match in json.loads(shell("runs", "list", "--json").out)] == [run["id"]]
    for suffix in ("json", "csv", "md"):
        assert shell("score", "latest", "-o", f"out.{suffix}").code == 0
        assert (shell.folder / f"out.{suffix}").stat().st_size > 100


def test_settings_have_ranks(shell: Shell) -> None:
    """A flag goes before the environment, that before the file; `doctor` names each source."""
    (shell.folder / "judge_eval.toml").write_text(
        'model = "fake/never"\nmetrics = "P@1,P@2"\nout = "from-file"\ntags = ["t1"]\n[param]\nlatency = 0\n'
    )
    done = shell("doctor", "--out", "from-flag", JUDGE_EVAL_MODEL="fake/overlap", OPENAI_API_KEY="sk-secret")
    assert done.code == 0, done.out + done.err
    rows = {line.split("  ")[0].strip(): line for line in done.out.splitlines()}
    assert rows["model"].split() == ["model", "fake/overlap", "environment"]
    assert rows["out"].split() == ["out", "from-flag", "flag"]
    assert "P@1,P@2" in rows["metrics"]
    assert "judge_eval.toml" in rows["metrics"]
    assert rows["mode"].split() == ["mode", "(none)", "default"]
    assert "sk-secret" not in done.out
    run = json.loads(shell("run", "pizza.jsonl", "--json").out)
    assert (run["backend"]["model"], run["metrics"], run["tags"]) == ("never-1", ["P@1", "P@2"], ["t1"])
    assert (shell.folder / "from-file").is_dir()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("judge_eval.toml", 'modle = "x"', "no setting 'modle'; did you mean"),
        ("judge_eval.toml", "model = ", "not TOML"),
        ("pyproject.toml", "[tool]\njudge_eval = 3", "is not a table"),
        ("pyproject.toml", "[tool.judge_eval]\nmetrcs = []", "did you mean 'metrics'"),
    ],
)
def test_a_wrong_configuration_is_told(shell: Shell, name: str, text: str, told: str) -> None:
    """A typo in a configuration file names file and key."""
    (shell.folder / name).write_text(text)
    done = shell("run", "pizza.jsonl", *FAKE)
    assert done.code == 2
    assert told in done.err
    assert name in done.err
    assert "Traceback" not in done.err


def test_doctor_tells_what_cannot_be_used(shell: Shell) -> None:
    """Each unusable setting is named with its reason."""
    (shell.folder / "file").write_text("")
    done = shell("doctor", "--model", "fake/overlp", "-k", "APP@5", "--out", "file", "--prompt", "x")
    assert done.code == 2
    assert done.out.count("problem: ") == 4


def test_a_reader_that_leaves_is_no_error(shell: Shell) -> None:
    """`judge-eval prompts show | head -1` ends without a traceback."""
    line = [sys.executable, "-m", "judge_eval", "prompts", "show", "support/binary"]
    done = subprocess.run(
        f"{subprocess.list2cmdline(line)} | head -1",
        shell=True,
        cwd=shell.folder,
        env=shell.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("support/binary@2")
    assert done.stderr == ""


def test_the_fake_has_an_identity() -> None:
    """The latency of the fake judge is no part of who answers, so a resumed run may do without it."""
    slow, fast = fake.create("overlap", latency=0.05), fake.create("overlap")
    assert isinstance(slow.identity, Identity)
    assert slow.identity == fast.identity


@pytest.mark.parametrize("secret", ["pa/ss", "pa?ss", "pa#ss"])
def test_doctor_shows_no_part_of_a_password(shell: Shell, secret: str) -> None:
    """A password with signs that a URL should escape is hidden whole, wherever it would be shown."""
    done = shell("doctor", JUDGE_EVAL_CACHE=f"postgresql://me:{secret}@127.0.0.1:1/db")
    assert secret not in done.out + done.err
    assert "me:" not in done.out + done.err


def test_a_wrong_flag_is_not_blamed_on_the_configuration(shell: Shell) -> None:
    """Only a setting of the file that is in force is named, though a flag's value may hold the same word."""
    (shell.folder / "judge_eval.toml").write_text('metrics = ["AP@5"]\nfail_under = {"AP@5" = 2}\n')
    told = shell("run", PIZZA, *FAKE, "--fail-under", "AP@5")
    assert (told.code, "toml" in told.err) == (2, False), told.err
    assert "judge_eval.toml sets fail_under" in shell("run", PIZZA, *FAKE).err
