"""Every provider of the table answers a run, and what a configuration adds is one."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Chunk, Evaluator, Trace
from judge_eval.errors import ConfigError, FatalCallError, UnknownNameError
from judge_eval.llm.options import Options
from judge_eval.llm.stack import create_backend
from judge_eval.providers import begin_project, built_in
from judge_eval.registry import provider_of
from tests.support.canned import Canned, error
from tests.support.chat_server import ChatServer
from tests.support.command import Shell
from tests.support.forking import ROOT
from tests.support.own_wires import ContentServer, MessagesServer, ResponsesServer

TRACE = Trace(
    id="q1", query="When?", reference="at nine",
    chunks=[Chunk(id=f"c{n}", text=f"We open at nine, gate {n}.") for n in range(3)],
)  # fmt: skip
KEY = "key-of-nobody-0123456789"
NAMES = {
    "openai", "azure", "anthropic", "gemini", "vertex", "bedrock", "mistral", "groq", "together", "fireworks",
    "deepseek", "moonshot", "xai", "cohere", "openrouter", "perplexity", "huggingface", "ollama", "vllm",
    "sglang", "lmstudio", "llamacpp", "litellm", "databricks", "snowflake", "watsonx", "nvidia", "cerebras",
    "dashscope", "openai-responses",
}  # fmt: skip


WIRES: dict[str, type[ChatServer]] = {
    "anthropic-messages": MessagesServer,
    "gemini": ContentServer,
    "openai-responses": ResponsesServer,
}
"""Servers of other wires than OpenAI's."""


class Picky(ChatServer):
    """A server that declines each field that the table says it does not take."""

    unsupported: tuple[str, ...] = ()

    def answer(self, raw: bytes, headers: dict[str, str]) -> Canned:
        """Decline what is unsupported, else answer."""
        canned = super().answer(raw, headers)
        body: Mapping[str, Any] = self.calls[-1]
        form = body.get("response_format", {})
        sent = {*body, form.get("type", ""), *({"strict"} & form.get("json_schema", {}).keys())}
        sent |= {"tool"} if "tools" in body else set()
        odd = sorted(sent.intersection(self.unsupported))
        return error(400, f"Unsupported parameter: {odd[0]}") if odd else canned


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Picky]:
    """A server, and no variable of a provider."""
    for entry in built_in().values():
        named = re.findall(r"[A-Z][A-Z0-9_]+", " ".join(entry.addresses))
        for name in (entry.key_env, *named, "OPENAI_BASE_URL", "OPENAI_API_VERSION", "OLLAMA_HOST"):
            monkeypatch.delenv(name or "-", raising=False)
    with Picky() as server:
        yield server


def test_the_table_names_the_providers() -> None:
    """Those that people ask for are there, and each has an address, a page and a key or none."""
    assert set(built_in()) >= NAMES
    assert built_in()["openai"].address("") == "https://api.openai.com/v1"
    for entry in built_in().values():
        assert entry.docs.startswith("https://")
        assert entry.key_env or entry.keyless
        assert entry.start or not entry.keyless


