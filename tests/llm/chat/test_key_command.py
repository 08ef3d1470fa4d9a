"""A command that prints the key is run at first, before the key's end, and when the server declines it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge_eval.batch.state import BatchSettings
from judge_eval.errors import ConfigError
from judge_eval.llm.http.key_command import KeyCommand
from judge_eval.llm.http.openai import create
from judge_eval.llm.options import Options
from judge_eval.llm.stack import build_stack
from judge_eval.providers import known_providers
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.requests import ask

SECRET = "token-of-nobody-{}-8f3a9c"
PRINTS = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
count = int(path.read_text() or 0) + 1 if path.exists() else 1
path.write_text(str(count))
print(sys.argv[2].replace("{}", str(count)))
"""


class Turnstile(ChatServer):
    """A server whose tokens are good for a number of calls."""

    good = 10**9
    """How many calls one token is good for."""

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decline a token that has served its time."""
        key = headers.get("authorization", "").removeprefix("Bearer ")
        self.counts[key] += 1
        if self.counts[key] > self.good or "token-of-nobody" not in key:
            self.counts["401"] += 1
            return error(401, f"expired: {key}", code="invalid_api_key")
        return super().answer(raw, headers)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turnstile]:
    """The server, and no key in the environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Turnstile() as server:
        yield server


def command(folder: Path, printed: str = SECRET) -> tuple[list[str], Path]:
    """Make a command that prints another token each time, and the file in which it counts."""
    (folder / "prints.py").write_text(PRINTS)
    return [sys.executable, str(folder / "prints.py"), str(folder / "count"), printed], folder / "count"


def calls(server: ChatServer, words: list[str], count: int) -> list[object]:
    """Make calls at once."""
    backend = create("m", base_url=server.url, key_command=words)

    async def go() -> list[object]:
        try:
            made = (backend.complete(ask(f"text {n}")) for n in range(count))
            return list(await asyncio.gather(*made, return_exceptions=True))
        finally:
            await backend.aclose()

    return asyncio.run(go())


def test_a_401_in_the_middle_refreshes_once(server: Turnstile, tmp_path: Path) -> None:
    """Every call is answered; one run of the command serves all that were declined."""
    server.good = 10
    words, count = command(tmp_path)
    answers = calls(server, words, 15)
    assert not [each for each in answers if isinstance(each, BaseException)]
    assert server.counts["paid"] == 15
    assert count.read_text() == "2"


def test_a_token_that_stays_bad_ends_the_run(server: Turnstile, tmp_path: Path) -> None:
    """The command runs once more and no further; no message shows a token."""
    server.good = 0
    words, count = command(tmp_path)
    (failure,) = calls(server, words, 1)
    assert "HTTP 401" in str(failure)
    assert "token-of-nobody" not in str(failure)
    assert count.read_text() == "2"


def test_a_token_is_renewed_before_its_end(tmp_path: Path) -> None:
    """A command that tells the end is run again before it; one that does not, only after a 401."""
    for tells, runs in (('{"access_token": "{}", "expires_in": 60}', "2"), ('{"token": "{}", "expires_in": 9e3}', "1")):
        words, count = command(tmp_path, tells)
        count.unlink(missing_ok=True)
        made = KeyCommand(words)
        assert (made.key(), made.key())[0] == "1"
        assert count.read_text() == runs


@pytest.mark.parametrize(
    "printed",
    [
        '{"accessToken": "k", "expires_on": 4102444800}',
        '{"accessToken": "k", "expiresOn": "2100-01-01 00:00:00.000000"}',
        '{"status": {"token": "k", "expirationTimestamp": "2100-01-01T00:00:00Z"}}',
        '{"key": "k", "expires_at": "never"}',
    ],
)
def test_what_known_programs_print(tmp_path: Path, printed: str) -> None:
    """A token is found under the names that programs give it, and so is its end."""
    made = KeyCommand(command(tmp_path, printed)[0])
    assert made.key() == "k"
    assert not made.expiring


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-program-here"], "cannot be run"),
        (
            [sys.executable, "-c", "import sys; sys.exit('api_key=abcdefghij is bad')"],
            r"failed with exit code 1: \*\*\* is bad",
        ),
        ([sys.executable, "-c", "print('two words')"], "must print a key"),
        ([sys.executable, "-c", "print('')"], "must print a key"),
        ([sys.executable, "-c", "print('{\"x\": 1}')"], "must print a key"),
        ([sys.executable, "-c", "print('{broken')"], "must print a key"),
    ],
)
def test_a_command_that_prints_no_key(words: list[str], message: str) -> None:
    """The error names the program and hides what looks like a key."""
    with pytest.raises(ConfigError, match=message):
        KeyCommand(words).key()


