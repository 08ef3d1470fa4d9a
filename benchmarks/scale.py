"""Time, memory and passes of a large run: shards, merge, loading, comparing, pooling, measuring, reports, pages.

`python -m benchmarks.scale --traces 1000000 --chunks 10 --shards 4` is the bound: every step under 1 GB. Of 20,000
traces every verb and page takes at most 350 MB, of 100,000 at most 500 MB, and 2 passes over the results it is given.
Each step is a process of its own, measured by the system's accounting of that process. The second run of the
comparison is the first with the verdicts of every tenth trace turned round.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from benchmarks.support import measured
from judge_eval.eval_run import EvalRun
from judge_eval.runs.columns.verdict_table import ScoreColumns
from judge_eval.runs.folder.journal import MANIFEST, encode, finished_manifest
from judge_eval.runs.folder.records import RESULTS
from judge_eval.runs.scoring.aggregate import aggregate_all
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer

LOAD = """
import sys
from judge_eval.eval_run import EvalRun
run = EvalRun.load(sys.argv[1])
print(len(run.results), run.results[len(run.results) // 2].trace_id, run["AP@10"])
"""
RESCORE = """
import sys
from judge_eval.runs.scoring.rescore import rescore
from judge_eval.eval_run import EvalRun
print(rescore(EvalRun.load(sys.argv[1]), ["AP@5", "MRR"])["MRR"])
"""
SERVE = """
import sys
from pathlib import Path
from judge_eval.pages.runpage import run_page
from judge_eval.server.library import Library
folder = Path(sys.argv[1])
library = Library(folder.parent)
table = library.table(library.runs()[0][1].id)
print(len(table.rows), len(run_page(table)["slices"]))
"""
LABELLED = """
import json, sys
from pathlib import Path
from judge_eval.eval_run import EvalRun
run = EvalRun.load(sys.argv[1])
with (Path(sys.argv[1]) / "labels.jsonl").open("w") as file:
    for result in run.results[: len(run.results) // 10]:
        for chunk in result.trace.chunks:
            label = {"trace_id": result.trace_id, "chunk_id": chunk.id, "label": 1 - (chunk.label or 0), "by": "Ada"}
            file.write(json.dumps(label) + "\\n")
"""
MATRIX = """
import sys
from judge_eval.eval_run import EvalRun
from judge_eval.pages.matrixpage import SeveralRuns, matrix_page
from judge_eval.pages.rows import Table
several = SeveralRuns([Table(EvalRun.load(each)) for each in sys.argv[1:]])
print(len(several.rows), len(matrix_page(several)["metrics"]))
"""
TURN = "import sys; from benchmarks.scale import turned; turned(*sys.argv[1:])"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--run", type=Path, help="a run that is there, in place of making one")
    parser.add_argument("--keep", type=Path, help="where to leave the runs, in place of a temporary folder")
    parser.add_argument("--cuts", action="store_true", help="measure comparisons of one cut and of two cuts alone")
    args = parser.parse_args()
    with nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        if args.cuts:
            compare_cuts(base, args.traces, args.chunks)
            return
        run = args.run or judged(base, args.traces, args.chunks, args.shards)
        size = json.loads((run / MANIFEST).read_bytes())["tally"]["verdicts"]
        measure("load, one trace, a mean", size, "-c", LOAD, run)
        measure("score again", size, "-c", RESCORE, run)
        other = base / "turned"
        measure("the second run", size, "-c", TURN, run, other)
        read(base, run, other, size)


def compare_cuts(base: Path, traces: int, chunks: int) -> None:
    """Compare lists of chunks of 100 words with the same chunks in another order, and glued two by two."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnop", k=6)) for _ in range(5_000)]
    names = ("first", "reordered", "glued")
    with ExitStack() as opened:  # what this process holds would count as the peak of those that it starts
        files = [opened.enter_context((base / f"{name}.jsonl").open("w", encoding="utf-8")) for name in names]
        for n in range(traces):
            texts = [" ".join(rng.choices(words, k=100)) for _ in range(chunks)]
            fields = {"id": f"q{n}", "query": "What is it?", "reference": texts[rng.randrange(chunks)][:40]}
            glued = [" ".join(texts[place : place + 2]) for place in range(0, chunks, 2)]
            for file, each in zip(files, (texts, texts[::-1], glued), strict=True):
                file.write(json.dumps({**fields, "chunks": each}) + "\n")
    runs: dict[str, Path] = {}
    judge = ("--model", "fake/overlap", "--cache", "none", "--metrics", "AP@10", "-q")
    for name in names:
        out = base / f"{name} runs"
        measure(
            f"run, {name}", traces * chunks, "-m", "judge_eval", "run", base / f"{name}.jsonl", *judge, "--out", out
        )
        (runs[name],) = out.iterdir()
    for name in names[1:]:
        pair = runs["first"], runs[name]
        measure(f"compare with {name}", traces * chunks, "-m", "judge_eval", "compare", *pair, runs=pair)


