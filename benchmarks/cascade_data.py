"""A cascade end to end on real questions: cost, coverage, agreement, AP of cheap, strong and both.

Run with `python -m benchmarks cascade_data`; reads hotpotqa and clapnq from the folder that
JUDGE_EVAL_CONFORMANCE_DATA names. The judges are made of the labels: the cheap one is wrong in 12% and less
sure then, the strong one in 3%. Two thirds of the traces fit the threshold, the others are judged. Prices
are assumed: $0.10 a million tokens in for the cheap judge, $2 in and $8 out for the strong one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from judge_eval import Evaluator, Options, Trace
from judge_eval.data.reading import open_dataset
from judge_eval.eval_run import EvalRun
from judge_eval.judges import Cascade
from judge_eval.judges.cascade import cascade_of
from judge_eval.judges.judge import OnRoute
from judge_eval.llm.backend import Identity
from judge_eval.llm.fake import rules
from judge_eval.llm.fake.fake_backend import FakeBackend
from judge_eval.schema import Call, Stage
from judge_eval.stats import mean_interval
from judge_eval.study.cascade_file import CascadeFile
from judge_eval.trials import PairedPilot
from judge_eval.wire import Completion, Request

DATA = {"hotpotqa": "hotpotqa/distractor.jsonl", "clapnq": "clapnq/answerable.jsonl"}
CHEAP_ERRORS, STRONG_ERRORS = 0.12, 0.03
PRICES = {"cheap": (0.10, 0.0), "strong": (2.0, 8.0)}
"""US dollars a million tokens, in and out."""


def draw(*parts: str) -> float:
    """Draw a number from [0, 1) that depends on texts alone."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:7], "big") / (1 << 56)


def labelled_judge(traces: Sequence[Trace], name: str, errors: float) -> FakeBackend:
    """Return a judge that says what the labels say, but for a stated share; wrong ones are less sure.

    The confidence of right verdicts lies from .60 to 1.00, mostly high, that of wrong ones from .50 to .90,
    mostly low.
    """
    labels = {(t.id, c.id): bool(c.label) for t in traces for c in t.chunks}

    def opinion(request: Request, chunk_id: str) -> rules.Opinion:
        key = (request.trace_id, chunk_id)
        wrong = draw(name, *key) < errors
        relevant = labels[key] != wrong
        point = draw(name, "sure", *key)
        sure = 0.5 + 0.4 * point**2 if wrong else 1.0 - 0.4 * point**2
        return rules.Opinion(
            relevant,
            request.passages[0].text[:60] if relevant else "",
            "By the label." if not wrong else "Against the label.",
            confidence=sure if relevant else 1 - sure,
        )

    def answer(request: Request) -> str | Completion:
        return rules.reply(request, [opinion(request, ids[0]) for ids in request.chunks_by_passage()])

    return FakeBackend(answer, identity=Identity("fake", name), keep=0)


@dataclass(frozen=True)
class Row:
    """What one judge did."""

    name: str
    run: EvalRun
    cost: float
    """US dollars of a thousand verdicts."""
    tokens: float
    """Of a thousand verdicts."""


def priced(calls: Sequence[Call], stage: str) -> float:
    """Return what calls cost in US dollars at the assumed prices."""
    given, made = PRICES[stage]
    return sum(c.input_tokens * given + c.output_tokens * made for c in calls) / 1e6


def row(name: str, run: EvalRun) -> Row:
    """Count what a run's verdicts took; the judges' names stand in its calls."""
    calls = [call for result in run.results for call in result.calls]
    verdicts = run.manifest.tally.verdicts
    cost = sum(priced([call], "cheap" if call.model == "cheap" else "strong") for call in calls)
    tokens = sum(call.input_tokens + call.output_tokens for call in calls)
    return Row(name, run, 1000 * cost / verdicts, 1000 * tokens / verdicts)


def agreement(run: EvalRun, truth: dict[tuple[str, str], bool]) -> float:
    """Return the share of chunks on whose relevance a run agrees with another judge or with labels."""
    values = [(r.trace_id, outcome) for r in run.results for outcome in r.outcomes]
    return fmean(o.kind == "verdict" and o.relevant == truth[trace, o.chunk_id] for trace, o in values)


def by_trace(run: EvalRun, truth: dict[tuple[str, str], bool]) -> float:
    """Return the same for a random chunk of a random trace: what the bound is about."""
    each = []
    for r in run.results:
        values = [o for o in r.outcomes if o.kind == "verdict"]
        each.append(fmean(o.relevant != truth[r.trace_id, o.chunk_id] for o in values))
    return fmean(each)


