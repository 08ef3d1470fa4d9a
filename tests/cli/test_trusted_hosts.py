"""Hosts that only a file names: no key, no text and no request reaches them until the user names them."""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from judge_eval import Evaluator, trust
from judge_eval.errors import ConfigError
from judge_eval.evaluator import Options
from tests.support.batch_server import BatchServer
from tests.support.chat_server import ChatServer
from tests.support.command import CommandResult
from tests.support.desk import Desk
from tests.support.runs import rewrite_manifest

HOST = "judge.example"
KEY = "sk-do-not-send-0123456789"
TRACE = {"id": "t1", "query": "Which?", "reference": "Basil.", "chunks": ["Basil.", "A stone."]}


@pytest.fixture
def server(desk: Desk) -> Iterator[ChatServer]:
    """A server that this process reaches as `judge.example`; the user has a key and a file of traces."""
    usual = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        here = "127.0.0.1" if host in (HOST, HOST.encode()) else host
        return usual(here, *arguments, **options)

    desk.patch.setattr(socket, "getaddrinfo", resolved)
    desk.patch.setenv("OPENAI_API_KEY", KEY)
    desk.patch.setenv("XDG_CONFIG_HOME", str(desk.folder / "config"))
    (desk.folder / "traces.jsonl").write_text(json.dumps(TRACE) + "\n")
    with ChatServer() as made:
        yield made


def address(server: ChatServer | BatchServer) -> str:
    """Return the server's base URL under its foreign name."""
    return f"http://{HOST}:{urlsplit(server.url).port}/v1"


def judge(desk: Desk, *flags: object, **environment: str) -> CommandResult:
    """Judge the traces."""
    return desk("run", "traces.jsonl", "--model", "openai/m", "--cache", "none", "-q", *flags, **environment)


def planted(desk: Desk, server: ChatServer, place: str) -> list[object]:
    """Plant the address in a file; return the flags of a command that reads it."""
    url, folder = address(server), desk.folder
    if place == "configuration":
        (folder / "judge_eval.toml").write_text(f'base_url = "{url}"\n')
        return []
    if place == "project above":
        (folder / "pyproject.toml").write_text(f'[tool.judge_eval]\nbase_url = ["{url}", "{url}"]\n')
        (folder / "below").mkdir()
        desk.patch.chdir(folder / "below")
        (folder / "below" / "traces.jsonl").write_bytes((folder / "traces.jsonl").read_bytes())
        return []
    if place == "judge of the configuration":
        text = f'[judge.mine]\nmodel = "openai/m"\nbase_url = "{url}"\n'
        (folder / "judge_eval.toml").write_text(text)
        return ["--judge", "mine"]
    (folder / "j.toml").write_text(
        {
            "judge file": f'model = "openai/m"\nbase_url = "{url}"\nkey_env = "OPENAI_API_KEY"\n',
            "member": (f'[[member]]\nmodel = "openai/m"\nbase_url = "{url}"\n[[member]]\nmodel = "fake/hash"\n'),
            "cascade": (
                f'threshold = 0.9\n[cheap]\nmodel = "openai/m"\nbase_url = "{url}"\n[strong]\nmodel = "fake/hash"\n'
            ),
        }[place]
    )
    return ["--judge", "j.toml"]


def stops(told: CommandResult, *words: str) -> None:
    """Check that a command stopped before a call, and what it says."""
    assert told.code == 2, told.err
    assert KEY not in told.err
    for word in words:
        assert word in told.err


