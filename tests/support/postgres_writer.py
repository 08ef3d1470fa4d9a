"""Judges a dataset in a process of its own: `python -m tests.support.postgres_writer URL CACHE OUT COUNT`."""

import sys

from judge_eval import Evaluator
from judge_eval.backends.stack import Options
from judge_eval.schema import Trace


def dataset(count: int) -> list[Trace]:
    """Make traces of four chunks."""
    return [
        Trace.parse(
            {
                "id": f"q{n}",
                "query": f"What is thing {n}?",
                "reference": f"Thing {n} is blue.",
                "chunks": [f"Passage {k} says of thing {n} that it is {k}." for k in range(4)],
            }
        )
        for n in range(count)
    ]


def main(base_url: str, cache: str, out: str, count: str) -> None:
    """Judge."""
    options = Options(base_url=base_url, concurrency=32)
    with Evaluator("openai/m", cache=cache, options=options) as evaluator:
        run = evaluator.evaluate(dataset(int(count)), out=out)
    assert run.manifest.tally.failed_verdicts == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
