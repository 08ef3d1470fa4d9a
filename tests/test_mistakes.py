"""Forty and more mistakes that people make in Python and on the command line, each with what it is answered."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judge_eval import EvalRun, Evaluator, Options, Trace, evaluate, parse_metric
from judge_eval.errors import ConfigError, DataError, RunError
from tests.support.command import FIXTURES, Shell

FAKE = ("--model", "fake/overlap")
PIZZA = FIXTURES / "pizza.jsonl"
ROW = {"query": "When?", "reference": "At nine.", "chunks": ["We open at nine."]}


def judged(*rows: Any, **options: Any) -> Any:
    """Evaluate rows with the offline judge."""
    return evaluate(list(rows), "fake/overlap", cache=False, **options)


IN_PYTHON: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Options(concurency=3), TypeError, "did you mean 'concurrency'"),  # type: ignore[call-arg]
    (lambda: Options(api_key="k"), TypeError, "OPENAI_API_KEY"),  # type: ignore[call-arg]
    (lambda: Options(temperature=0), TypeError, "Options(params={'temperature': ...})"),  # type: ignore[call-arg]
    (lambda: Options(seed=5), TypeError, "Options(params={'seed': ...})"),  # type: ignore[call-arg]
    (lambda: Options(max_retries=5), TypeError, "Options(attempts=...)"),  # type: ignore[call-arg]
    (lambda: Options(model="openai/x"), TypeError, "Evaluator('provider/model')"),  # type: ignore[call-arg]
    (lambda: Options(timeout=-1), ConfigError, "timeout -1: write a number from 0.001"),
    (lambda: Evaluator("fake/overlap", api_key="k"), TypeError, "OPENAI_API_KEY"),  # type: ignore[call-arg]
    (lambda: Evaluator("fake/overlap", top_p=1), TypeError, "Options(params={'top_p': ...})"),  # type: ignore[call-arg]
    (lambda: Evaluator("fake/overlap", concurrency=3), TypeError, "options=Options(concurrency=...)"),  # type: ignore[call-arg]
    (lambda: judged(ROW, map={"query": "q"}), TypeError, "reader=ReadOptions(map=...)"),
    (lambda: Evaluator("fake/overlap", prompt="file:p.md"), ConfigError, "write prompt=Path('p.md')"),
    (lambda: Evaluator("fake/overlap", prompt="suport/binary"), ConfigError, "did you mean 'support/binary'"),
    (lambda: Evaluator("fake/overlap", mode="lisstwise"), ConfigError, "did you mean 'listwise'"),  # type: ignore[arg-type]
    (lambda: Evaluator("fake/overlap", metrics=["APP@5"]), ConfigError, "did you mean 'AP@5'"),
    (lambda: parse_metric("NDCG(gain=expo)@10"), ConfigError, "did you mean 'exp'"),
    (lambda: Evaluator(None), ConfigError, "`provider/model`, such as 'openai/NAME'"),  # type: ignore[arg-type]
    (lambda: evaluate([ROW], "gpt-4.1"), ConfigError, "write `provider/model`, such as `openai/gpt-4.1`"),
    (lambda: evaluate([ROW], "opnai/x"), ConfigError, "did you mean 'openai'"),
    (lambda: Trace(question="When?", contexts=[]), ValidationError, "write `query` for 'question'"),  # type: ignore[call-arg]
    (lambda: judged(), DataError, "there is no trace to judge"),
    (lambda: judged("When?"), DataError, "row 0: is a str; give a `Trace`, a mapping"),
    (lambda: judged(("When?", "At nine.")), DataError, "or a row (query, reference, chunks)"),
    (lambda: judged({"query": "When?", "reference": "At nine."}), DataError, "or [] if nothing was"),
    (lambda: judged({"query": "When?", "chunks": []}), DataError, "row 0: reference: the prompt needs the reference"),
    (lambda: judged(ROW | {"id": "a"}, ROW | {"id": "a"}), DataError, "occurs twice, here and in row 0"),
    (lambda: judged(ROW, metrics=["Recall@5"]), DataError, "give the trace `relevant_total`"),
    (lambda: judged(ROW, metrics=["ClaimRecall@5"]), DataError, "use a judge by claims"),
    (lambda: judged(ROW, retriever="search"), ConfigError, "retriever must be a function"),
    (lambda: evaluate(StringIO("{}"), "fake/overlap"), DataError, "is an open file; give its path"),
    (lambda: evaluate(judged(ROW), "fake/overlap"), DataError, "is a run; give its traces"),  # type: ignore[arg-type]
    (lambda: judged(ROW, shard="1/2"), ConfigError, "shard must be a pair such as (1, 2)"),
    (lambda: judged(ROW, resume=True), ConfigError, "give the folder of runs"),
    (lambda: evaluate("gone.jsonl", "fake/overlap", cache=False), DataError, "gone.jsonl: cannot be read"),
    (lambda: EvalRun.load("gone"), RunError, "gone: no run in this folder"),
    (lambda: judged(ROW)["AP@7"], ConfigError, "no metric in this run 'AP@7'; did you mean"),
    (lambda: judged(ROW).compare("label:main"), ConfigError, "EvalRun.load"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "answer"), IN_PYTHON, ids=[answer for _, _, answer in IN_PYTHON])
def test_a_mistake_in_python_is_answered(mistake: Callable[[], Any], kind: type[Exception], answer: str) -> None:
    """The error is of a kind that can be caught, and says what, where and what to write."""
    with pytest.raises(kind) as raised:
        mistake()
    assert answer in str(raised.value)


ON_THE_COMMAND_LINE: list[tuple[tuple[str, ...], int, str]] = [
    (("run", "pizza.jsonl"), 2, "no model is named"),
    (("run", "pizza.jsonl", *FAKE, "-k", "APP@5"), 2, "did you mean 'AP@5'"),
    (("run", "pizza.jsonl", *FAKE, "--prompt", "suport/binary"), 2, "did you mean 'support/binary'"),
    (("run", "pizza.jsonl", *FAKE, "--prompt", "file:gone.toml"), 2, "gone.toml: cannot be read"),
    (("run", "pizza.jsonl", *FAKE, "--prompt", "gone.toml"), 2, "gone.toml: cannot be read"),
    (("run", "pizza.jsonl", "--model", "fake/overlp"), 2, "did you mean 'overlap'"),
    (("run", "pizza.jsonl", "--model", "opnai/x"), 2, "did you mean 'openai'"),
    (("run", "pizza.jsonl", "--model", "gpt"), 2, "provider/model"),
    (("run", "pizza.jsonl", "--model", "openai"), 2, "does not name a model; write"),
    (("run", "pizza.jsonl", "--model", "openai/"), 2, "such as `openai/NAME`"),
    (("run", "pizza.jsonl", *FAKE, "--cache", "off"), 2, "(`--cache none`) means no cache, and `./off` a folder"),
    (("run", "pizza.jsonl", *FAKE, "--modell", "x"), 2, "No such option"),
    (("rum", "pizza.jsonl"), 2, "No such command"),
    (("run", "pizza.jsonl", *FAKE, "--param", "latncy=1"), 2, "did you mean 'latency'"),
    (("run", "pizza.jsonl", *FAKE, "--param", "latency=slow"), 2, "latency must be a number"),
    (("run", "pizza.jsonl", *FAKE, "--param", "latency"), 2, "write NAME=VALUE"),
    (("run", "pizza.jsonl", *FAKE, "--limit", "0"), 2, "--limit"),
    (("run", "pizza.jsonl", *FAKE, "-o", "x.xlsx"), 2, "use .json, .csv, .md"),
    (("run", "gone.jsonl", *FAKE), 2, "gone.jsonl: cannot be read: No such file"),
    (("run", ".", *FAKE), 2, "no queries here"),
    (("run", "empty.jsonl", *FAKE), 2, "there is no trace to judge"),
    (("run", "bad.jsonl", *FAKE), 2, "bad.jsonl:2: not JSON"),
    (("run", "typo.jsonl", *FAKE), 2, "typo.jsonl: no known format has these keys: chunks, qury;"),
    (("run", "noref.jsonl", *FAKE), 2, "noref.jsonl:1: reference: the prompt needs the reference"),
    (("run", "pizza.jsonl", "--model", "openai/x"), 2, "OPENAI_API_KEY"),
    (("run", "pizza.jsonl", *FAKE, "--offline"), 3, "run once without `offline=True` (`--offline`)"),
    (("run", "pizza.jsonl", "--model", "fake/malformed"), 3, "(incomplete)"),
    (("run", "pizza.jsonl", "--model", "fake/refused", "--max-failures", "4"), 0, "refused 4"),
    (("run", "pizza.jsonl", *FAKE, "--resume", "gone"), 2, "no run 'gone'"),
    (("show", "latest"), 2, "no run 'latest'"),
    (("score", "label:x"), 2, "no run labelled 'x'"),
    (("prompts", "show", "suport/binary"), 2, "did you mean"),
]  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with the pizza case, and with files that are wrong."""
    (tmp_path / "pizza.jsonl").write_bytes(PIZZA.read_bytes())
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bad.jsonl").write_text(PIZZA.read_text() + "{bad\n")
    (tmp_path / "typo.jsonl").write_text('{"qury": "q", "chunks": []}\n')
    (tmp_path / "noref.jsonl").write_text('{"query": "q", "chunks": ["a"]}\n')
    return Shell(tmp_path)


@pytest.mark.parametrize(("arguments", "code", "answer"), ON_THE_COMMAND_LINE)
def test_a_mistake_on_the_command_line_is_answered(
    shell: Shell, arguments: tuple[str, ...], code: int, answer: str
) -> None:
    """Each mistake has one message that says what, where and what to do, and the right exit code."""
    done = shell(*arguments, "--cache", "none") if "malformed" in arguments[-1] else shell(*arguments)
    assert done.code == code, done.out + done.err
    message = " ".join((done.out + done.err).replace("│", " ").split())
    assert answer in message
    assert "Traceback" not in message
