from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PLUGIN = """
from judge_eval.data.shapes.shape import Shape

def read(record):
    yield {"query": record["frage"], "chunks": record["treffer"], "reference": record.get("soll")}

SHAPE = Shape("haus", "our house's own", lambda keys: {"frage", "treffer"} <= keys, read,
              frozenset({"frage", "treffer"}), frozenset({"treffer"}))
NOT_A_SHAPE = 7
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
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{head}{script}",
                str(data),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
