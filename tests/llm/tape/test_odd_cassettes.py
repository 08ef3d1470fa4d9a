"""Whatever stands in a cassette is an answer, or an error that names its line."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from judge_eval import limits
from judge_eval.errors import ConfigError, DataError, RefusedError
from judge_eval.llm import cassettes as cassette
from judge_eval.llm.backend import Identity
from judge_eval.wire import Completion, TokenLogprob, Usage
from tests.support.odd import full_count, mutated, odd_spelling, use
from tests.support.requests import ask

IDENTITY = Identity("openai", "m", "https://host/v1", (("temperature", "0"),))
LOGPROBS = (TokenLogprob("true", -0.1, (("true", -0.1), ("false", -2.5))),)
ANSWERS = (
    Completion('{"verdict": true}', "stop", Usage(5, 4, 3, 2), "m-1", ("strict",), LOGPROBS),
    Completion("no"),
    RefusedError("declined"),
)


def lines() -> list[dict[str, object]]:
    """Write valid lines of a cassette, the header first."""
    rows = [cassette.tape_row(ask(str(n), trace_id="t", chunk_ids=("c",)), a) for n, a in enumerate(ANSWERS)]
    return [cassette._header({"": IDENTITY}), *rows]


def check(error: Exception, place: str) -> None:
    """See that an error says where it is, and can be shown."""
    assert place in str(error)
    assert len(str(error).encode()) < 3000


@pytest.mark.slow
def test_odd_lines(tmp_path: Path) -> None:
    """Reading, replaying, adding to and tidying a cassette with an odd line raises what names the line."""
    rng, path, read = random.Random(21), tmp_path / "tape.jsonl", 0
    count = full_count(1500)
    for number in range(count):
        rows = [json.dumps(row).encode() for row in lines()]
        at = rng.randrange(len(rows))
        rows[at] = odd_spelling(mutated(lines()[at], rng), rng).replace(b"\n", b" ")
        path.write_bytes(b"\n".join(rows) + rng.choice((b"", b"\n", b"\n", b"\n")))
        try:
            tape = cassette.read(path)
        except DataError as error:
            check(error, f"tape.jsonl:{at + 1}: ")
        else:
            read += 1
            for row in tape.rows.values():
                answer = cassette.answer_in(row)
                if isinstance(answer, Completion):
                    use(answer)
        if number % 10 == 0:
            try:
                cassette.append(path, {"": IDENTITY}, [cassette.tape_row(ask("new"), ANSWERS[0])])
                cassette.tidy(path)
            except (DataError, ConfigError) as error:
                check(error, "tape.jsonl")
    assert count / 10 < read < count * 0.9


@pytest.mark.parametrize(
    "change",
    [
        {"usage": {"input_tokens": float("inf")}},
        {"usage": 5},
        {"usage": {"input_tokens": 10**400}},
        {"model": ["x"]},
        {"dropped": "strict"},
        {"dropped": [None]},
        {"logprobs": [["true", "x", []]]},
        {"logprobs": [["true", -(10**400), []]]},
        {"logprobs": [[5, 0, []]]},
        {"chunk_ids": 5},
        {"sample": "x"},
        {"trace_id": None},
        {"key": 5},
    ],
)
def test_a_field_of_another_kind_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    """What would crash whoever uses the answer later is refused when it is read."""
    header, row, *_ = lines()
    path = tmp_path / "tape.jsonl"
    path.write_text("\n".join(map(json.dumps, (header, row | change, row))) + "\n")
    with pytest.raises(DataError, match=r"tape.jsonl:2: not a recorded answer"):
        cassette.read(path)


def test_a_line_without_end_is_refused_before_it_is_whole_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line may be as long as a line of data, and not one byte longer; the error names it."""
    path, rows = tmp_path / "tape.jsonl", [json.dumps(row).encode() for row in lines()]
    path.write_bytes(b"\n".join(rows) + b"\n")
    longest = max(map(len, rows)) + 1
    monkeypatch.setattr(limits, "LINE", longest)
    assert len(cassette.read(path).rows) == len(ANSWERS)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 2**30)  # a gigabyte of nothing, which takes no room
    more = [cassette.tape_row(ask("new"), ANSWERS[0])]
    for use_of in (cassette.read, cassette.tidy, lambda path: cassette.append(path, {"": IDENTITY}, more)):
        tracemalloc.start()
        with pytest.raises(DataError, match=rf"tape\.jsonl:{len(rows) + 1}: longer than"):
            use_of(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**24