PLACES = [
    "configuration", "project above", "judge of the configuration", "judge file", "member", "cascade",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_no_request_reaches_a_host_that_only_a_file_names(place: str, desk: Desk, server: ChatServer) -> None:
    """The command stops before a call, and names host and file; named once by flag or variable it goes on."""
    flags = planted(desk, server, place)
    model = () if place in ("judge file", "member", "cascade") else ("--model", "openai/m")
    run = ("run", "traces.jsonl", *model, "--cache", "none", "-q", *flags)
    stops(desk(*run), HOST, ".toml", "--trust-host")
    assert not server.calls
    assert desk("--trust-host", HOST, *run).code == 0
    assert server.calls
    assert desk(*run).code == 2, "a flag names a host for its own command alone"
    assert desk(*run, JUDGE_EVAL_TRUST_HOSTS=f"other.example,{HOST}").code == 0


def test_the_users_own_words_need_no_trust(desk: Desk, server: ChatServer) -> None:
    """A flag, a variable and Python name a host; a flag also overrides the address of a file."""
    assert judge(desk, "--base-url", address(server)).code == 0
    assert judge(desk, OPENAI_BASE_URL=address(server)).code == 0
    (desk.folder / "judge_eval.toml").write_text('base_url = "http://other.example/v1"\n')
    assert judge(desk, "--base-url", address(server)).code == 0
    options = Options(base_url=address(server))
    with Evaluator("openai/m", cache=False, options=options) as evaluator:
        assert evaluator.evaluate([TRACE]).manifest.tally.failed_verdicts == 0
    (desk.folder / "j.toml").write_text(f'model = "openai/m"\nbase_url = "{address(server)}"\n')
    with pytest.raises(ConfigError, match=rf"JUDGE_EVAL_TRUST_HOSTS={HOST}"):
        Evaluator.from_file("j.toml", cache=False)
    with Evaluator.from_file("j.toml", cache=False, options=options) as evaluator:
        assert evaluator.evaluate([TRACE]).manifest.tally.failed_verdicts == 0


def test_this_machine_and_the_providers_own_hosts_need_no_trust(desk: Desk) -> None:
    """A file may name the provider's own server and this machine."""
    (desk.folder / "traces.jsonl").write_text(json.dumps(TRACE) + "\n")
    with ChatServer() as server:
        (desk.folder / "judge_eval.toml").write_text(f'base_url = "{server.url}"\n')
        assert judge(desk, OPENAI_API_KEY=KEY).code == 0
    (desk.folder / "judge_eval.toml").write_text(
        '[judge.own]\nmodel = "openai/m"\nbase_url = "https://api.openai.com/v1"\n'
    )
    done = desk("run", "traces.jsonl", "--judge", "own", "--dry-run", "--cache", "none", OPENAI_API_KEY=KEY)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "line",
    [
        f'cache = "postgresql://user@{HOST}/verdicts"',
        f'cache = "postgresql://localhost/verdicts?host={HOST}"',
        f'out = "s3://{HOST}/runs"',
        f'baseline = "https://{HOST}/runs/20260101-000000-00000000"',
    ],
)
def test_a_file_names_no_database_and_no_storage_either(line: str, desk: Desk, server: ChatServer) -> None:
    """The cache, the folder of runs and the baseline of a configuration file are addresses as well."""
    (desk.folder / "judge_eval.toml").write_text(line + "\n")
    stops(desk("run", "traces.jsonl", "--model", "fake/overlap"), f"names the host {HOST}")


def test_a_file_that_others_can_write_is_refused(desk: Desk, server: ChatServer) -> None:
    """A configuration with mode 0666 is not read, nor one of another user in a folder that all may write."""
    config = desk.folder / "judge_eval.toml"
    config.write_text('model = "fake/overlap"\n')
    config.chmod(0o666)
    stops(judge(desk), "judge_eval.toml is not read: other users can write")
    config.chmod(0o644)
    desk.folder.chmod(0o777)
    stops(judge(desk), "other users can write")
    desk.folder.chmod(0o1777)
    assert desk("run", "traces.jsonl", "--cache", "none", "-q").code == 0
    if os.geteuid() == 0:
        os.chown(config, 12345, -1)
        assert judge(desk).code == 2
    desk.folder.chmod(0o755)
    (desk.folder / "j.toml").write_text('model = "fake/overlap"\n')
    (desk.folder / "j.toml").chmod(0o646)
    assert "j.toml is not read" in desk("run", "traces.jsonl", "--judge", "j.toml", "--cache", "none").err


def test_a_yes_is_kept_in_the_users_configuration(desk: Desk, server: ChatServer) -> None:
    """Where somebody can answer, the command offers to write the host; a no stops it."""
    (desk.folder / "judge_eval.toml").write_text(f'base_url = "{address(server)}"\n')
    kept = desk.folder / "config" / "judge_eval" / "config.toml"
    asked: list[tuple[str, str]] = []

    def answers(reply: bool) -> None:
        begin = trust.begin_command
        desk.patch.setattr(
            "judge_eval.cli.verbs.begin_command",
            lambda *_: begin(lambda host, file: asked.append((host, file)) or reply),
        )

    answers(False)
    assert judge(desk).code == 2
    assert not kept.exists()
    answers(True)
    assert judge(desk).code == 0
    assert asked == [(HOST, str(desk.folder / "judge_eval.toml"))] * 2
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("# mine\n" + kept.read_text() + "[other]\nx = 1\n")
    assert judge(desk).code == 0
    assert len(asked) == 2
    (desk.folder / "judge_eval.toml").write_text('cache = "postgresql://db.example/x"\n')
    desk("cache", "path")
    assert 'trust_hosts = ["judge.example", "db.example"]' in kept.read_text()
    assert {"# mine", "[other]", "x = 1"} <= set(kept.read_text().splitlines())
    kept.chmod(0o666)
    answers(False)
    assert "config.toml is not read" in judge(desk).err


