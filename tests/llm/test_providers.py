"""What a provider states of itself, and how its factory is called."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, FakeBackend, Identity
from judge_eval.errors import ConfigError
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import check_mode, mode_for, routes_to_tell
from judge_eval.llm.http.openai import OpenAI
from judge_eval.llm.options import Options
from judge_eval.llm.stack import build_stack, create_backend
from judge_eval.registry import Provider, provider_of
from tests.support.batch_server import BatchServer
from tests.support.batching import call
from tests.support.installing import install_providers

ROOT = Path(__file__).parents[2]
TRACE = {"id": "q1", "query": "When?", "reference": "at nine", "chunks": ["We open at nine."]}
YES = json.dumps({"evidence": "", "reason": "-", "instruction_in_chunk": False, "verdict": True})


def always(model: str) -> FakeBackend:
    """Make a backend of a test that finds everything relevant."""
    return FakeBackend(lambda _: YES, identity=Identity("mine", model))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments that each call of a factory had; factories of every signature are installed."""
    made: list[dict[str, Any]] = []

    def noted(model: str, /, **options: Any) -> FakeBackend:
        made.append(options)
        return always(model)

    def page(model: str, *, base_url: Any, timeout: Any, concurrency: Any, params: Any) -> FakeBackend:
        return noted(model, base_url=base_url, timeout=timeout, concurrency=concurrency, params=params)

    def reading(model: str, *, max_reply: int) -> FakeBackend:
        return noted(model, max_reply=max_reply)

    factories: dict[str, Callable[..., Any]] = {
        "page": page,
        "bare": lambda model: noted(model),
        "reading": reading,
        "open": noted,
    }
    install_providers(monkeypatch, factories)
    return made


@pytest.mark.parametrize(
    ("provider", "options", "names"),
    [
        ("page", {}, "base_url concurrency params timeout"),
        ("page", {"max_reply": 5000}, "base_url concurrency params timeout"),
        ("bare", {"max_reply": 5000, "timeout": 3.0}, ""),
        ("reading", {}, "max_reply"),
        ("open", {}, ""),
        ("open", {"max_reply": 5000}, "max_reply"),
    ],
)
def test_a_factory_is_called_with_what_it_accepts(
    calls: list[dict[str, Any]], provider: str, options: dict[str, Any], names: str
) -> None:
    """No option that a factory does not name reaches it; one that takes all gets those that are set."""
    create_backend(f"{provider}/x", Options(**options))
    assert " ".join(sorted(calls[0])) == names


@pytest.mark.parametrize("option", [{"params": {"seed": 1}}, {"base_url": "http://127.0.0.1:1/v1"}])
@pytest.mark.usefixtures("calls")
def test_what_could_change_a_verdict_is_not_dropped(option: dict[str, Any]) -> None:
    """Parameters and a base URL that a factory does not take are refused by name, never left out."""
    with pytest.raises(ConfigError, match=f"bare/x takes no {next(iter(option))}"):
        create_backend("bare/x", Options(**option))


def test_no_package_takes_the_name_of_a_provider_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of `groq` is asked at its own server, whatever an installed package registers under this name."""
    install_providers(monkeypatch, {"groq": always, "fake": always})
    assert provider_of("groq/x").hosts == ("api.groq.com",)
    identity = create_backend("fake/overlap", Options()).identity
    assert identity is not None
    assert identity.provider == "fake"


@pytest.mark.usefixtures("calls")
def test_a_plain_factory_judges_from_the_command_line(tmp_path: Path) -> None:
    """`--max-reply` reaches a provider that knows nothing of it without a fault, and batches are refused."""
    data = tmp_path / "traces.jsonl"
    data.write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    call("run", data, "--model", "page/x", "--max-reply", "1", "--out", tmp_path / "runs", "--cache", "none")
    refused = call("batch", "export", data, "--model", "page/x", "--out", tmp_path / "batch", code=2)
    assert "page/x takes no batches" in refused.output


def test_a_provider_that_takes_batches_exports_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed provider whose server has the Batches API is exported for, whatever its name."""

    def create(model: str, *, base_url: str | None, timeout: float, params: Any) -> OpenAI:
        return OpenAI(model, base_url=base_url, timeout=timeout, params=params)

    install_providers(monkeypatch, {"mine": Provider(create, answers_questions=False, takes_batches=True)})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = tmp_path / "traces.jsonl"
    data.write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    with BatchServer() as server:
        call("batch", "export", data, "--model", "mine/x", "--out", tmp_path / "b", "--base-url", server.url)
        assert list((tmp_path / "b").rglob("*.jsonl"))
        again = ("--out", tmp_path / "c", "--base-url", server.url, "--unsupported", "seed")
        result = call("batch", "export", data, "--model", "mine/x", *again, code=2)
        assert "mine/x takes no unsupported" in result.output


