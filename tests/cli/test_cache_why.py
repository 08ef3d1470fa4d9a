"""`cache why`: which part of a question's key differs from the nearest stored answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import CliRunner, app
from tests.support.chat_server import ChatServer

TRACE = {
    "id": "q1",
    "query": "When does the office open?",
    "reference": "At nine.",
    "chunks": [{"id": "a", "text": "We open at nine.", "title": "Hours"}, {"id": "b", "text": "Parking is free."}],
}


@pytest.fixture
def desk(tmp_path: Path) -> Any:
    """Return what judges a trace in one folder, and what asks why."""

    def judge(trace: dict[str, Any], *more: str) -> None:
        data = tmp_path / "traces.jsonl"
        data.write_text(json.dumps(trace) + "\n")
        flags = ["--out", str(tmp_path / "runs"), "--cache", str(tmp_path / "cache"), "-q"]
        shown = CliRunner().invoke(app, ["run", str(data), "--model", "fake/overlap", *flags, *more])
        assert shown.exit_code == 0, shown.output

    def why(*more: str, code: int = 0) -> Any:
        flags = ["--out", str(tmp_path / "runs"), "--cache", str(tmp_path / "cache")]
        shown = CliRunner().invoke(app, ["cache", "why", *more, *flags])
        assert shown.exit_code == code, shown.output
        return shown

    judge(TRACE)
    return judge, why


def changed(**fields: Any) -> dict[str, Any]:
    """Return the trace with other fields; `text` and `title` are those of the first chunk."""
    first = {**TRACE["chunks"][0], **{name: fields.pop(name) for name in ("text", "title") if name in fields}}  # type: ignore[dict-item]
    return {**TRACE, **fields, "chunks": [first, TRACE["chunks"][1]]}


@pytest.mark.parametrize(
    ("trace", "flags", "part"),
    [
        (changed(text="We open  at nine."), (), "text: from character 9 on, 'We open at nine.' there"),
        (changed(title="Opening hours"), (), "title: from character 1 on, 'Hours' there"),
        (changed(title=None), (), "title: one there, none here"),
        (changed(reference="At ten."), (), "reference: from character 4 on"),
        (changed(history=["Hello.", "Hello, how can I help?"]), (), "history: none there, one here"),
        (TRACE, ("--prompt", "support/graded"), "prompt: support/binary@2 there, support/graded@2 here"),
    ],
)
def test_the_part_that_differs_is_named(desk: Any, trace: dict[str, Any], flags: tuple[str, ...], part: str) -> None:
    """A chunk that was asked about again names exactly the one part of the key that changed."""
    judge, why = desk
    judge(trace, *flags)
    (result,) = json.loads(why("q1", "a", "--json").stdout)
    assert result["nearest"]["stored"] is True
    (difference,) = result["differences"]
    assert difference.startswith(part)
    assert difference in why("q1", "a").stdout


def test_model_server_and_parameters_are_named(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a real server its address, the model and each parameter sent are parts of the key."""
    judge, why = desk
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ChatServer() as first, ChatServer() as second:
        single, warm = ("--base-url", first.url), ("--param", "temperature=1")
        for more, part in (
            (("--model", "openai/x", *single), "provider: "),
            (("--model", "openai/y", *single), "model: x there, y here"),
            (("--model", "openai/y", *single, *warm), "parameter temperature: "),
            (("--model", "openai/y", "--base-url", second.url, *warm), f"server: {first.url} there"),
        ):
            judge(TRACE, *more)
            (result,) = json.loads(why("q1", "a", "--json").stdout)
            assert result["differences"][0].startswith(part)
            assert part.startswith("provider") or len(result["differences"]) == 1


def test_the_same_question_and_one_that_nobody_asked(desk: Any) -> None:
    """An unchanged chunk has the same key; a new one has no nearest answer; an unknown trace is an error."""
    judge, why = desk
    judge({**TRACE, "chunks": [TRACE["chunks"][1], {"id": "new", "text": "Dogs are welcome."}]})
    same, new = json.loads(why("q1", "--json").stdout)
    assert (same["chunk_id"], same["differences"]) == ("b", [])
    assert new["nearest"] is None
    assert "no trace 'q9'" in why("q9", code=2).stderr
