"""One rule says which settings may differ on a resume: those that change no verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from judge_eval.cli.flags.common import KeepingFlags, NumbersFlags
from judge_eval.cli.flags.config import records
from judge_eval.cli.flags.judging import CallingFlags, JudgingFlags, RunningFlags
from judge_eval.compare.options import Gates
from judge_eval.data.options import ReadOptions
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.records import Manifest
from judge_eval.runs.options import Selection
from judge_eval.server.server_settings import ServerLimits, Serving
from judge_eval.settings import settings_of

SERVER = "http://127.0.0.1:9/v1"
"""Nothing listens here: the budget allows no call."""
CHEAP = {"cascade": "openai/cheap", "cascade_threshold": 0.9}
OTHERS: dict[str, tuple[dict[str, Any], Any]] = {
    # judging: what else is set, and another value than what that makes of the setting
    "model": ({}, "openai/other"),
    "prompt": ({}, "relevance/binary"),
    "mode": ({}, "listwise"),
    "member": ({}, ["openai/m", "openai/n"]),
    "judge": ({}, "panel.toml"),
    "repeat": ({}, 3),
    "vote": ({"repeat": 3}, "median"),
    "evidence": ({}, "required"),
    "confidence": ({}, True),
    "blank": ({}, "irrelevant"),
    "relevant": ({"prompt": "support/graded"}, 3),
    "cascade": (CHEAP, "openai/other"),
    "strong_model": (CHEAP, "openai/other"),
    "cascade_threshold": (CHEAP, 0.8),
    # calling
    "base_url": ({}, "http://127.0.0.1:8/v1"),
    "params": ({}, {"seed": 1}),
    "fleet": ({}, ("http://127.0.0.1:8/v1",)),
    "cache": ({}, "cache"),
    **dict.fromkeys(("concurrency", "attempts", "rpm", "tpm"), ({}, 3)),
    "timeout": ({}, 7.0),
    "max_cost": ({"model": "openai/gpt-4.1-mini"}, 7.0),
    **dict.fromkeys(("max_reply", "max_tokens"), ({}, 10**6)),
    "max_calls": ({"max_tokens": 0}, None),
    "warm_prefix": ({}, True),
    "key_command": ({}, ("echo", "sk-y")),
    "key_env": ({}, "OPENAI_API_KEY"),
    "otel": ({}, "on"),
    # data
    "format": ({}, "traces"),
    "map": ({}, {"chunks.text": "id"}),
    "corpus": ({"limit": 1}, Path("corpus.jsonl")),
    "list_sep": ({}, ","),
    "depth": ({}, 1),
    "records": ({}, "cases"),
    "group_by": ({}, "query"),
    "yes_ids": ({}, True),
    "keep_words": ({}, True),
    "limit": ({}, 1),
    "seed": ({"limit": 2}, 3),
    "shard": ({}, (1, 2)),
    "on_invalid": ({}, "skip"),
    "claims": ({}, None),
}
SAME_TRACES = {"format", "corpus", "list_sep", "records", "group_by", "yes_ids", "keep_words", "on_invalid", "claims"}
"""What decides how data are read; a resume compares the digest of the traces that came of it."""
NEGOTIATED = {"unsupported"}
"""What a batch must keep, and a run finds out by itself: a resume may name it later."""
ELSEWHERE = {"offline", "record", "replay"}
"""Where answers come from: an answer says itself which request it is for."""
AFTERWARDS = {
    *(field.name for record in (KeepingFlags, RunningFlags, Gates, Serving, ServerLimits) for field in fields(record)),
    *("metrics", "interval", "cluster", "by", "origin"),
}
"""What names, keeps, drives or scores a run; metrics are compared by name."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out traces, a panel and a cascade."""
    rows = [
        {"id": f"q{n}", "query": f"What is {n}?", "reference": f"It is {n}.",
         "chunks": [{"id": "a", "text": f"Here is {n}."}, {"id": "b", "text": f"There is {n}."}]}
        for n in range(6)
    ]  # fmt: skip
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "panel.toml").write_text('[[member]]\nmodel = "openai/m"\n[[member]]\nmodel = "openai/n"\n')
    cascade = 'threshold = 0.9\n[cheap]\nmodel = "openai/c"\n[strong]\nmodel = "openai/m"\n'
    (tmp_path / "cascade.toml").write_text(cascade)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    return tmp_path


def made_with(values: Mapping[str, Any]) -> Manifest:
    """Begin a run with settings, and return its manifest; no call is allowed."""
    own = {"model": "openai/m", "base_url": SERVER, "cache": "none", "max_calls": 0, **values}

    def taken(record: Any) -> Any:
        return record(**{f.name: own[f.name] for f in fields(record) if f.name in own})

    with taken(JudgingFlags).evaluator(taken(CallingFlags), taken(NumbersFlags), ["AP@2"]) as evaluator:
        selection = Selection(**{f.name: own[f.name] for f in fields(Selection) if f.name in own})
        keywords = selection.keywords() | {"reader": taken(ReadOptions)}
        return evaluator.evaluate("data.jsonl", **keywords).manifest


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", sorted(OTHERS.keys() - SAME_TRACES))
def test_a_resume_refuses_what_changes_verdicts_and_nothing_else(name: str) -> None:
    """Two runs that differ in one setting are the same run exactly if the setting changes no verdict."""
    beside, other = OTHERS[name]
    (setting,) = {s.changes_verdict for r in records() for n, s in settings_of(r).items() if n == name}
    first, second = made_with(beside), made_with({**beside, name: other})
    assert (differences(first, second) != "") is setting


def test_every_setting_is_in_a_list() -> None:
    """A new setting says here whether a resume may differ in it."""
    every = {name for record in records() for name in settings_of(record)}
    assert every == OTHERS.keys() | ELSEWHERE | NEGOTIATED | (AFTERWARDS & every)
    assert all(is_dataclass(record) for record in records())
    changing = {n for r in records() for n, s in settings_of(r).items() if s.changes_verdict}
    assert changing >= SAME_TRACES
    assert not changing & (ELSEWHERE | AFTERWARDS - {"relevant"})