def test_batches_go_to_no_server_that_nobody_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A provider with an address of its own takes batches only where the address is given."""

    def create(model: str, *, base_url: str | None, params: Any) -> OpenAI:
        return OpenAI(model, base_url=base_url or "http://127.0.0.1:9/v1", params=params)

    install_providers(monkeypatch, {"mine": Provider(create, takes_batches=True)})
    data = tmp_path / "traces.jsonl"
    data.write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    result = call("batch", "export", data, "--model", "mine/x", "--out", tmp_path / "b", code=2)
    assert "http://127.0.0.1:9/v1" in result.output


def test_modes_follow_what_a_provider_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that writes nothing is asked in decision mode, and one that only writes never is."""
    providers = {
        "asks": Provider(always, writes_text=False, takes_logprobs=False),
        "writes": Provider(always, answers_questions=False),
        "bare": always,
    }
    install_providers(monkeypatch, providers)
    assert [mode_for(f"{name}/x") for name in providers] == ["decision", "pointwise", "pointwise"]
    assert mode_for("asks/x", "claims") == "claims-decision"
    with pytest.raises(ConfigError, match="asks/x answers questions and writes nothing"):
        check_mode("asks/x", "pointwise")
    with pytest.raises(ConfigError, match="writes/x writes texts"):
        check_mode("writes/x", "decision")
    for mode in ("pointwise", "decision"):
        check_mode("bare/x", mode)


@pytest.mark.parametrize(
    ("model", "routes"), [("quiet/x", []), ("asked/x", ["cheap"]), ("openai/x", ["cheap"]), ("fake/overlap", [])]
)
def test_a_cheap_judge_is_asked_for_probabilities_if_it_takes_that(
    monkeypatch: pytest.MonkeyPatch, model: str, routes: list[str]
) -> None:
    """A cascade asks for log-probabilities where the provider does not say that it takes no such fields."""
    install_providers(monkeypatch, {"quiet": Provider(always, takes_logprobs=False), "asked": always})
    judge = cascade_of(model, "openai/strong", threshold=0.9)
    assert routes_to_tell(judge, {"cheap": model, "strong": "openai/strong"}) == routes


def test_an_unknown_provider_is_named_when_it_is_asked() -> None:
    """A provider that is not installed, or a model without one, is no fault of the mode."""
    assert mode_for("parot/x") == mode_for("x") == "pointwise"
    with pytest.raises(ConfigError, match="no provider 'parot'"):
        Evaluator("parot/x", cache=False).evaluate(TRACE)


def test_who_calls_nobody_says_so() -> None:
    """A backend that calls nobody needs no limits and has no price, whatever its provider is called."""
    fake = build_stack("fake/overlap", None, Options())
    assert fake.calls_nobody
    assert fake.cost_of(1, 1) is None
    assert not build_stack("openai/x", None, Options(base_url="http://127.0.0.1:1/v1")).calls_nobody


def test_no_rule_hangs_on_a_provider_s_name() -> None:
    """Only the providers themselves compare a provider's name; all else asks what it states."""
    names = r"(openai|decisions|fake|local|anthropic|gemini)"
    test = re.compile(  # a comparison, a set or a look-up
        rf'startswith\("{names}/|(provider|name) [!=]= "{names}"|\{{"{names}"\}}|built_in\(\)\["{names}"\]'
    )
    guilty = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "judge_eval").rglob("*.py"))
        if not path.is_relative_to(ROOT / "judge_eval" / "llm" / "fake")
        for line in path.read_text(encoding="utf-8").splitlines()
        if test.search(line)
    ]
    assert not guilty
