"""A manifest that says odd things of its judge is shown all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval.eval_run import EvalRun
from judge_eval.export.text import as_markdown
from judge_eval.runs.folder.journal import with_digests
from judge_eval.runs.folder.records import Manifest
from judge_eval.views.run import described_by
from tests.support.command import Shell
from tests.support.reports import run_report
from tests.support.serving import judge, rows


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("judge", {"prompt": {}}),
        ("judge", {"prompt": {"id": None}}),
        ("judge", {"prompt": []}),
        ("judge", {"members": {}}),
        ("judge", {}),
        ("backend", {}),
    ],
)
def test_a_run_is_shown_whatever_its_judge_was(tmp_path: Path, part: str, value: Any) -> None:
    """An uploaded run with a prompt that is `{}`, or with no judge at all, is shown, listed and reported."""
    run = judge(rows()[:2], tmp_path / "runs")
    assert run.folder is not None
    path = run.folder / "manifest.json"
    manifest = Manifest.from_json(path.read_bytes()).replace(**{part: value})
    path.write_text(with_digests(manifest, manifest.results_digest).model_dump_json())
    odd = EvalRun.load(run.folder)
    assert "2 traces" in described_by(odd.manifest)
    assert "2 traces" in as_markdown(odd)
    assert "2 traces" in odd._repr_html_()
    assert run_report(odd)
    if value == {"prompt": {}}:
        shell = Shell(tmp_path)
        for words in (("show", "latest"), ("runs", "list"), ("report", "latest"), ("score", "latest")):
            done = shell(*words)
            assert done.code == 0, done.err
