"""Time and memory of `pool`, `what-if` and `compare` over several runs of the same questions.

`python -m benchmarks.pool_scale` takes 5 runs of 20,000 questions and 20 chunks: `pool` and `what-if` in under 30 s and
1 GB. Each step is a process of its own, measured by the system's accounting of that process.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks.support import judge_eval
from judge_eval import FakeBackend
from judge_eval.evaluator import Evaluator
from judge_eval.judges.imported import ImportedVerdicts
from judge_eval.schema import BINARY, Verdict

POOLED = 3
"""How many times the length of a list each question's pool is."""
WORDS = 30
"""Of a chunk: about 200 characters."""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="where the runs are made, or stay, in place of a temporary folder")
    parser.add_argument("--only", nargs="*", default=(), help="the first words of the steps to measure")
    args = parser.parse_args()
    with nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        places = [base / f"system{n}" for n in range(args.runs)]
        for number, place in enumerate(places):
            if not place.exists():
                make(place, number, args.questions, args.chunks)
        runs = [str(next(place.iterdir())) for place in places]
        several = ["what-if", *runs]
        steps = {
            "pool": ["pool", *runs],
            "fuse": [*several, "--fuse", "rrf"],
            "fuse, cut": [*several, "--fuse", "combsum", "--cut", "20"],
            "interleave, dedup": [*several, "--interleave", "--dedup", "text", "--cut", "20"],
            "mmr": ["what-if", runs[0], "--rerank", "mmr:lambda=.7"],
            "sweep k, 11 values": [*several, "--fuse", "rrf", "--sweep", "k=0:100:10"],
            "sweep lambda, 5 values": ["what-if", runs[0], "--rerank", "mmr", "--sweep", "lambda=0:1:.25"],
            "threshold fit": ["what-if", runs[0], "--threshold", "fit"],
            "compare": ["compare", *runs[:2]],
            "report": ["report", runs[0], "-o", str(base / "report.html")],
        }
        for name, command in steps.items():
            if not args.only or name.startswith(tuple(args.only)):
                kept = ["--out", str(base / "made")] if command[0] == "what-if" and "--sweep" not in command else []
                took = judge_eval(*command, *kept, cwd=base)
                print(f"{name:<24}{took.wall:8.1f} s {took.cpu:8.1f} s CPU {took.peak_mb:8.0f} MB", flush=True)


def make(place: Path, number: int, questions: int, chunks: int) -> None:
    """Make a system's run: a list drawn from each question's pool, with verdicts that depend on the chunk alone."""
    rng, vocabulary = random.Random(number), random.Random(99)
    words = ["".join(vocabulary.choices("abcdefghijklmnopqrstuvwxyz", k=vocabulary.randint(3, 9))) for _ in range(3000)]

    def chunk(question: int, name: int, rank: int) -> dict[str, object]:
        text = " ".join(random.Random(question * 1000 + name).choices(words, k=WORDS))
        return {"id": f"d{question}-{name}", "text": text, "score": round(20 - rank + rng.random(), 6)}

    data = place.with_suffix(".jsonl")
    with data.open("w") as file:
        for question in range(questions):
            names = sorted(rng.sample(range(POOLED * chunks), chunks), key=lambda n: n * (1 + number / 5) % 17)
            listed = [chunk(question, name, rank) for rank, name in enumerate(names)]
            trace = {"id": f"q{question}", "query": f"What is thing {question}?", "reference": "Blue."}
            file.write(json.dumps({**trace, "chunks": listed}) + "\n")

    def verdict(_: str, name: str) -> Verdict:
        question, _, of = name[1:].partition("-")
        relevant = (int(question) * 7 + int(of) * 13) % 11 < 2
        said = "The passage says what the reference says." if relevant else "The passage is about something else."
        return Verdict(chunk_id=name, grade=int(relevant), relevant=relevant, reason=said, evidence="")

    judge = ImportedVerdicts(verdict, BINARY, {"file": "made", "sha256": "0" * 64, "verdicts": 1, "unmatched": 0})
    with Evaluator(FakeBackend([]), judge=judge, metrics=["AP@5", "MRR", "NDCG@5"], cache=False) as evaluator:
        evaluator.evaluate(data, out=place, label=f"system{number}")
    data.unlink()


if __name__ == "__main__":
    main()
