from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from judge_eval.data.reading import open_dataset
from judge_eval.errors import JudgeEvalError
from judge_eval.schema import Trace

PLACES, VALUES, TEARS = 20, 4, 30
FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
STRANGE: list[Any] = [None, "", " ", "[", "[]", "{}", "null", 0, -1, 1.5, float("nan"), True, [], {}, [None], {"a": 1}]
STRANGE += [["x", 1], [[]], [{}], "\ud800", "\x00", 10**30, [["a", ["b"]]], {"documents": 3}, '{"documents": 3}']


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List every place in nested data."""
    values = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        values += places(item, (*path, key))
    return values


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with something else at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def strain(path: Path, **options: Any) -> list[Trace]:
    """Read a file; whatever is in it, only our own errors may come out."""
    with contextlib.suppress(JudgeEvalError):
        return list(open_dataset(path, **options))
    return []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in FORMATS.iterdir() if p.suffix in (".jsonl", ".json")))
def test_no_record_breaks_a_reader(name: str, tmp_path: Path) -> None:
    """With anything in any place of a real record, a reader gives traces or an error of ours."""
    text = (FORMATS / name).read_text()
    lines = name.endswith(".jsonl") or name == "rgb.json"  # which is published as lines
    record = json.loads(text.splitlines()[0] if lines else text)
    draw = random.Random(name)
    path = tmp_path / name
    where = places(record)
    for place in draw.sample(where, min(len(where), PLACES)):
        for new in draw.sample(STRANGE, VALUES):
            path.write_text(json.dumps(changed(record, place, new)))
            strain(path)
            strain(path, on_invalid="skip", corpus=FORMATS / "corpus.jsonl", list_sep="|")
            strain(path, list_sep="none", map={"chunks.text": "text", "reference": "id"})
            strain(path, on_invalid="skip", group_by="id")


@pytest.mark.parametrize(
    "name",
    [
        *("ragas.csv", "promptfoo.csv", "scars.csv", "utf16.csv"),
        *(pytest.param(name, marks=pytest.mark.foreign) for name in ("ragas_pandas.xlsx", "autorag.parquet")),
        "crag.jsonl.bz2",
        *("beir/qrels/test.tsv", "beir/run.trec", "trec/topics.txt"),
    ],
)
def test_no_torn_file_breaks_a_reader(name: str, tmp_path: Path) -> None:
    """A file cut or garbled at any byte gives traces or an error of ours."""
    folder = Path(shutil.copytree(FORMATS / Path(name).parts[0], tmp_path / "x")) if "/" in name else tmp_path
    path = folder / Path(*Path(name).parts[1:]) if "/" in name else folder / name
    data = (FORMATS / name).read_bytes()
    draw = random.Random(name)
    for _ in range(TEARS):
        at = draw.randrange(len(data))
        garbled = (
            data[:at] + draw.choice([b"", b"\xff", b'"', b"\n", b"\t", b"\x00", b"["]) + data[at + draw.randrange(9) :]
        )
        path.write_bytes(garbled[: draw.choice([at + 5, len(garbled)])])
        strain(folder if "/" in name else path)
