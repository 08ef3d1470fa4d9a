"""`run --retriever`: a function of the working folder finds the chunks of questions."""

from __future__ import annotations

import json
import time

from judge_eval.runs.keeping.lookup import list_runs
from tests.support.desk import Desk

QUESTIONS = [{"id": f"q{n}", "query": f"When do you open on day {n}?", "reference": "At nine."} for n in range(20)]

MODULE = """
import os
def retrieve(query):
    if "day 3" in query and not os.path.exists("ok"):
        raise TimeoutError("away")
    return ["We open at nine.", "Park behind the house."]
class Index:
    def search(self, query):
        return ["We open at nine."]
index = Index()
"""


def test_the_command_line_takes_a_function_of_the_working_folder(desk: Desk) -> None:
    """`--retriever module:function`: a failure is exit code 3 with its name, and `--resume` asks for it alone."""
    name = f"found_{time.time_ns()}"  # modules stay imported in this process
    (desk.folder / f"{name}.py").write_text(MODULE, encoding="utf-8")
    (desk.folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS), "utf-8")
    command = ("run", "questions.jsonl", "-m", "fake/overlap", "--retriever")
    first = desk(*command, f"{name}:retrieve")
    assert first.code == 3
    assert (
        "failed for 1 of 20 questions, which are in no mean (q3 (When do you open on day 3?): TimeoutError: away)"
        in first.out
    )
    assert "--resume asks the retriever for what is missing alone" in first.err
    (desk.folder / "ok").touch()
    again = desk(*command, f"{name}:retrieve", "--resume")
    assert again.code == 0, again.err
    assert list_runs(desk.folder / "runs")[0][1].status == "done"
    assert desk(*command, f"{name}:index").code == 0
    for wrong, message in (("nope:x", "nope cannot be imported"), (f"{name}:x", "there is no 'x'"), (name, "write")):
        refused = desk(*command, wrong)
        assert refused.code == 2
        assert message in refused.err
    assert desk(*command, f"{name}:retrieve", "--dry-run").code == 2
