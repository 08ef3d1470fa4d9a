"""A password in the place of a path or an address is neither printed nor made into a folder's name."""

from __future__ import annotations

import json

import pytest
from typer.main import get_command

from judge_eval.cli.verbs import GROUPS, VERBS, make_app
from judge_eval.errors import ConfigError, JudgeEvalError
from judge_eval.llm.stack import open_store
from judge_eval.server.rest_client import Client
from tests.support.desk import Desk

PASSWORD = "hunter2-geheim"
ADDRESSES = (
    f"https://user:{PASSWORD}@host.invalid/x.toml",
    f" https://user:{PASSWORD}@host.invalid/x.toml",
    f"s3://user:{PASSWORD}@bucket/runs",
    f"https:/user:{PASSWORD}@host.invalid/x.toml",
    f"https://{PASSWORD}@host.invalid/x.toml",
)
CACHES = (
    f" postgresql://user:{PASSWORD}@127.0.0.1:1/x",
    f"host=127.0.0.1 port=1 password={PASSWORD}",
    f"password = {PASSWORD} dbname=x",
    f"\tpostgresql://user:{PASSWORD}@127.0.0.1:1/x\n",
)


def path_flags() -> list[tuple[str, ...]]:
    """List each verb with each of its options that takes a text or a path."""
    collected = []
    commands = get_command(make_app()).commands  # type: ignore[attr-defined]
    for name in (*VERBS, *GROUPS):
        inner = getattr(commands[name], "commands", None)
        for words, command in (
            [((name, sub), each) for sub, each in inner.items()] if inner else [((name,), commands[name])]
        ):
            for param in command.params:
                kind = str(getattr(command.callback, "__annotations__", {}).get(param.name or ""))
                long = [word for word in getattr(param, "opts", ()) if word.startswith("--")]
                if long and ("Path" in kind or long[0] in ("--judge", "--corpus", "--claims")):
                    collected.append((*words, long[0]))
    return collected


@pytest.mark.parametrize("words", path_flags(), ids=" ".join)
def test_no_flag_prints_a_password(words: tuple[str, ...], desk: Desk) -> None:
    """Every option that takes a path, given an address: the message, if any, is without the password."""
    *verb, flag = words
    arguments = {"batch": ["b"], "runs": ["latest"], "run": ["t.jsonl"], "report": ["latest"]}.get(verb[0], ["x"])
    result = desk(*verb, *arguments, flag, ADDRESSES[0])
    assert result.code != 70, result.err
    assert PASSWORD not in result.out + result.err
    assert not [path for path in desk.folder.rglob("*") if PASSWORD in str(path)]


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("flag", ["--out", "--replay", "--labels", "--judge", "--claims", "DATA"])
def test_every_spelling_of_an_address(flag: str, address: str, desk: Desk) -> None:
    """With a blank, one slash or a token alone: the same."""
    (desk.folder / "t.jsonl").write_text(
        json.dumps({"id": "t", "query": "q", "reference": "r", "chunks": ["c"]}) + "\n"
    )
    verb = ("agree", "latest") if flag == "--labels" else ("run", "t.jsonl", "--model", "fake/overlap")
    result = desk("validate", address) if flag == "DATA" else desk(*verb, flag, address)
    assert result.code in (2, 3), result.err
    assert PASSWORD not in result.out + result.err
    assert not [path for path in desk.folder.rglob("*") if PASSWORD in str(path)]


def test_a_blank_before_the_address_of_runs_is_named(desk: Desk) -> None:
    """The folder of runs as a URL with a blank: the message says what to mend."""
    result = desk("run", "t.jsonl", "--model", "fake/overlap", "--out", " s3://bucket/runs")
    assert result.code == 2
    assert "--out: the address has a blank before or after it" in result.err


@pytest.mark.parametrize("cache", CACHES)
def test_the_address_of_a_cache_makes_no_folder(cache: str, desk: Desk) -> None:
    """A blank before the URL, or the driver's own form, is refused by name without a word of it."""
    reason = "a blank before or after" if "://" in cache else "connection string"
    (desk.folder / "t.jsonl").write_text(
        json.dumps({"id": "t", "query": "q", "reference": "r", "chunks": ["c"]}) + "\n"
    )
    for line in (
        desk("run", "t.jsonl", "--model", "fake/overlap", "--cache", cache),
        desk("cache", "path", "--cache", cache),
        desk("run", "t.jsonl", "--model", "fake/overlap", JUDGE_EVAL_CACHE=cache),
    ):
        assert line.code == 2, line.out + line.err
        assert PASSWORD not in line.out + line.err
        assert reason in line.err
    with pytest.raises(ConfigError, match=reason) as raised:
        open_store(cache)
    assert PASSWORD not in str(raised.value)
    assert not [path for path in desk.folder.rglob("*") if PASSWORD in str(path)]


@pytest.mark.parametrize("address", [*ADDRESSES[:1], f"ftp://user:{PASSWORD}@host/", f"https://u:{PASSWORD}@h:x/"])
def test_a_client_shows_no_password(address: str) -> None:
    """Neither its own errors nor those of the connection quote what stands before the host."""
    with pytest.raises(JudgeEvalError) as raised:
        Client(address).runs()
    assert PASSWORD not in str(raised.value)
