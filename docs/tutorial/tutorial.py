"""Judge two retrievers of this documentation, a hybrid of them, and two chunk sizes.

`python docs/tutorial/tutorial.py [MODEL [retrievers]]` keeps the runs in the folder `runs` and writes `tutorial.html`;
with `retrievers` it ends before the chunk sizes, whose claims are too hard for small models.
"""

import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each core embeds a text of its own

from search import bm25, cut, minilm

from judge_eval import EvalRun, evaluate, what_if

QUESTIONS = Path(__file__).with_name("questions.jsonl")
MODEL = sys.argv[1] if len(sys.argv) > 1 else "fake/overlap"


def opening(comparison: object) -> str:
    """Return what a comparison says before its tables, without the notes."""
    lines = str(comparison).partition("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("note:"))


# Two retrievers, and a hybrid of both.
chunks = cut(words=120)
by_words = evaluate(QUESTIONS, MODEL, retriever=bm25(chunks), label="bm25", out="runs")
by_meaning = evaluate(QUESTIONS, MODEL, retriever=minilm(chunks), label="minilm", out="runs")
hybrid = what_if([by_words, by_meaning], fuse="rrf", cut=5, label="hybrid", out="runs")
print(by_words, by_meaning, hybrid, sep="\n")
print(opening(by_words.compare(by_meaning)))
print(opening(by_words.compare(hybrid)))
report = [sys.executable, "-m", "judge_eval", "report", "label:bm25", "label:minilm", "-o", "tutorial.html"]
subprocess.run(report, check=True)
if "retrievers" in sys.argv[2:]:
    sys.exit()


# Two chunk sizes.
def cut_to(words: int, count: int) -> EvalRun:
    """Judge, claim by claim, what BM25 finds in chunks of about so many words."""
    return evaluate(
        QUESTIONS,
        MODEL,
        retriever=bm25(cut(words), count),
        mode="claims",
        metrics=["ClaimRecall@300w", "ClaimRecall@700w"],
        label=f"cut-{words}",
        out="runs",
    )


small, large = cut_to(60, count=16), cut_to(300, count=6)
print(opening(small.compare(large)))
