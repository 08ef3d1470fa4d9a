from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.forking import ROOT, call

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"


def judge_eval(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder of its own."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("JUDGE_EVAL_", "OPENAI_"))}
    return call([*map(str, arguments)], cwd, keep | {"PYTHONPATH": str(ROOT)}, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ragas.csv"],
        ["deepeval.json"],
        ["langchain.jsonl"],
        ["beir", "--prompt", "relevance/binary", "--metrics", "map_cut_5,ndcg_cut_5"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_from_file_to_table_in_one_command(arguments: list[str], tmp_path: Path) -> None:
    """A ragas, DeepEval or LangChain file and a BEIR folder are judged as they are."""
    done = judge_eval(
        "run", FORMATS / arguments[0], "--model", "fake/overlap", "--cache", "none", *arguments[1:], cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "2 traces, judged by fake/overlap" in done.stdout
    assert "5 verdicts" in done.stdout


def test_a_forced_reading_reaches_the_run(tmp_path: Path) -> None:
    """The flags on reading work in `run`, with and without --dry-run, and from the configuration."""
    rows = [{"q": "q?", "docs": "a|b|c", "gold": "r"}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--map", "query=q", "--map", "chunks=docs", "--map", "reference=gold", "--list-sep", "|", "--depth", "2"]
    base = ["run", "x.jsonl", "--model", "fake/overlap", "--cache", "none"]
    assert "1 trace, 2 chunks" in judge_eval(*base, *flags, "--dry-run", cwd=tmp_path).stdout
    assert "2 verdicts" in judge_eval(*base, *flags, cwd=tmp_path).stdout
    config = 'list_sep = "|"\ndepth = 1\n[map]\nquery = "q"\nchunks = "docs"\nreference = "gold"\n'
    (tmp_path / "judge_eval.toml").write_text(config)
    assert "1 verdict," in judge_eval(*base, cwd=tmp_path).stdout


def test_validate_names_every_fault(tmp_path: Path) -> None:
    """`validate` names file, line and field of each bad record of a foreign file, and exits with 2."""
    rows = 'user_input,retrieved_contexts\nq?,[]\n,[]\nq?,7\n"q\nq",7\n'
    (tmp_path / "x.csv").write_text(rows)
    done = judge_eval("validate", "x.csv", cwd=tmp_path)
    assert done.returncode == 2
    where = [line.split(": ")[:2] for line in done.stdout.splitlines()[:3]]
    assert where == [["x.csv:3", "user_input"], ["x.csv:4", "retrieved_contexts"], ["x.csv:5", "retrieved_contexts"]]


def test_convert_writes_ours(tmp_path: Path) -> None:
    """`convert` turns a foreign file into ours, to a file or to standard output."""
    done = judge_eval("convert", FORMATS / "ragas.csv", "-o", "x.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "2 traces in x.jsonl\n")
    piped = judge_eval("convert", FORMATS / "ragas.csv", cwd=tmp_path)
    assert piped.stdout == (tmp_path / "x.jsonl").read_text()
    assert set(json.loads(piped.stdout.splitlines()[0])) <= {
        "id",
        "query",
        "reference",
        "answer",
        "chunks",
        "relevant_total",
        "metadata",
    }
    refused = judge_eval("convert", FORMATS / "deepeval.csv", "-o", "y.jsonl", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--list-sep" in refused.stderr
    assert not (tmp_path / "y.jsonl").exists()


def test_export_writes_for_other_tools(tmp_path: Path) -> None:
    """A kept run is written for TREC, as a table and as an Inspect log into a folder."""
    run = ["run", FORMATS / "beir", "--prompt", "relevance/binary", "--model", "fake/overlap", "--cache", "none", "-q"]
    assert judge_eval(*run, cwd=tmp_path).returncode == 0
    (tmp_path / "logs").mkdir()
    for target, more in (("x.run", []), ("x.qrels", []), ("x.csv", []), ("logs", ["--format", "inspect"])):
        done = judge_eval("export", "latest", "-o", target, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len((tmp_path / "x.run").read_text().splitlines()) == 5
    assert len(list((tmp_path / "logs").iterdir())) == 1
    wrong = judge_eval("export", "latest", "-o", "x.bin", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "names no format" in wrong.stderr


@pytest.mark.slow
def test_where_records_stand_reaches_the_run(tmp_path: Path) -> None:
    """`--records`, `--group-by` and maps inside chunks work as flags and as settings; remarks are shown."""
    rows = [{"qid": 1, "frage": "q?", "soll": ["r", "s"], "stelle": text} for text in ("a", "b")]
    (tmp_path / "x.json").write_text(json.dumps({"alt": rows[:1], "neu": rows}))
    base = ["run", "x.json", "--model", "fake/overlap", "--cache", "none", "--metrics", "AP@5"]
    maps = ["query=frage", "reference=soll.0", "chunks.text=stelle"]
    flags = [word for pair in maps for word in ("--map", pair)]
    refused = judge_eval(*base, *flags, "--group-by", "qid", cwd=tmp_path)
    assert refused.returncode == 2
    assert '`--records alt`), `records="neu"` (`--records neu`)' in refused.stderr
    result = judge_eval(*base, *flags, "--group-by", "qid", "--records", "neu", cwd=tmp_path)
    assert "2 verdicts" in result.stdout, result.stderr
    config = 'records = "neu"\ngroup_by = "qid"\n[map]\nquery = "frage"\nreference = "soll.0"\n'
    (tmp_path / "judge_eval.toml").write_text(config + '"chunks.text" = "stelle"\n')
    assert "2 verdicts" in judge_eval(*base, cwd=tmp_path).stdout
    same = {"query": "q?", "reference": "r", "chunks": ["a"]}
    (tmp_path / "judge_eval.toml").unlink()
    (tmp_path / "x.json").write_text(json.dumps([same, same]))
    assert "reads like an earlier one" in judge_eval(*base, cwd=tmp_path).stdout
    assert "reads like an earlier one" in judge_eval("validate", "x.json", cwd=tmp_path).stderr
    assert "reads like an earlier one" in judge_eval("convert", "x.json", "-o", "y.jsonl", cwd=tmp_path).stderr


@pytest.mark.slow
def test_several_files_are_written_at_once(tmp_path: Path) -> None:
    """Each format is one file; two of one format are refused before the first call."""
    judge = ("run", FORMATS / "ragas.csv", "--model", "fake/overlap", "--cache", "none", "-q", "--out", "runs")
    refused = judge_eval(*judge, "-o", "a.md", "-o", "b.md", cwd=tmp_path)
    assert refused.returncode == 2
    assert "two files end in .md" in refused.stderr
    assert not (tmp_path / "runs").exists()
    for verb in (judge, ("score", "latest"), ("compare", "latest", "latest")):
        files = ("x.json", "x.md") if verb[0] == "score" else ("x.xml", "x.md", "x.json")
        done = judge_eval(*verb, *(word for name in files for word in ("-o", name)), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [(tmp_path / name).stat().st_size > 0 for name in files] == [True] * len(files)
        for name in files:
            (tmp_path / name).unlink()
