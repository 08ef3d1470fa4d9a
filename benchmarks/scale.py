"""Time and memory of a large run: shards, merge, loading, scoring again, comparing, reporting, measuring, its page.

`python -m benchmarks.scale --traces 1000000 --chunks 10 --shards 4` is the bound: every step under 1 GB.
Each step is a process of its own, measured by the system's accounting of that process. The second run of the
comparison is the first with the verdicts of every tenth trace turned round.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import uuid
from contextlib import nullcontext
from pathlib import Path

from benchmarks.support import measured
from judge_eval.eval_run import EvalRun
from judge_eval.runs.folder.integrity import finished_manifest
from judge_eval.runs.folder.journal import Index, encode
from judge_eval.runs.folder.run_files import MANIFEST, RESULTS
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
TURN = "import sys; from benchmarks.scale import turned; turned(*sys.argv[1:])"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--run", type=Path, help="a run that is there, in place of making one")
    parser.add_argument("--keep", type=Path, help="where to leave the runs, in place of a temporary folder")
    args = parser.parse_args()
    with nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        run = args.run or judged(base, args.traces, args.chunks, args.shards)
        size = json.loads((run / MANIFEST).read_bytes())["tally"]["verdicts"]
        measure("load, one trace, a mean", size, "-c", LOAD, run)
        measure("score again", size, "-c", RESCORE, run)
        other = base / "turned"
        measure("the second run", size, "-c", TURN, run, other)
        read(base, run, other, size, "from the results")
        for each in (run, other):
            measure("write the parts", size, "-m", "judge_eval", "runs", "columnar", each)
        read(base, run, other, size, "from the parts")


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


def read(base: Path, run: Path, other: Path, size: int, how: str) -> None:
    """Compare, measure against labels, and report."""
    third = base / "third"
    if not third.exists():
        measure("the third run", size, "-c", TURN, run, third, 7)
        labels(base / "labels.jsonl", json.loads((run / MANIFEST).read_bytes())["tally"]["traces"], run)
    measure(f"compare, {how}", size, "-m", "judge_eval", "compare", run, other)
    measure(f"compare A B C, {how}", size, "-m", "judge_eval", "compare", run, other, third)
    measure(f"agree, {how}", size, "-m", "judge_eval", "agree", run)
    measure(f"correct, {how}", size, "-m", "judge_eval", "correct", run, "--labels", base / "labels.jsonl")
    measure(f"the page in serve, {how}", size, "-c", SERVE, run)
    report = ("-m", "judge_eval", "report", "--cache", "none", "-o")
    measure(f"report, {how}", size, *report, base / "run.html", run)
    measure(f"report A B, {how}", size, *report, base / "compare.html", run, other)
    measure(f"report A B C, {how}", size, *report, base / "matrix.html", run, other, third)


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
    index, offset = Index(scorer.names), 0
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
            line = encode(result)
            index.add(result, offset, len(line))
            file.write(line)
            offset += len(line)
    update = {"id": str(uuid.uuid4()), "label": f"every {every}", "aggregates": aggregate_all(index, scorer)}
    manifest = finished_manifest(run.manifest.model_copy(update=update), target)
    (target / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")


def measure(name: str, verdicts: int, *arguments: object) -> None:
    """Run a step, and print its seconds, verdicts a second and the most memory it took."""
    took = measured(sys.executable, *map(str, arguments))
    if took.code:
        raise SystemExit(f"{name} ended with {took.code}:\n{took.out}")
    print(_line(name, took.wall, took.cpu, verdicts, took.peak_mb), flush=True)


def _line(name: str, wall: float, cpu: float, verdicts: int, peak: float) -> str:
    speed = f"{verdicts / wall:12,.0f} verdicts/s"
    return f"{name:<32}{wall:8.1f} s {cpu:8.1f} s CPU {speed} {peak:8.0f} MB"


if __name__ == "__main__":
    main()