def compare(name: str, path: Path, seed: int) -> None:
    """Fit a cascade on two thirds of a dataset, judge the others in three ways, and print them."""
    traces = [t for t in open_dataset(path) if t.chunks]
    random.Random(seed).shuffle(traces)
    fitting, judging = traces[: 2 * len(traces) // 3], traces[2 * len(traces) // 3 :]
    models = {
        "cheap": labelled_judge(traces, "cheap", CHEAP_ERRORS),
        "strong": labelled_judge(traces, "strong", STRONG_ERRORS),
    }
    judge = cascade_of("decisions/cheap", "openai/strong", threshold=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        Evaluator(models, judge=judge, metrics=["AP@10"], cache=False, options=Options()) as evaluator,
    ):
        names: dict[Stage, tuple[str, str]] = {
            "cheap": ("decisions/cheap", "support/binary"),
            "strong": ("openai/strong", "support/binary"),
        }
        pilot = PairedPilot(evaluator, names, seed=seed)
        drawn = pilot.draw(fitting)
        file: CascadeFile = pilot.fit(drawn, pilot.judge(drawn, Path(folder)))
        fitted = Cascade(judge.cheap, judge.strong, file.fit.threshold, guarantee=file.guarantee)
        rows = [
            row("cheap", evaluator.with_judge(OnRoute(judge.cheap, "cheap")).evaluate(judging)),
            row("strong", evaluator.with_judge(OnRoute(judge.strong, "strong")).evaluate(judging)),
            row("cascade", evaluator.with_judge(fitted).evaluate(judging)),
        ]
    show(name, file, judging, rows)


def show(name: str, file: CascadeFile, judging: Sequence[Trace], rows: Sequence[Row]) -> None:
    """Print what was fitted, and the three judges side by side."""
    labels = {(t.id, c.id): bool(c.label) for t in judging for c in t.chunks}
    strong = {
        (r.trace_id, o.chunk_id): o.relevant for r in rows[1].run.results for o in r.outcomes if o.kind == "verdict"
    }
    fit = file.fit
    bound = "none" if fit.bound is None else f"{fit.bound:.3f}"
    at = "everything escalates" if fit.threshold is None else f"from {fit.threshold:.2f}"
    print(
        f"{name}: fitted on {fit.n} traces: {at}, {fit.errors} errors of {fit.allowed} allowed, bound "
        f"{bound}, kept {fit.coverage:.0%}; judged: {len(judging)} other traces, {len(labels)} chunks"
    )
    print(
        f"{'judge':8} {'$ / 1,000':>10} {'tokens':>9} {'kept':>6} {'as strong':>10} {'risk':>7} "
        f"{'as labels':>10} {'AP@10':>7}  AP@10 minus strong's [95%]"
    )
    before = [result.scores["AP@10"] for result in rows[1].run.results]
    for each in rows:
        stages = each.run.manifest.tally.stages
        kept = {"cheap": 1.0, "strong": 0.0}.get(each.name)
        if kept is None:
            kept = stages.get("cheap", 0) / max(1, sum(stages.values()))
        scores = [result.scores["AP@10"] for result in each.run.results]
        moves = [a - b for a, b in zip(scores, before, strict=True) if a is not None and b is not None]
        moved = mean_interval(moves)
        ends = f"[{moved.interval.low:+.3f}, {moved.interval.high:+.3f}]" if moved.interval else ""
        print(
            f"{each.name:8} {each.cost:>10.4f} {each.tokens:>9,.0f} {kept:>6.0%} "
            f"{agreement(each.run, strong):>10.1%} {by_trace(each.run, strong):>7.3f} "
            f"{agreement(each.run, labels):>10.1%} {each.run['AP@10'] or 0:>7.3f}  "
            f"{'' if each.name == 'strong' else f'{fmean(moves):+.3f} {ends}'}"
        )
    print()


def main() -> None:
    """Compare on each dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", metavar="DATASET", help=f"of {', '.join(DATA)}")
    args = parser.parse_args()
    named = os.environ.get("JUDGE_EVAL_CONFORMANCE_DATA")
    if named is None:
        print("skipped: JUDGE_EVAL_CONFORMANCE_DATA names no folder of data")
        return
    for name in args.names or DATA:
        compare(name, Path(named) / DATA[name], args.seed)


if __name__ == "__main__":
    main()