@pytest.mark.parametrize("name", built_in())
def test_each_provider_answers_a_run(server: Picky, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each gets its key in its header, nothing that it does not take, and judges every chunk."""
    entry = built_in()[name]
    server.unsupported = entry.unsupported
    if entry.wire in WIRES:
        with WIRES[entry.wire]() as native:
            answers_a_run(native, monkeypatch, name)
    else:
        answers_a_run(server, monkeypatch, name)


def answers_a_run(server: ChatServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Judge a trace at a server."""
    entry = built_in()[name]
    if entry.key_env:
        monkeypatch.setenv(entry.key_env, KEY)
    options = Options(base_url=server.url)
    with Evaluator(f"{name}/some/model", cache=False, options=options) as evaluator:
        run = evaluator.evaluate(TRACE)
    assert [outcome.kind for outcome in run.results[0].outcomes] == ["verdict"] * 3
    assert run.manifest.backend["provider"] == name
    assert server.counts["400"] == 0
    assert server.counts["paid"] == 3
    sent = server.headers[0].get(entry.key_header, "").removeprefix("Bearer ")
    assert sent == (KEY if entry.key_env else "none")
    if entry.key_header != "authorization":
        assert "authorization" not in server.headers[0]
    assert server.calls[0]["model"] == "some/model"
    assert set(run.manifest.tally.dropped) == {
        *entry.unsupported,
        *({"max_completion_tokens"} if "max_tokens" in entry.unsupported else ()),
    } - {"logprobs", "top_logprobs", "seed"} | set(entry.unsupported)


def of_address(server: Picky, model: str) -> str:
    """Judge a chunk at the provider's own address; return the target that was called."""
    with Evaluator(model, cache=False) as evaluator:
        run = evaluator.evaluate(TRACE)
    assert run.results[0].outcomes[0].kind == "verdict"
    return server.headers[0][":path"]


def test_azure_in_both_forms(server: Picky, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a version the v1 form is called, with one the form with deployments."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match="set AZURE_OPENAI_ENDPOINT, or name it with `base_url`"):
        create_backend("azure/d1", Options())
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("v1"))
    assert of_address(server, "azure/d1") == "/openai/v1/chat/completions"
    server.reset()
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    target = "/openai/deployments/d1/chat/completions?api-version=2024-10-21"
    assert of_address(server, "azure/d1") == target
    assert server.headers[0]["api-key"] == KEY


def test_a_date_in_a_reply_is_not_the_api_version(server: Picky, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version in the address is no secret: a reply that quotes it stays as it is."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-08-01-preview")
    reason = "as of 2024-08-01-preview"
    answer = {"evidence": "We open", "reason": reason, "instruction_in_chunk": False, "verdict": True}
    server.verdict = lambda _: answer
    with Evaluator("azure/d1", cache=False) as evaluator:
        outcome = evaluator.evaluate(TRACE).results[0].outcomes[0]
    assert "2024-08-01-preview" in str(outcome)


def test_the_local_server_is_found(server: Picky, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OLLAMA_HOST` is read as Ollama reads it: without a scheme, and 0.0.0.0 for this machine."""
    port = server.port
    for text in (f"127.0.0.1:{port}", f"0.0.0.0:{port}", f"http://127.0.0.1:{port}/"):
        monkeypatch.setenv("OLLAMA_HOST", text)
        assert of_address(server, "ollama/small") == "/v1/chat/completions"
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1")
    assert built_in()["ollama"].address("x") == "http://127.0.0.1:11434/v1"


@pytest.mark.slow
def test_a_local_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message says how it is started, and the exit code is 2."""
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    once = Options(attempts=1)
    with Evaluator("ollama/x", cache=False, options=once) as e, pytest.raises(FatalCallError, match="`ollama serve`"):
        e.evaluate(TRACE)


def test_an_unknown_provider_is_answered_with_the_way_out(tmp_path: Path) -> None:
    """The nearest names, and what works with any other server."""
    (tmp_path / "t.jsonl").write_text(TRACE.model_dump_json() + "\n", encoding="utf-8")
    result = Shell(tmp_path)("run", "t.jsonl", "--model", "olama/x")
    assert result.code == 2
    assert "no provider 'olama'; did you mean 'ollama'" in result.err
    assert "--model openai/NAME" in result.err
    assert "--base-url https://HOST/v1" in result.err


@pytest.mark.parametrize(
    ("model", "said"), [("sagemaker/x", "/openai/v1, and its key"), ("github/openai/x", "ended on July 30, 2026")]
)
def test_a_name_that_is_no_provider_is_told_why(model: str, said: str) -> None:
    """What people try is answered with a sentence of its own, and with the way to any other server."""
    with pytest.raises(UnknownNameError, match=said) as caught:
        provider_of(model)
    assert "any other OpenAI-compatible server" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "variables", "address"),
    [
        ("databricks", {"DATABRICKS_HOST": "adb-1.2.azuredatabricks.net"}, "https://adb-1.2.azuredatabricks.net/serving-endpoints"),
        ("databricks", {"DATABRICKS_HOST": "https://d.example/"}, "https://d.example/serving-endpoints"),
        ("snowflake", {"SNOWFLAKE_ACCOUNT": "org-acc"}, "https://org-acc.snowflakecomputing.com/api/v2/cortex/v1"),
        ("watsonx", {"WATSONX_URL": "https://us-south.ml.cloud.ibm.com"}, "https://us-south.ml.cloud.ibm.com/ml/gateway/v1"),
    ],
)  # fmt: skip
def test_addresses_that_need_a_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, variables: dict[str, str], address: str
) -> None:
    """The vendor's own variable makes the address; without it a message names the variable."""
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ConfigError, match=variable):
            built_in()[name].address("m")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert built_in()[name].address("m") == address


def test_the_key_of_a_provider_stays_with_it(server: Picky, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OPENAI_BASE_URL` is for OpenAI's models: another provider's key does not go there."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    backend = create_backend("groq/x", Options(base_url=server.url))
    assert backend.identity is not None
    assert backend.identity.base_url == "https://api.groq.com/openai/v1"


@pytest.mark.parametrize("region", ["evil.example/#", "a b", "x@evil.example", "{model}"])
def test_a_variable_cannot_lead_elsewhere(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    """A region is a region: it cannot make the address that of another host."""
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(ConfigError, match="cannot be part of an address"):
        built_in()["bedrock"].address("x")


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
    ],
)
def test_vertex_in_all_its_locations(monkeypatch: pytest.MonkeyPatch, location: str, host: str) -> None:
    """A region, the global location and a continent have hosts of their own; without a project there is none."""
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    with pytest.raises(ConfigError, match="set GOOGLE_CLOUD_PROJECT"):
        built_in()["vertex"].address("x")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    address = built_in()["vertex"].address("x")
    assert address == f"https://{host}/v1/projects/p1/locations/{location}/endpoints/openapi"


CONFIG = """
[provider.mine]
base_url = "{url}"
key_env = "MINE_KEY"
key_header = "x-api-key"
unsupported = ["temperature"]
"""


def test_a_project_adds_a_provider(server: Picky, tmp_path: Path) -> None:
    """A block of the configuration is a provider for every verb."""
    (tmp_path / "judge_eval.toml").write_text(CONFIG.format(url=server.url), encoding="utf-8")
    (tmp_path / "t.jsonl").write_text(TRACE.model_dump_json() + "\n", encoding="utf-8")
    done = Shell(tmp_path)("run", "t.jsonl", "--model", "mine/x", "--cache", "none", MINE_KEY=KEY)
    assert done.code == 0, done.err
    assert server.headers[0]["x-api-key"] == KEY
    assert "temperature" not in server.calls[0]


def test_the_host_of_a_project_is_trusted_first(tmp_path: Path) -> None:
    """A project's file cannot send a key to a host that the user did not name."""
    text = CONFIG.format(url="https://evil.example/v1").replace("MINE_KEY", "OPENAI_API_KEY")
    (tmp_path / "judge_eval.toml").write_text(text, encoding="utf-8")
    (tmp_path / "t.jsonl").write_text(TRACE.model_dump_json() + "\n", encoding="utf-8")
    result = Shell(tmp_path)("run", "t.jsonl", "--model", "mine/x", "--cache", "none", OPENAI_API_KEY=KEY)
    assert result.code == 2
    assert "names the host evil.example, which you have not named" in result.err


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ('[provider.openai]\nbase_url = "https://h/v1"', "has a provider of this name"),
        ('[provider.x]\nbase_url = "https://{OPENAI_API_KEY}.h/v1"', "takes no variable but {model}"),
        ('[provider.x]\nbase_url = "https://h/v1"\nkey_command = ["sh"]', "may not name a command"),
        ('[provider.x]\nbase_url = "https://h/v1"\napi_key = "k"', "api_key"),
        ('[provider.x]\nbase_url = "https://h/v1"\nkey_env = "a b"', "key_env"),
        ('provider = "x"', "write"),
        ('[provider.x]\nkey_env = "K"', "base_url"),
        ('[provider.x]\nbase_url = "https://h/v1"\nfile = "f"', "no setting 'file'"),
    ],
)
def test_what_a_project_may_not_state(block: str, message: str) -> None:
    """No variables that could leak, no command, no key, no name of the package's own."""
    with pytest.raises(ConfigError, match=message):
        begin_project(tomllib.loads(block), "judge_eval.toml")
    begin_project()


def test_an_unknown_wire_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wire is one of the package's; a file cannot have another module loaded."""
    begin_project({"provider": {"x": {"base_url": "http://127.0.0.1:1", "wire": "client"}}}, "f.toml")
    with pytest.raises(ConfigError, match="no wire of 'x' 'client'"):
        provider_of("x/m")
    begin_project()


def test_the_page_is_made_from_the_table() -> None:
    """What people read of the providers is what the table says."""
    made = runpy.run_path(str(ROOT / "docs" / "pictures" / "providers.py"))["page"]()
    assert (ROOT / "docs" / "providers.md").read_text(encoding="utf-8") == made
