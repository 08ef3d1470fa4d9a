"""Measures a whole cold run beside a bare loop over the SDK: CPU a verdict, wall over ideal.

Run `python -m benchmarks.cold`. A third process times `evaluate` from inside, without its start-up. All send
equal bodies to the same server with the same concurrency, in turn, several times; the ratio is of neighbours,
since absolute times are noisy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.support import dataset, environment, judge_eval, measured, median, server

BARE = """
import asyncio, json, sys
import openai
from judge_eval.data.reading import open_dataset
from judge_eval.judges import Pointwise
from pathlib import Path

url, data, width = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
judge = Pointwise("support/binary")
requests = (request for trace in open_dataset(data) for request in next(judge.plan(trace)))

async def main():
    client = openai.AsyncOpenAI(base_url=url, max_retries=0)
    schema = {"name": "verdict", "strict": True, "schema": dict(judge.form.schema)}
    form = {"type": "json_schema", "json_schema": schema}
    async def work():
        for request in requests:
            answer = await client.chat.completions.create(
                model="m", temperature=0, max_completion_tokens=request.max_tokens, response_format=form,
                messages=[{"role": m.role, "content": m.content} for m in request.messages])
            json.loads(answer.choices[0].message.content)
    await asyncio.gather(*(work() for _ in range(width)))

asyncio.run(main())
"""

INSIDE = """
import sys, time
from pathlib import Path
import openai
from judge_eval import Evaluator, Trace
from judge_eval.llm.options import Options

url, data, width, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
options = Options(base_url=url, concurrency=width)
with Evaluator("openai/m", cache=folder / "cache", options=options) as evaluator:
    # The first trace brings in what is loaded when it is first used, and opens a connection.
    evaluator.evaluate(Trace(query="q?", reference="r", chunks=["t"]))
    started = time.perf_counter()
    evaluator.evaluate(data, out=folder / "runs")
    print(time.perf_counter() - started)
"""


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="*", default=[0.2, 0.05])
    args = parser.parse_args()
    calls = args.traces * args.chunks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = dataset(folder / "data.jsonl", args.traces, args.chunks)
        for latency in args.latency:
            ideal = calls * latency / args.width
            ratios, ours, bares, walls, bare_walls, insides = [], [], [], [], [], []
            with server("--latency", str(latency)) as url:
                for turn in range(args.rounds):
                    env = environment(folder) | {"XDG_CACHE_HOME": str(folder / f"cache-{latency}-{turn}")}
                    bare = measured(sys.executable, "-c", BARE, url, str(data), str(args.width), env=env)
                    if bare.code:
                        raise SystemExit(bare.out)
                    flags = ("--base-url", url, "--concurrency", str(args.width), "-q")
                    run = judge_eval("run", str(data), "--model", "openai/m", *flags, cwd=folder, env=env)
                    own = str(folder / f"inside-{latency}-{turn}")
                    command = (sys.executable, "-c", INSIDE, url, str(data), str(args.width), own)
                    inside = measured(*command, cwd=folder, env=env)
                    if inside.code:
                        raise SystemExit(inside.out)
                    insides.append(float(inside.out.split()[-1]) / ideal)
                    ratios.append(run.cpu / bare.cpu)
                    ours.append(run.cpu / calls * 1e3)
                    bares.append(bare.cpu / calls * 1e3)
                    walls.append(run.wall / ideal)
                    bare_walls.append(bare.wall / ideal)
            print(
                f"{calls} calls, {args.width} in flight, {latency * 1000:.0f} ms: CPU a verdict "
                f"{median(ours):.2f} ms against {median(bares):.2f} ms bare: ratio {median(ratios):.2f}; "
                f"wall over ideal {median(walls):.2f} against {median(bare_walls):.2f}; "
                f"without start-up {median(insides):.2f} ({min(insides):.2f} to {max(insides):.2f})"
            )


if __name__ == "__main__":
    main()
