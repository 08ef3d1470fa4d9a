"""A dataset for batches, and an environment of its own for each test."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twelve traces of three chunks; two traces share a question and a chunk."""
    path = tmp_path / "data.jsonl"
    lines = []
    for n in range(12):
        m = n % 11
        trace = {
            "id": f"q{n}",
            "query": f"What is thing {m}?",
            "reference": f"Thing {m} is “blue”.",
            "chunks": [f"Thing {m} is blue.", f"Thing {m + 1} is red.", f"Nobody knows {n}."],
        }
        lines.append(json.dumps(trace, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
