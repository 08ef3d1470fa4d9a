"""Batches from the command line, step by step, and the online run that they must equal."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import Result

from judge_eval.delimiters import KEPT_IN
from judge_eval.eval_run import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.application import CliRunner, app, command
from tests.support.batch_server import BatchServer
from tests.support.chat_answers import judge

RUNNER = CliRunner()


def call(*arguments: object, code: int = 0) -> Result:
    """Run the command line and check its exit code."""
    done = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output + repr(done.exception)
    if arguments[0] == "batch":
        check_flags(f"batch {arguments[1]}", done.output)
    return done


_VERB = re.compile(r"(?:judge-eval |`)(batch \w+|run|runs \w+|claims)\b|(?<![\w-])(--[a-z][a-z-]+)")


def flags_of(verb: str) -> set[str]:
    """Return the flags that a verb takes."""
    found = command(verb.split()[0])
    for word in verb.split():
        found = found.commands[word]
    return {flag for parameter in found.params for flag in parameter.opts}


def check_flags(verb: str, told: str) -> None:
    """Check that every flag in messages exists: on the verb that a line names before it, on this one, or on `run`."""
    for line in told.splitlines():
        named = verb
        for word, flag in _VERB.findall(line):
            named = word or named
            assert not flag or flag in flags_of(named) | flags_of("batch export") | flags_of("run"), (
                f"{named} has no {flag}: {line}"
            )


def new_cache(folder: Path) -> Path:
    """Make the folder of a cache that marks fences as all others here do, so that bodies are the same."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (kept := folder / KEPT_IN).exists():
        kept.touch(0o600)
        kept.write_bytes(b"s" * 32)
    return folder


def export(server: BatchServer, data: Path, folder: Path, *more: object, code: int = 0) -> Result:
    """Export the data for the server, with a cache beside the folder."""
    cache = new_cache(folder.parent / f"{folder.name}-cache")
    return call(
        "batch", "export", data, "--out", folder, "--model", "openai/m", "--base-url", server.url,
        "--cache", cache, *more, code=code,
    )  # fmt: skip


def run_online(server: BatchServer, data: Path, out: Path, *more: object, code: int = 0) -> EvalRun:
    """Judge the data online, with a cache of its own."""
    call(
        "run", data, "--model", "openai/m", "--base-url", server.url,
        "--cache", new_cache(out / "cache"),
        "--out", out, "--metrics", "AP@5,NDCG@5", "-q", *more, code=code,
    )  # fmt: skip
    return EvalRun.load(next(run_folders(out))[0])


def newest(out: Path) -> EvalRun:
    """Load the newest run."""
    return EvalRun.load(next(run_folders(out))[0])


def same_results(first: EvalRun, other: EvalRun) -> None:
    """Check that two runs hold the same results and aggregates, but for the server's names of the requests."""
    unnamed = {"calls": {"__all__": {"request_id"}}}
    one, two = ([r.model_dump(exclude=unnamed) for r in run.results] for run in (first, other))
    assert one == two
    assert first.aggregates == other.aggregates


def moody(body: Mapping[str, Any]) -> Any:
    """Reply unreadably to some first questions, and properly to repairs."""
    if len(body["messages"]) == 2 and "Nobody knows 7" in body["messages"][-1]["content"]:
        return "I would say that it is relevant."
    if len(body["messages"]) == 2 and "Thing 3 is red" in body["messages"][-1]["content"]:
        return '{"evidence": "", "reason": "cut'
    return judge(body)
