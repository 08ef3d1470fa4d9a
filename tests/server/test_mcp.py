"""The tools for agents, called by the protocol's own client in a process of their own or over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from judge_eval.eval_run import EvalRun
from judge_eval.evaluator import Evaluator
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.server.server_settings import ServerLimits, ServerSettings
from tests.support.chat_server import ChatServer
from tests.support.runs import traces
from tests.support.serving import FIXTURES, ask, serving

pytestmark = pytest.mark.foreign
TOKEN = "a-long-enough-token-1"


def over_stdio(folder: Path, *flags: str, **env: str) -> StdioServerParameters:
    """Return how the tools are started as a process that speaks over standard input and output."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "judge_eval", "mcp", "--out", str(folder / "runs"), "--cache", str(folder / "cache"), *flags],
        env={"HOME": str(folder), **env},
        cwd=folder,
    )


def talk(server: Any, conversation: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Hold a conversation with a server."""

    async def held() -> None:
        async with Client(server) as client:
            await conversation(client)

    asyncio.run(asyncio.wait_for(held(), 100))


async def text_of(client: Client, tool: str, progress: Any = None, **arguments: Any) -> str:
    """Call a tool that succeeds, and return its text."""
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result.content
    return "".join(part.text for part in result.content if part.type == "text")


async def refusal_of(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that refuses, and return its message."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return "".join(part.text for part in result.content if part.type == "text")


def test_an_agent_judges_compares_gates_and_tries(tmp_path: Path) -> None:
    """Every tool works over standard input and output, on runs that the command line sees too."""

    async def conversation(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {
            "list_runs", "show_run", "worst_traces", "compare_runs", "check_gate", "try_what_if",
            "judge_retrieval", "judge_traces", "judge_file",
        }  # fmt: skip
        judged = await text_of(
            client,
            "judge_retrieval",
            query="When do you open?",
            reference="We open at nine.",
            chunks=["We open at nine.", "Parking is free."],
        )
        assert "We open at nine." in judged
        assert "AP@5" in judged
        steps: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            assert total == 38
            assert message
            steps.append(done)

        for name in ("text", "title"):
            path = str(FIXTURES / f"docs_qa_by_{name}.jsonl")
            assert "AP@5" in await text_of(client, "judge_file", progress, path=path, label=name)
        assert max(steps) == 38
        assert "title" in await text_of(client, "list_runs")
        assert "AP@5" in await text_of(client, "show_run", run="label:text")
        worst = await text_of(client, "worst_traces", run="label:title", most=2)
        assert worst.count("AP@5 0") == 2
        compared = await text_of(client, "compare_runs", baseline="label:text", candidate="label:title")
        assert "is worse" in compared
        gate = await text_of(
            client,
            "check_gate",
            run="label:title",
            baseline="label:text",
            fail_under=["AP@5=0.1"],
            max_drop=["AP@5=0.03"],
        )
        assert gate.startswith("Gate failed: 1 of 2\n- failed: max-drop AP@5 fell")
        tried = await text_of(client, "try_what_if", runs=["label:text", "label:title"], fuse="rrf", label="hybrid")
        assert "hybrid" in tried
        tried = await text_of(client, "try_what_if", runs=["label:title"], cut=3, label="short", metrics=["HitRate@3"])
        assert "HitRate@3" in tried
        assert "AP@5" not in tried
        assert "no run" in await refusal_of(client, "show_run", run="label:none")
        assert "give a limit" in await refusal_of(client, "check_gate", run="label:text")
        assert "HitRate@3" in await refusal_of(client, "worst_traces", metric="AP@9")

    talk(over_stdio(tmp_path, "--model", "fake/overlap", "--metrics", "AP@5,RR"), conversation)
    labels = {manifest.label for _, manifest in run_folders(tmp_path / "runs")}
    assert labels == {"text", "title", "hybrid", "short"}


def test_without_a_model_nothing_is_judged(tmp_path: Path) -> None:
    """Tools that would ask a judge are not offered if no model was named."""

    async def conversation(client: Client) -> None:
        assert not [tool for tool in (await client.list_tools()).tools if tool.name.startswith("judge_")]

    talk(over_stdio(tmp_path), conversation)


def test_a_cancelled_run_keeps_what_was_judged(tmp_path: Path) -> None:
    """Whoever cancels loses no verdict: the same call goes on with the run and pays for nothing twice."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(trace.model_dump_json() + "\n" for trace in traces(40, 2)))
    with ChatServer(latency=0.05) as server:

        async def conversation(client: Client) -> None:
            call = asyncio.create_task(text_of(client, "judge_file", path=str(data), label="long"))
            while server.counts["calls"] < 10:
                await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            for _ in range(500):
                if any(manifest.status != "running" for _, manifest in run_folders(tmp_path / "runs")):
                    break
                await asyncio.sleep(0.02)
            assert server.counts["calls"] < 80
            await text_of(client, "judge_file", path=str(data), label="long")

        flags = ("--model", "openai/m", "--base-url", server.url, "--concurrency", "4")
        talk(over_stdio(tmp_path, *flags, OPENAI_API_KEY="sk-test-1234567890"), conversation)
        [(folder, manifest)] = run_folders(tmp_path / "runs")
        assert manifest.status == "done"
        assert EvalRun.load(folder).manifest.tally.verdicts == 80
        assert server.counts["calls"] <= 80 + 4  # calls under way when it was cancelled may be paid again


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[str]:
    """Serve the tools over HTTP, with a token and small limits; yields the address."""
    settings = ServerSettings(root=tmp_path / "runs", token=TOKEN, limits=ServerLimits(body=20_000, traces=2, chunks=3))
    with serving(settings, Evaluator("fake/overlap", metrics=["AP@5"], cache=False), tools=True) as url:
        yield url


def test_over_http_token_and_limits_hold(hosted: str, tmp_path: Path) -> None:
    """Without its token the server answers nothing; a call may bring only so much, and no file of the machine."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert ask(f"{hosted}/mcp", method="POST", body=asked)[0] == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(f"{hosted}/mcp", method="POST", raw=b" " * 30_000, headers=right)[0] == 413
    assert ask(f"{hosted}/mcp", method="POST", body=asked, headers={**right, "Origin": "http://evil.example"})[0] == 403

    async def held() -> None:
        async with (
            httpx2.AsyncClient(headers=right) as http,
            Client(streamable_http_client(f"{hosted}/mcp", http_client=http)) as client,
        ):
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "judge_traces" in names
            assert "judge_file" not in names
            few = [json.loads(trace.model_dump_json()) for trace in traces(3, 2)]
            assert "AP" in await text_of(client, "judge_traces", traces=few[:2], label="sent")
            assert "at most 2" in await refusal_of(client, "judge_traces", traces=few)
            assert "at most 3" in await refusal_of(
                client, "judge_retrieval", query="q", reference="r", chunks=["c"] * 4
            )
            message = await refusal_of(client, "show_run", run="label:none")
            assert str(tmp_path) not in message
            elsewhere = EvalRun.load(next(run_folders(tmp_path / "runs"))[0]).folder
            refusals = {
                await refusal_of(client, "show_run", run=name)
                for name in (str(elsewhere), str(tmp_path), "/nowhere", f"{hosted}/api/v1/health")
            }
            assert len(refusals) == 1, refusals
            assert "sent" in await text_of(client, "show_run", run="label:sent")

    asyncio.run(asyncio.wait_for(held(), 60))


def test_an_agent_asks_a_follow_up_question(tmp_path: Path) -> None:
    """The judge reads the turns before a question, and the answer shows them; an unknown role has a reason."""
    turns = [{"role": "user", "content": "When do you open on weekdays?"}, {"role": "assistant", "content": "At nine."}]
    asked = {"query": "And on Sundays?", "reference": "Closed on Sundays.", "chunks": ["Closed on Sundays."]}
    with ChatServer() as server:

        async def conversation(client: Client) -> None:
            assert "When do you open on weekdays?" in await text_of(client, "judge_retrieval", history=turns, **asked)
            odd = [{"role": "nobody", "content": "Hi."}]
            assert "history[0].role" in await refusal_of(client, "judge_retrieval", history=odd, **asked)

        flags = ("--model", "openai/m", "--base-url", server.url)
        talk(over_stdio(tmp_path, *flags, OPENAI_API_KEY="sk-test-1234567890"), conversation)
        (call,) = server.calls
        assert "When do you open on weekdays?" in json.dumps(call["messages"])


def test_over_stdio_no_url_and_no_device_is_read(tmp_path: Path) -> None:
    """No URL is requested, no pipe or device is opened, and arguments have bounds with a reason."""
    os.mkfifo(tmp_path / "pipe")
    with ChatServer() as server:

        async def conversation(client: Client) -> None:
            assert "no run" in await refusal_of(client, "show_run", run=f"{server.url}/run")
            assert "URL" in await refusal_of(client, "judge_file", path=f"{server.url}/data.jsonl")
            for odd in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path / "gone")):
                assert "there is no file or folder" in await refusal_of(client, "judge_file", path=odd)
            refusal = await refusal_of(client, "show_run", run="x" * 100_000)
            assert "run has 100,000 characters; at most 2,000 are taken" in refusal
            long = await refusal_of(client, "judge_retrieval", query="q" * 3_000_000, reference="r", chunks=["c"])
            assert "query has 3,000,000 characters" in long
            empty = await refusal_of(client, "judge_retrieval", query=" ", reference="r", chunks=["c"])
            assert "the query is empty" in empty
            for tool, wrong, message in (
                ("show_run", {"run": 5}, "show_run: run: holds a number, not a text"),
                ("list_runs", {"most": 0}, "list_runs: most: must be at least 1"),
                ("list_runs", {"most": "many"}, "list_runs: most: must be a whole number"),
                ("judge_retrieval", {"query": "q"}, "judge_retrieval: chunks: this field is required"),
                ("judge_retrieval", {"query": "q", "chunks": "c"}, "judge_retrieval: chunks: holds a text, not a list"),
                ("judge_traces", {"traces": [{"query": "q", "chunks": [], "x": 1}]}, "judge_traces: traces[0].x: unk"),
            ):
                assert (await refusal_of(client, tool, **wrong)).startswith(message), message

        talk(over_stdio(tmp_path, "--model", "fake/overlap", "--metrics", "AP@5"), conversation)
        assert not server.counts
