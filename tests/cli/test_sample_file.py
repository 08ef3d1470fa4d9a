from __future__ import annotations

import csv
import io
import json
import shlex

import pytest

from tests.support.command import FIXTURES
from tests.support.desk import Desk


@pytest.mark.parametrize(("prompt", "scale"), [("binary", "1 relevant, 0 not"), ("graded", "0 (lowest) to 3")])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_file_says_the_scale_and_the_next_command(desk: Desk, prompt: str, scale: str, suffix: str) -> None:
    """Whoever is sent the file knows which labels there are; the command in it is one that works."""
    data = FIXTURES / f"docs_qa{'_graded' if prompt == 'graded' else ''}.jsonl"
    assert desk("run", data, "-m", "fake/overlap", "--prompt", f"support/{prompt}", "-q", "--out", "my runs").code == 0
    result = desk("sample", "latest", "-n", "4", "-o", f"to do.{suffix}", "--out", "my runs")
    assert result.code == 0, result.err
    text = (desk.folder / f"to do.{suffix}").read_text(encoding="utf-8-sig")
    if suffix == "csv":
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert all(row["scale"].startswith(scale) for row in rows)
        (then,) = {row["next"] for row in rows} - {""}
        filled = text.replace(f",,{rows[0]['scale']}", f",1,{rows[0]['scale']}").replace(f',,"{scale}', f',1,"{scale}')
    else:
        told_of = [json.loads(line)["metadata"]["sample"] for line in text.splitlines()]
        assert all(sample["scale"].startswith(scale) for sample in told_of)
        (then,) = {sample["next"] for sample in told_of}
        filled = text.replace('"label": null', '"label": 1')
    assert f"then: {then}\n" in result.err
    (desk.folder / f"to do.{suffix}").write_text(filled, encoding="utf-8")
    done = desk(*shlex.split(then)[1:])
    assert done.code == 0, done.err
    assert "The evidence: 20 chunks of 4 traces with labels from" in done.out
