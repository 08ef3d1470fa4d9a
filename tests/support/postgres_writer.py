"""Judges a dataset in a process of its own: `python -m tests.support.postgres_writer URL CACHE OUT COUNT`."""

import sys

from judge_eval import Evaluator
from judge_eval.llm.options import Options
from tests.support.runs import things


def main(base_url: str, cache: str, out: str, count: str) -> None:
    """Judge."""
    options = Options(base_url=base_url, concurrency=32)
    with Evaluator("openai/m", cache=cache, options=options) as evaluator:
        run = evaluator.evaluate(things(int(count), 4), out=out)
    assert run.manifest.tally.failed_verdicts == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