def test_a_command_that_prints_without_end_is_stopped(tmp_path: Path) -> None:
    """It is killed at the bound, also where a program that it started writes on; a key that fills the bound is one."""
    pid = tmp_path / "pid"
    endless = (
        "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\nwhile 1: print('y' * 99)"
    )
    with pytest.raises(ConfigError, match="printed more than 16,384 bytes"):
        KeyCommand([sys.executable, "-c", endless, str(pid)]).key()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    with pytest.raises(ConfigError, match="printed more than 16,384 bytes"):
        KeyCommand(["sh", "-c", "yes; true"]).key()
    assert len(KeyCommand([sys.executable, "-c", "print('k' * 16383)"]).key()) == 16_383


def test_of_long_errors_the_beginning_is_shown() -> None:
    """A command that fails after megabytes of errors is no command that hangs."""
    talks = "import sys; sys.stderr.write('no login; ' + 'x' * 9_000_000); sys.exit(3)"
    with pytest.raises(ConfigError, match="failed with exit code 3: no login") as caught:
        KeyCommand([sys.executable, "-c", talks]).key()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("given", ["", " ", "''"])
def test_an_empty_command_is_an_error(tmp_path: Path, given: str) -> None:
    """Neither a flag nor a list of words without a program is taken for "no command"."""
    data = tmp_path / "t.jsonl"
    data.write_text('{"query": "When?", "reference": "nine", "chunks": ["We open at nine."]}\n')
    result = Shell(tmp_path)("run", data, "--model", "openai/m", "--key-command", given)
    assert result.code == 2, result.err
    assert "is empty; give a command that prints the key" in result.err
    with pytest.raises(ConfigError, match="key command is empty"):
        create("m", base_url="http://127.0.0.1:9/v1", key_command=[given.strip("'")])


def test_no_shell_reads_the_words(server: Turnstile, tmp_path: Path) -> None:
    """`;` and `$()` are characters of a word, also from the command line."""
    words, _ = command(tmp_path, SECRET + ";$(touch${IFS}made)")
    data = tmp_path / "t.jsonl"
    trace = {"query": "When?", "reference": "nine", "chunks": ["We open at nine."]}
    data.write_text(json.dumps(trace) + "\n")
    line = " ".join(f"'{word}'" for word in words)
    result = Shell(tmp_path)(
        "run", data, "--model", "openai/m", "--base-url", server.url, "--key-command", line, "--cache", "none"
    )
    assert result.code == 0, result.err
    assert not (tmp_path / "made").exists()
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "prints.py"]
    assert not any(b"token-of-nobody" in content for content in kept)


def test_one_command_serves_one_provider() -> None:
    """The token of one provider never goes to another one."""
    options = Options(key_command=("true",))
    with pytest.raises(ConfigError, match="prints the key of one provider"):
        build_stack({"a": "groq/x", "b": "mistral/y"}, None, options)


def test_only_the_users_own_configuration_names_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it completes a provider of the package; a batch's file has none run."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "judge_eval").mkdir()
    text = '[provider.vertex]\nkey_command = ["gcloud", "auth", "print-access-token"]\n'
    (tmp_path / "judge_eval" / "config.toml").write_text(text)
    entry = known_providers()["vertex"]
    assert entry.key_command == ("gcloud", "auth", "print-access-token")
    assert entry.prices == "google"
    settings = BatchSettings(data="t", model="openai/m", calling={"key_command": ["touch", "made"]})
    assert settings.options.key_command == ()


def test_doctor_says_what_is_sent_where(tmp_path: Path) -> None:
    """Address, variable of the key, what is left out, and what works."""
    result = Shell(tmp_path)("doctor", "--model", "groq/x", GROQ_API_KEY="gsk", JUDGE_EVAL_UNSUPPORTED="temperature")
    for line in (
        "sent to: POST https://api.groq.com/openai/v1/chat/completions", "key: GROQ_API_KEY (set)",
        "never sent: logprobs, temperature, top_logprobs", "strict JSON: yes", "log-probabilities: no",
        "batches: no",
    ):  # fmt: skip
        assert line in result.out + result.err
    shown = json.loads(Shell(tmp_path)("doctor", "--model", "ollama/x", "--json").out)
    assert shown["calls"]["ollama/x"]["key"] == "OLLAMA_API_KEY (not set, and not needed)"
    assert shown["calls"]["ollama/x"]["strict JSON"] == "a schema, not strict"
