"""A folder in which a real server judges short chunks with a prompt that asks for little."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from judge_eval import EvalRun
from judge_eval.runs.keeping.lookup import run_folders
from tests.support.command import CommandResult, Shell

SUBJECTS = ("oven", "dough", "basil")
PROMPT = """
id = "real/short"
version = 1
mode = "pointwise"
scale = "binary"
needs = ["reference"]
max_tokens = {cap}
system = "Does the chunk support the reference? Answer with a short JSON object."
contract = '{{"evidence": words, "reason": words, "instruction_in_chunk": true|false, "verdict": true|false}}'
user = '''
<question $mark>$query</question $mark>
<reference $mark>$reference</reference $mark>
$chunks
'''
chunk = '''
<chunk $mark>
$text
</chunk $mark>
'''
titled_chunk = "<chunk $mark>$title: $text</chunk $mark>"
"""


class RealRuns:
    """Runs of `judge-eval` in a folder of its own, by processes of their own.

    Args:
        folder: Empty.
        chunks: The texts of each trace; 3 traces of 2 short chunks if None.
        cap: The most tokens of a reply.
    """

    def __init__(self, folder: Path, chunks: Sequence[Sequence[str]] | None = None, cap: int = 48) -> None:
        self.shell = Shell(folder)
        if chunks is None:
            chunks = [(f"The {subject} is ready at noon.", f"No {subject} is left.") for subject in SUBJECTS]
        rows = [
            {"id": f"t{n}", "query": "When is it ready?", "reference": "At noon.", "chunks": texts}
            for n, texts in enumerate(chunks)
        ]
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (folder / "short.toml").write_text(PROMPT.format(cap=cap), encoding="utf-8")

    def start(self, url: str, *flags: str, model: str = "llamacpp/smol") -> subprocess.Popen[bytes]:
        """Start to judge the data and return the process."""
        asked = ("run", "data.jsonl", "--model", model, "--base-url", url, "--prompt", "file:short.toml")
        return self.shell.start(*asked, "--out", "runs", *flags)

    def ended(self, process: subprocess.Popen[bytes]) -> CommandResult:
        """Wait for a process of `start`."""
        out, err = process.communicate()
        return CommandResult(process.returncode, out.decode(), err.decode())

    def judge(self, url: str, *flags: str, model: str = "llamacpp/smol") -> CommandResult:
        """Judge the data to the end."""
        return self.ended(self.start(url, *flags, model=model))

    @property
    def run(self) -> EvalRun:
        """The only run of the folder."""
        (folder,) = (each for each, _ in run_folders(self.shell.folder / "runs"))
        return EvalRun.load(folder)