def test_a_batch_folder_names_no_host(desk: Desk, server: ChatServer) -> None:
    """An edited `batch.json` gets neither key nor file: for each step the user names its server."""
    with BatchServer() as batches:
        url = address(batches)
        export = ("batch", "export", "traces.jsonl", "--out", "b", "--model", "openai/m", "--cache", "c")
        assert desk(*export, "--base-url", url).code == 0
        for verb in (("submit",), ("fetch",), ("cancel", "x"), ("import",)):
            stops(desk("batch", verb[0], "b", *verb[1:]), HOST, "batch.json")
        assert not batches.counts
        assert desk("--trust-host", HOST, "batch", "submit", "b").code == 0
        assert desk("batch", "fetch", "b", "--base-url", url).code == 0
        state = desk.folder / "b" / "batch.json"
        kept = json.loads(state.read_text())
        kept["settings"]["cache"] = f"postgresql://{HOST}/x"
        state.write_text(json.dumps(kept))
        stops(desk("batch", "import", "b"), f"names the host {HOST}")
        state.chmod(0o666)
        assert "batch.json is not read" in desk("batch", "submit", "b").err


def test_the_next_step_of_a_batch_can_be_pasted(desk: Desk, server: ChatServer) -> None:
    """The command that a step names next works as it stands: it names the host where only the folder does."""
    with BatchServer() as batches:
        export = ("batch", "export", "traces.jsonl", "--model", "openai/m", "--cache", "c", "--base-url")
        output = desk(*export, address(batches), "--out", "a folder").err
        line = output.partition("next: judge-eval ")[2].partition("  (")[0]
        assert f"--trust-host {HOST}" in line
        assert desk(*shlex.split(line)).code == 0
        trusted = desk(*export, address(batches), "--out", "c2", JUDGE_EVAL_TRUST_HOSTS=HOST).err
        local = desk(*export, batches.url, "--out", "c3").err
    assert "next: judge-eval batch submit c2 " in trusted
    assert "--trust-host" not in trusted + local


def test_a_baseline_in_a_manifest_is_an_id(desk: Desk, server: ChatServer) -> None:
    """A URL or a path in the place of the baseline's id is not opened."""
    assert desk("run", "traces.jsonl", "--model", "fake/overlap", "--cache", "none", "-q").code == 0
    (folder,) = Path("runs").iterdir()
    for planted_there in (f"http://{HOST}:{urlsplit(server.url).port}/runs/x", "../elsewhere", "latest"):
        rewrite_manifest(folder, baseline=planted_there)
        done = desk("report", "latest", "-o", "r.html")
        assert done.code == 0, done.err
        assert server.connections == 0


def test_hosts_are_read_as_a_client_reads_them() -> None:
    """Tricks with user names, blanks, lists and chains do not hide a host."""
    for text, hosts in {
        "https://api.openai.com@evil.example/v1": ("evil.example",),
        "HTTPS://Evil.Example:8443/v1": ("evil.example",),
        "http://[::1]:8000/v1": ("::1",),
        "postgresql://a,b:5433/x": ("a", "b"),
        "postgresql:///x?host=/var/run": (),
        "postgresql://localhost/x?hostaddr=10.0.0.1": ("localhost", "10.0.0.1"),
        "simplecache::s3://bucket/x": ("bucket",),
        "zip://a.csv::https://evil.example/z": ("a.csv", "evil.example"),
        "file:///tmp/x": (),
        "runs/here": (),
        "host": (),
    }.items():
        assert trust.hosts_of(text) == hosts
    for text in ("https://evil.example\\@api.openai.com/v1", "https://evil.example\t@api.openai.com/"):
        assert "api.openai.com" not in trust.hosts_of(text)
