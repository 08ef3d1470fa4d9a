"""A key that stands in the user's own data is not shown: not in tables, not in JSON, not by the server."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.server.server_settings import ServerSettings
from tests.support.desk import Desk
from tests.support.serving import serving

KEY = "sk-metadata-Zq8Vt3LmX2pR7wK9bN4cJ6h"
TRACE: dict[str, Any] = {
    "id": "t1",
    "query": "Which?",
    "reference": "Basil.",
    "chunks": [{"id": "c", "text": f"Basil. {KEY}", "metadata": {"headers": f"Bearer {KEY}"}}],
    "metadata": {"invocation": {"api_key": KEY}, "label": "kept"},
    "tags": [f"a {KEY}"],
}


@pytest.fixture
def run(desk: Desk) -> EvalRun:
    """A run whose data hold the key, as traces of some tools do."""
    desk.patch.setenv("OPENAI_API_KEY", KEY)
    (desk.folder / "t.jsonl").write_text(json.dumps(TRACE) + "\n")
    result = desk("run", "t.jsonl", "--model", "fake/overlap", "--cache", "none", "--json")
    assert result.code == 0, result.err
    assert KEY not in result.out + result.err
    return EvalRun.load(next(Path("runs").iterdir()))


COMMANDS = (
    ("show", "latest", "--json"),
    ("show", "latest", "t1"),
    ("show", "latest", "t1", "--json"),
    ("show", "latest", "--worst", "1"),
    ("judge", "t.jsonl", "--model", "fake/overlap", "--json"),
    ("convert", "t.jsonl", "-o", "-"),
    ("runs", "list", "--json"),
)


def test_commands_show_stars(desk: Desk, run: EvalRun) -> None:
    """As many stars as the key has characters, so JSON on standard output stays JSON."""
    for command in COMMANDS:
        result = desk(*command)
        assert result.code == 0, result
        assert KEY not in result.out + result.err
        if "--json" in command:
            json.loads(result.out)
    shown = json.loads(desk(*COMMANDS[2]).out)
    assert shown["trace"]["metadata"] == {"invocation": {"api_key": "*" * len(KEY)}, "label": "kept"}


@pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")
def test_the_server_sends_stars(run: EvalRun) -> None:
    """Replies keep their length: results, pages, rows and one trace."""
    assert run.folder is not None
    with serving(ServerSettings(run.folder.parent)) as url:
        for path in ("", "/summary", "/results", "/rows", "/page", "/trace?trace=t1", "/trace?id=t1"):
            try:
                with urllib.request.urlopen(f"{url}/api/v1/runs/{run.id}{path}") as reply:
                    text = reply.read().decode()
            except urllib.error.HTTPError as error:
                text = error.read().decode()
            json.loads(text)
            assert KEY not in text
        with urllib.request.urlopen(f"{url}/api/v1/runs/{run.id}/results") as reply:
            (result,) = json.loads(reply.read())["results"]
    assert result["trace"]["metadata"]["invocation"] == {"api_key": "*" * len(KEY)}