def judged(base: Path, traces: int, chunks: int, shards: int) -> Path:
    """Judge a synthetic dataset in shards, and return the merged run."""
    data = base / "data.jsonl"
    write(data, traces, chunks)
    size = traces * chunks
    for shard in range(1, shards + 1):
        measure(
            f"run, shard {shard}/{shards}", size // shards, "-m", "judge_eval", "run", data,
            "--model", "fake/hash", "--cache", "none", "--metrics", "AP@10,NDCG@10", "--label", "one",
            "--out", base / "runs", "--shard", f"{shard}/{shards}", "-q",
        )  # fmt: skip
    runs = sorted((base / "runs").iterdir())
    measure("merge", size, "-m", "judge_eval", "runs", "merge", *runs, "--out", base / "merged")
    (run,) = (base / "merged").iterdir()
    return run


def read(base: Path, run: Path, other: Path, size: int) -> None:
    """Compare, pool, measure against labels, and report."""
    third = base / "third"
    if not third.exists():
        measure("the third run", size, "-c", TURN, run, third, 7)
        labels(base / "labels.jsonl", json.loads((run / MANIFEST).read_bytes())["tally"]["traces"], run)
    verb, three = ("-m", "judge_eval"), (run, other, third)
    report = (*verb, "report", "--cache", "none", "-o")
    steps: dict[str, tuple[tuple[object, ...], tuple[Path, ...]]] = {
        "compare A B": ((*verb, "compare"), (run, other)),
        "compare A B C": ((*verb, "compare"), three),
        "pool A B C": ((*verb, "pool"), three),
        "what-if A B, a sweep": ((*verb, "what-if", "--fuse", "rrf", "--sweep", "k=10,60"), (run, other)),
        "agree": ((*verb, "agree"), (run,)),
        "agree A B": ((*verb, "agree"), (run, other)),
        "agree A B C": ((*verb, "agree"), three),
        "correct": ((*verb, "correct", "--labels", base / "labels.jsonl"), (run,)),
        "bias": ((*verb, "bias"), (run,)),
        "the page in serve": (("-c", SERVE), (run,)),
        "the page of three": (("-c", MATRIX), three),
        "report": ((*report, base / "run.html"), (run,)),
        "report A B": ((*report, base / "compare.html"), (run, other)),
        "report A B C": ((*report, base / "matrix.html"), three),
    }
    for name, (command, runs) in steps.items():
        measure(name, size, *command, *runs, runs=runs)
    labelled = base / "labelled"
    if not labelled.exists():
        shutil.copytree(run, labelled)
        measure("labels of a tenth", size, "-c", LABELLED, labelled)
    measure("the page with labels", size, "-c", SERVE, labelled, runs=(labelled,))


def labels(path: Path, traces: int, run: Path) -> None:
    """Write labels of a tenth of the traces, as people give them."""
    rng = random.Random(1)
    chosen = set(rng.sample(range(traces), max(20, traces // 10)))
    with path.open("w") as file:
        for result in EvalRun.load(run).results:
            for chunk in result.trace.chunks if result.position in chosen else ():
                label = {"trace_id": result.trace_id, "chunk_id": chunk.id, "label": rng.randint(0, 1)}
                file.write(json.dumps(label) + "\n")


def write(path: Path, traces: int, chunks: int) -> None:
    """Write a synthetic dataset with labels."""
    rng = random.Random(0)
    with path.open("w") as file:
        for n in range(traces):
            passages = [
                {"id": f"c{k}", "text": f"Passage {k} of thing {n}.", "label": rng.randint(0, 1)} for k in range(chunks)
            ]
            trace = {"id": f"q{n}", "query": f"What is thing {n}?", "reference": "Blue.", "chunks": passages}
            file.write(json.dumps(trace) + "\n")


def turned(folder: str, out: str, every: str = "10") -> None:
    """Write another run: the first one, with the verdicts of every tenth trace (or so) turned round."""
    run, target = EvalRun.load(folder), Path(out)
    target.mkdir(parents=True)
    scorer = Scorer(run.manifest.metrics, scale_of(run))
    columns = ScoreColumns(scorer.names)
    with (target / RESULTS).open("wb") as file:
        for result in run.results:
            if result.position % int(every) == 0:
                outcomes = [
                    o.model_copy(update={"grade": 1 - o.grade, "relevant": not o.relevant})
                    if o.kind == "verdict"
                    else o
                    for o in result.outcomes
                ]
                ((scores, bounds),) = scorer.score([(result.trace, outcomes)])
                update = {"outcomes": tuple(outcomes), "scores": scores, "bounds": bounds}
                result = result.model_copy(update=update)
            columns.add(result)
            file.write(encode(result))
    update = {"id": str(uuid.uuid4()), "label": f"every {every}", "aggregates": aggregate_all(columns.done(), scorer)}
    manifest = finished_manifest(run.manifest.model_copy(update=update), target)
    (target / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")


def measure(name: str, verdicts: int, *arguments: object, runs: Sequence[Path] = ()) -> None:
    """Run a step, and print its seconds, verdicts a second, the most memory it took, and its passes over `runs`."""
    took = measured(sys.executable, *map(str, arguments))
    if took.code:
        raise SystemExit(f"{name} ended with {took.code}:\n{took.out}")
    size = sum((run / RESULTS).stat().st_size for run in runs) / 2**20
    passes = f" {took.read_mb / size:4.1f} passes" if size else ""
    speed = f"{verdicts / took.wall:12,.0f} verdicts/s"
    print(f"{name:<38}{took.wall:8.1f} s {took.cpu:8.1f} s CPU {speed} {took.peak_mb:8.0f} MB{passes}", flush=True)


if __name__ == "__main__":
    main()
