from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge_eval.data import shapes

PLUGIN = """
from judge_eval.data.shapes.shape import Shape

def read(record):
    yield {"query": record["frage"], "chunks": record["treffer"], "reference": record.get("soll")}

SHAPE = Shape("haus", "our house's own", lambda keys: {"frage", "treffer"} <= keys, read,
              frozenset({"frage", "treffer"}), frozenset({"treffer"}))
NOT_A_SHAPE = 7
def broken(keys):
    raise KeyError("no luck")
BROKEN = Shape("bruch", "a reader with a fault", broken, read)
"""

SCRIPT = """
import sys
from judge_eval.data.reading import open_dataset
from judge_eval.errors import ConfigError
[found] = open_dataset(sys.argv[1])
[forced] = open_dataset(sys.argv[1], format="haus")
assert found == forced and found.chunks[1].text == "b" and found.reference == "r", found
try:
    list(open_dataset(sys.argv[1], format="kaputt"))
except ConfigError as error:
    assert "register a `Shape`" in str(error), error
"""


@pytest.mark.slow
def test_an_installed_package_adds_a_format(tmp_path: Path) -> None:
    """A shape registered under `judge_eval.readers` is recognised, and can be forced by its name."""
    info = tmp_path / "haus-1.0.dist-info"
    info.mkdir()
    (tmp_path / "haus.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haus\nVersion: 1.0\n")
    for points, script in (
        ("haus = haus:SHAPE\n", SCRIPT.split("try:")[0]),
        ("haus = haus:SHAPE\nkaputt = haus:NOT_A_SHAPE\n", "try:" + SCRIPT.split("try:")[1]),
    ):
        (info / "entry_points.txt").write_text(f"[judge_eval.readers]\n{points}")
        data = tmp_path / "x.csv"
        data.write_text('frage,treffer,soll\nq?,"[""a"", ""b""]",r\n')
        head = SCRIPT.split("[found]")[0] if script.startswith("try:") else ""
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{head}{script}", str(data)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


def test_a_reader_that_raises_is_skipped_with_a_remark(tmp_path: Path) -> None:
    """Installed readers that raise, cannot be imported or are none leave the choice to the others."""
    info = tmp_path / "haus-1.0.dist-info"
    info.mkdir()
    (tmp_path / "haus.py").write_text(PLUGIN)
    (tmp_path / "wreck.py").write_text("1 / 0")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haus\nVersion: 1.0\n")
    points = "bruch = haus:BROKEN\nkaputt = haus:NOT_A_SHAPE\nlos = none_such:SHAPE\nwrack = wreck:SHAPE\n"
    (info / "entry_points.txt").write_text(f"[judge_eval.readers]\n{points}haus = haus:SHAPE\n")
    (tmp_path / "x.json").write_text('{"rows": [{"frage": "q", "treffer": ["a"]}]}')
    script = (
        "from judge_eval.data.reading import open_dataset\nremarks = []\n"
        "[found] = open_dataset('x.json', on_remark=lambda text, line: remarks.append(text))\n"
        "print(*remarks, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    remarks = done.stdout.splitlines()
    assert len(remarks) == 4, remarks
    for name, fault in {
        "bruch": "KeyError: 'no luck'", "kaputt": "register a `Shape`",
        "los": "No module named 'none_such'", "wrack": "ZeroDivisionError",
    }.items():  # fmt: skip
        assert any(f"the installed reader '{name}' was skipped" in text and fault in text for text in remarks), (
            name,
            remarks,
        )


def test_a_format_is_added_as_one_file(tmp_path: Path) -> None:
    """A module in the folder of shapes brings its formats, named nowhere else."""
    package = tmp_path / "judge_eval"
    shutil.copytree(Path(shapes.__file__).parents[2], package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "data" / "shapes" / "searches.py").write_text(
        "from judge_eval.data.shapes.shape import Shape, has\n"
        "SHAPES = (Shape('searches', 'a search with its hits', lambda keys: has(keys, 'search', 'hits'),\n"
        "                lambda record: [{'query': record['search'], 'chunks': record['hits']}]),)\n"
    )
    (tmp_path / "log.jsonl").write_text('{"search": "q", "hits": ["a", "b"]}\n')
    code = "from judge_eval import open_dataset; print([len(t.chunks) for t in open_dataset('log.jsonl')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.stdout == "[2]\n", result.stderr
