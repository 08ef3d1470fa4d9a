"""A cascade's fit that was killed goes on."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from judge_eval.study.cascade_file import read_cascade
from tests.support.canned import Canned
from tests.support.command import Shell
from tests.support.unsure_server import MODELS, UnsureServer, dataset
from tests.support.waiting import until


@pytest.mark.slow
def test_a_killed_fit_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    """Killed in the middle of either run, the same command goes on; only calls under way are made twice."""
    shell = Shell(tmp_path)
    data = dataset(tmp_path / "traces.jsonl", 80)
    with UnsureServer() as server:
        call = ("cascade", "fit", data, *MODELS, "--base-url", server.url, "--concurrency", "4")
        key = {"OPENAI_API_KEY": "sk-x"}
        for answered in (60, 220):
            # The other calls hang until the process is gone.
            server.script(*[Canned()] * answered, *[Canned(fate="hang")] * 20)
            process = shell.start(*call, **key)
            until(lambda: server.counts["hang"] >= 4, process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            server._scripted.clear()
            server.counts.clear()
        done = shell(*call, **key)
        assert done.code == 0, done.err
        asked = [json.dumps(body, sort_keys=True) for body in server.calls]
        # What was under way at a kill was not kept: at most four calls (and their look-ahead) each.
        assert len(asked) - len(set(asked)) <= 2 * 6
        assert len({re.sub(r" \d{9}>", ">", item) for item in asked}) == 80 * 3 + 80
        assert read_cascade(tmp_path / "cascade.json").fit.n == 80
