from __future__ import annotations

import json
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.stats_attribution import TwoRuns, draw, parts_coverage, pseudo_values, split, unlike_parts_coverage
from judge_eval import Completion, EvalRun, Evaluator, FakeBackend, Identity, Pointwise, Request, import_verdicts
from judge_eval.compare.attribution import part_of
from judge_eval.compare.compare import compare, traces_to_ask
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.errors import RefusedError, RunError
from judge_eval.judges import Cascade, Decision
from judge_eval.metrics import GradeTable, parse_metric
from judge_eval.stats import compare_paired
from judge_eval.views.findings import attribution_sentence, headlines
from judge_eval.views.gate_sentences import check_sentence
from tests.support.notes import note_sentences
from tests.support.verdicts import judged, traces_of

METRICS = ["AP@3", "RR@3", "P@3"]
NAMES = [f"t{k:02d}" for k in range(24)]


def run_of(lists: dict[str, str], relevant: set[tuple[str, str]], judge: str, **settings: Any) -> EvalRun:
    """A run over lists of one-letter chunks; the judges "a" and "b" are asked by unlike prompts."""
    grades = {**dict.fromkeys(relevant, 1), **settings.pop("failed", {})}
    prompt = {"a": "support/binary", "b": "relevance/binary"}[judge]
    return judged(traces_of(lists), grades, metrics=METRICS, prompt=prompt, **settings)


def shuffled(seed: int) -> tuple[dict[str, str], dict[str, str], set[tuple[str, str]], set[tuple[str, str]]]:
    """Lists of two retrievers that share most chunks, and the relevant chunks of two judges that differ in some."""
    rng = np.random.default_rng(seed)
    first, second, by_one, by_two = {}, {}, set(), set()
    for name in NAMES:
        letters = [chr(97 + k) for k in rng.permutation(6)]
        first[name] = "".join(letters[:4])
        second[name] = "".join(rng.permutation(letters[:3] + letters[4:5]))
        for letter in letters:
            if rng.random() < 0.45:
                by_one.add((name, letter))
            if ((name, letter) in by_one) != (rng.random() < 0.2):
                by_two.add((name, letter))
    return first, second, by_one, by_two


def brute_force(
    lists: dict[str, str], own: set[tuple[str, str]], other: set[tuple[str, str]], there: dict[str, str], metric: str
) -> float:
    """The mean of a list under the other judge, over all patterns of the chunks that this judge never saw.

    Their chances follow from all shared chunks with the own verdict, and from those of the trace by how alike they are.
    """
    chance = {}
    for was in (False, True):
        by_trace = [[(n, c) in other for c in lists[n] if c in there[n] and ((n, c) in own) is was] for n in lists]
        rate = float(np.mean([y for ys in by_trace for y in ys]))
        pairs = [
            (a - rate) * (b - rate) for ys in by_trace for i, a in enumerate(ys) for j, b in enumerate(ys) if i != j
        ]
        alike = min(0.99, max(0.0, float(np.mean(pairs)) / (rate * (1 - rate))))
        for n, ys in zip(lists, by_trace, strict=True):
            chance[n, was] = (rate * (1 - alike) + alike * sum(ys)) / (1 - alike + alike * len(ys))
    values = []
    for name, chunks in lists.items():
        chances = [float((name, c) in other) if c in there[name] else chance[name, (name, c) in own] for c in chunks]
        value = 0.0
        for pattern in product((0, 1), repeat=len(chunks)):
            weight = np.prod([p if bit else 1 - p for p, bit in zip(chances, pattern, strict=True)])
            if weight:
                value += weight * parse_metric(metric).compute(GradeTable.from_rows([list(pattern)], maximum=1))[0]
        values.append(value)
    return float(np.mean(values))


@pytest.mark.parametrize("metric", METRICS)
def test_parts_are_those_of_the_definition(metric: str) -> None:
    """Each part is Shapley's share of the four means, with unknown verdicts enumerated; together the difference."""
    first, second, single, two = shuffled(3)
    result = compare(run_of(first, single, "a"), run_of(second, two, "b"))
    part = result.attribution(metric)
    assert part is not None
    own = [result[metric].baseline_mean, result[metric].candidate_mean]
    crossed = [brute_force(first, single, two, second, metric), brute_force(second, two, single, first, metric)]
    retrieval = (crossed[1] - own[0] + own[1] - crossed[0]) / 2
    assert part.retrieval.value == pytest.approx(retrieval, abs=1e-12)
    assert part.retrieval.value + part.judge.value == pytest.approx(result[metric].difference, abs=1e-12)
    tops = [(first[n][:3], second[n]) for n in NAMES] + [(second[n][:3], first[n]) for n in NAMES]
    assert part.shared == pytest.approx(sum(c in there for top, there in tops for c in top) / (6 * len(NAMES)))


def test_identical_retrieval_is_all_judge() -> None:
    """Where both runs hold the same lists, retrieval's part and its interval are exactly 0, failures or not."""
    first, _, single, two = shuffled(4)
    failed = {(n, first[n][0]): RefusedError("no") for n in NAMES[:3]}
    result = compare(run_of(first, single, "a"), run_of(first, two, "b", failed=failed))
    for metric in METRICS:
        part = result.attribution(metric)
        assert part is not None
        assert (part.retrieval.value, part.retrieval.interval, part.shared) == (0.0, (0.0, 0.0), 1.0)
        assert part.judge.value == pytest.approx(result[metric].difference)


def test_one_judge_is_not_split() -> None:
    """Runs of the same judge have no attribution: all of the difference is retrieval."""
    first, second, single, _ = shuffled(5)
    assert compare(run_of(first, single, "a"), run_of(second, single, "a")).attributions == ()


def test_a_model_that_the_server_calls_otherwise_is_another_judge() -> None:
    """One alias, one prompt, and a server that names two versions: the difference is split, and both are named."""
    runs = []
    for version, irrelevant in (("gpt-x-2026-10", ""), ("gpt-x-2026-11", "b")):

        def script(request: Request, version: str = version, irrelevant: str = irrelevant) -> Completion:
            side = request.chunk_ids[0] in ("a", irrelevant or "a")
            reply = {"instruction_in_chunk": False, "reason": "", "evidence": "", "verdict": side}
            return Completion(json.dumps(reply), model=version)

        with Evaluator(FakeBackend(script), metrics=METRICS, prompt="support/binary", cache=False) as evaluator:
            runs.append(evaluator.evaluate(traces_of(dict.fromkeys(NAMES, "abc"))))
    assert [run.manifest.tally.served for run in runs] == [("gpt-x-2026-10",), ("gpt-x-2026-11",)]
    result = compare(*runs)
    assert "by the judge (gpt-x-2026-10 to gpt-x-2026-11)" in headlines(result)[0]
    assert note_sentences(result.warnings) == ("servers called the model gpt-x-2026-10 there, gpt-x-2026-11 here",)
    assert compare(runs[0], runs[0]).attributions == ()


def test_a_server_that_names_each_reply_fills_no_manifest() -> None:
    """More names than models can have say nothing of versions: none is kept, and no other judge is seen in them."""
    numbers, reply = count(), {"instruction_in_chunk": False, "reason": "", "evidence": "", "verdict": False}
    backend, runs = FakeBackend(lambda _: Completion(json.dumps(reply), model=f"m-{next(numbers)}")), []
    data = {name: "".join(chr(0x4E00 + place) for place in range(20)) for name in NAMES[:8]}
    for _ in range(2):
        with Evaluator(backend, metrics=METRICS, prompt="support/binary", cache=False) as evaluator:
            runs.append(evaluator.evaluate(traces_of(data)))
    assert [(run.manifest.tally.calls, run.manifest.tally.served) for run in runs] == [(160, ()), (160, ())]
    assert compare(*runs).warnings == ()


def test_a_stage_that_was_never_asked_is_no_other_judge() -> None:
    """A cascade whose strong model decided nothing in one run is one judge; one whose model has a new name is not."""
    judge, runs = Cascade(Decision(), Pointwise(), 0.9), []
    for confidence, version in ((0.99, "1"), (0.6, "1"), (0.6, "2")):
        models = {
            "cheap": FakeBackend.table({"a": {"verdict": True, "confidence": confidence}}),
            "strong": FakeBackend.table({"a": True}),
        }
        for name, model in models.items():
            model.identity = Identity("fake", f"{name}-{version}")
        with Evaluator(models, judge=judge, metrics=METRICS, cache=False) as evaluator:
            run = evaluator.evaluate(traces_of(dict.fromkeys(NAMES, "a")))
        backend = {"provider": "panel", "members": {"cheap": {"model": "c"}, "strong": {"model": "s"}}}
        runs.append(run.replace(manifest=run.manifest.replace(backend=backend)))
    assert [run.manifest.tally.served for run in runs[:2]] == [("cheap-1",), ("cheap-1", "strong-1")]
    for first, second in ((0, 1), (1, 0)):
        result = compare(runs[first], runs[second])
        assert (result.warnings, result.attributions) == ((), ())
    assert note_sentences(compare(runs[1], runs[2]).warnings) == (
        "servers called the model cheap-1, strong-1 there, cheap-2, strong-2 here",
    )
    assert compare(runs[0], runs[2]).attributions


def test_imported_verdicts_are_named_by_their_files(tmp_path: Path) -> None:
    """The sentence names the files alone; one warning has their digests."""
    runs = []
    for judge in "ab":
        file = tmp_path / f"{judge}.qrels"
        file.write_text("".join(f"{n} 0 {c} {int(c == judge)}\n" for n in NAMES for c in "abc"), encoding="utf-8")
        runs.append(import_verdicts(file, traces_of(dict.fromkeys(NAMES, "abc")), metrics=METRICS))
    result = compare(*runs)
    assert " by the judge (import/a.qrels to import/b.qrels), " in headlines(result)[0]
    (warning,) = note_sentences(result.warnings)
    assert warning.startswith("the judges differ (verdicts imported from a.qrels (sha256 ")


def test_the_first_sentence_says_whose_change_it_is() -> None:
    """The split stands first: the difference, the judge's part with who took whose place, retrieval's part."""
    first, second, single, two = shuffled(6)
    result = compare(run_of(first, single, "a"), run_of(second, two, "b"))
    assert "by the judge (" in headlines(result)[0]
    assert "by retrieval; " in headlines(result)[0]
    assert headlines(result)[0].endswith("of the chunks have both verdicts")
    assert len(headlines(result)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("fallen", "words"), [(2, "no difference in P@3 is shown: -0."), (20, "P@3 fell by 0.")])
def test_the_split_says_that_a_metric_fell_only_if_the_interval_leaves_0_out(fallen: int, words: str) -> None:
    """Of 24 traces 2 or 20 lose a relevant verdict: the first is no difference shown, whatever the sign of the mean."""
    lists = dict.fromkeys(NAMES, "abc")
    every = {(n, c) for n in NAMES for c in "ab"}
    result = compare(run_of(lists, every, "a"), run_of(lists, every - {(n, "a") for n in NAMES[:fallen]}, "b"))
    part = result.attribution("P@3")
    assert part is not None
    assert attribution_sentence(part).startswith(words)
    assert " by the judge (" in attribution_sentence(part)
    assert attribution_sentence(part).endswith("100% of the chunks have both verdicts")
    assert " is worse" not in headlines(result)[1]  # the same retrieval: its scores are worse, not it
    assert (" scores worse: AP@3 -0." in headlines(result)[1]) is (fallen == 20)
    same = compare(run_of(lists, every, "a"), run_of(lists, every, "b")).attribution("P@3")
    assert same is not None
    assert attribution_sentence(same).startswith("no difference in P@3 is shown: +0.000 [")


def test_a_gate_across_judges_is_on_retrieval() -> None:
    """A stricter judge alone does not fail a limit on a drop; it does where the limit is on the total."""
    lists = {f"t{k:03d}": "abc" for k in range(60)}
    lenient = {(n, c) for n in lists for c in "ab"}
    strict = {(n, "b") for n in lists}
    runs = run_of(lists, lenient, "a"), run_of(lists, strict, "b")
    result = compare(*runs)
    (kept,) = check_gates([runs[1]], Gates(max_drop=("AP@3=0.05",)), result)
    (broken,) = check_gates([runs[1]], Gates(max_drop=("AP@3=0.05",), gate_on="total"), result)
    assert (kept.outcome, broken.outcome) == ("passed", "failed")
    assert "did not fall by retrieval" in check_sentence(kept)
    assert "the judge's part is left out, 100% of the chunks have both verdicts" in check_sentence(kept)
    assert kept.value == 0.0


def test_a_fall_of_retrieval_fails_under_any_judge() -> None:
    """A retriever that lost its relevant chunks fails the limit though the new judge is more lenient."""
    names = [f"t{k:03d}" for k in range(60)]
    values = {(n, c) for n in names for c in "abx"}
    two = {(n, c) for n in names for c in "abcx"}
    before, after = dict.fromkeys(names, "abxy"), dict.fromkeys(names, "ycba")
    runs = run_of(before, values, "a"), run_of(after, two, "b")
    (check,) = check_gates([runs[1]], Gates(max_drop=("AP@3=0.05",)), compare(*runs))
    assert check.outcome == "failed"


def test_few_shared_chunks_widen_and_may_leave_it_open() -> None:
    """The interval is an envelope of what unshared chunks can be: in the sentence, the table and for gates."""
    part = split(draw(np.random.default_rng(9), 150, 0.3, (0.1, 0.1)), "AP@5")
    assert "since only 3" in attribution_sentence(part)
    assert attribution_sentence(part).endswith(
        "% of the chunks have both verdicts; `compare --judge-again` asks about the others"
    )
    assert "it cannot be told whether by retrieval [" in attribution_sentence(part)
    far = split(draw(np.random.default_rng(9), 400, 0.5, (0.0, 0.4)), "AP@5")
    assert far.judge.interval is not None
    assert (
        f"[{far.judge.interval[0]:+.3f}, {far.judge.interval[1]:+.3f}] by the judge (a to b), it"
        in attribution_sentence(far)
    )
    assert "it cannot be told how much by retrieval [" in attribution_sentence(far)
    for side in (part.retrieval, part.judge, far.retrieval, far.judge):
        assert side.interval is not None
        assert side.lower is not None
        assert max(side.interval[0], side.lower) < side.value


@pytest.mark.parametrize(("traces", "overlap"), [(30, 0.5), (30, 0.3), (50, 0.8), (20, 1.0)])
def test_the_simulation_computes_what_the_command_does(traces: int, overlap: float) -> None:
    """Parts and intervals of the fast simulation are those of `attributions`."""
    runs = [draw(np.random.default_rng(seed), traces, overlap, (0.03, 0.06)) for seed in (1, 2)]
    sides = [[np.concatenate([getattr(r, name)[k] for r in runs]) for k in (0, 1)] for name in ("lists", "verdicts")]
    retrieval, judge, through, reach = pseudo_values(TwoRuns(tuple(sides[0]), tuple(sides[1])), 2)  # type: ignore[arg-type]
    for k, each in enumerate(runs):
        made = split(each, "AP@5")
        for part, values, sign in ((made.retrieval, retrieval[k], 1), (made.judge, judge[k], -1)):
            reaches = float(min(sign * reach[k])), float(max(sign * reach[k]))
            same = part_of(values, sign * through[k], None, 1.0, reach=reaches)
            for field in ("value", "interval", "lower", "upper", "reach"):
                assert getattr(part, field) == pytest.approx(getattr(same, field), abs=1e-6)


@pytest.mark.slow
def test_intervals_cover_the_true_parts() -> None:
    """Of 150 draws of 60 traces with rare or one-sided flips, an interval misses the true part at most 18 times."""
    flips = ("2% to relevant", "10% to relevant", "5% both ways")
    lines = parts_coverage(150, flips=flips, overlaps=(0.8,), sizes=(60,), population=40_000)
    assert len([line for line in lines if line.low == 0.93]) == 6
    assert all(line.rate >= 0.88 for line in lines if line.low == 0.93)


@pytest.mark.slow
def test_the_envelope_fades_and_covers_other_relevance_and_flips() -> None:
    """Unshared chunks half as often relevant that flip twice as often: covered, and no step where more are shared."""
    lines = unlike_parts_coverage(60, flips=("10% to relevant",), overlaps=(0.65,), sizes=(300,), population=40_000)
    assert all(line.rate >= 0.88 for line in lines if line.low == 0.93)
    assert all(line.rate <= 0.12 for line in lines if line.name.startswith("bound "))
    assert min(line.rate for line in lines if line.name.startswith("  without its envelope")) < 0.75
    widths = []
    for overlap in (0.2, 0.4, 0.59, 0.61, 0.8, 1.0):
        part = split(draw(np.random.default_rng(5), 600, overlap, (0.05, 0.05)), "AP@5").retrieval
        widths.append(part.reach[1] - part.reach[0])
    assert widths == sorted(widths, reverse=True)
    assert widths[3] > 0.8 * widths[2]
    assert widths[-1] == 0


@pytest.mark.parametrize(("metric", "failed"), [*((m, False) for m in METRICS), ("AP@3", True)])
def test_a_gate_gets_no_easier_because_the_judge_changed(metric: str, failed: bool) -> None:
    """The same verdicts under two prompts: bounds and outcomes of every limit are those under one prompt."""
    first, second, single, _ = shuffled(8)
    for lists in (first, second):
        lists |= {f"{name}{k}": f"{lists[name]}" for k in range(2) for name in NAMES}
    single |= {(f"{name}{k}", c) for k in range(2) for name, c in single}
    broken = {"failed": {(NAMES[0], first[NAMES[0]][0]): RefusedError("no")}} if failed else {}
    before, after = run_of(first, single, "a", **broken), {j: run_of(second, single, j, **broken) for j in "ab"}
    made = {judge: compare(before, run) for judge, run in after.items()}
    part = made["b"].attribution(metric)
    assert part is not None
    whole = made["a"][metric]
    if not failed:
        assert part.retrieval.value == pytest.approx(whole.difference)
        assert (part.retrieval.interval, part.retrieval.lower, part.retrieval.upper) == (
            pytest.approx((whole.interval.low, whole.interval.high)) if whole.interval else None,
            whole.lower, whole.upper,
        )  # fmt: skip
    for limit in (0.0, 0.02, 0.05, 0.1, 0.16, 0.3):
        gates = Gates(max_drop=(f"{metric}={limit}",), non_inferior=(f"{metric}={limit or 0.5}",))
        outcomes = {judge: [c.outcome for c in check_gates([after[judge]], gates, made[judge])] for judge in "ab"}
        assert outcomes["a"] == outcomes["b"]


def test_few_flips_give_a_part_the_interval_of_few_differences() -> None:
    """Of 30 traces of which 3 flip, a part has Gaffke's interval, as the same differences of one judge have."""
    column = np.zeros(30)
    column[:3] = 0.5
    part = part_of(column, np.zeros(30), None, 1.0)
    whole = compare_paired(np.full(30, 0.25), 0.25 + column, limits=(0.0, 1.0), planning=False)
    assert whole.interval is not None
    assert whole.interval.method == "gaffke"
    assert (part.interval, part.lower, part.upper) == (
        pytest.approx((whole.interval.low, whole.interval.high)), whole.lower, whole.upper,
    )  # fmt: skip


def test_equal_texts_of_a_list_are_paired_in_order() -> None:
    """A text that stands twice in both lists is shared twice, and a third time not at all."""
    lists = np.array([[0, 0, 1]]), np.array([[0, 0, 0]])
    verdicts = np.array([[1, 0]]), np.array([[1, 0]])
    part = split(TwoRuns(lists, verdicts), "P@3")
    assert part.shared == pytest.approx(4 / 6)


def test_asking_again_fills_the_baseline_with_the_candidates_verdicts() -> None:
    """With every unshared chunk of the baseline asked, one crossed mean is known and not estimated."""
    first, second, single, two = shuffled(3)
    before, after = run_of(first, single, "a"), run_of(second, two, "b")
    traces = traces_to_ask(before, after, "P@4", 1000)
    assert {(t.id, c.id) for t in traces for c in t.chunks} == {
        (n, c) for n in NAMES for c in first[n][:4] if c not in second[n]
    }
    again = run_of({t.id: "".join(c.id for c in t.chunks) for t in traces}, two, "b")
    part, plain = (compare(before, after, metrics=["P@4"], again=each).attribution("P@4") for each in (again, None))
    assert part is not None
    assert plain is not None
    known = float(np.mean([sum((n, c) in two for c in first[n][:4]) / 4 for n in NAMES]))
    own = [float(np.mean([sum((n, c) in by for c in lists[n][:4]) / 4 for n in NAMES]))
           for lists, by in ((first, single), (second, two))]  # fmt: skip
    crossed = brute_force(second, two, single, first, "P@4")
    assert part.retrieval.value == pytest.approx((crossed - own[0] + own[1] - known) / 2, abs=1e-12)
    assert part.shared > plain.shared


def test_runs_without_a_common_trace_have_no_chunks_to_ask() -> None:
    """Nothing can be asked again if no trace is in both runs: an error says so, as that of the comparison."""
    first = run_of({"t1": "abc"}, set(), "a")
    with pytest.raises(RunError, match="no trace in common"):
        traces_to_ask(first, run_of({"t2": "abc"}, set(), "b"), "P@3", 5)


def test_the_chunks_asked_first_move_the_metric_most() -> None:
    """With one chunk to ask, none of another list or rank is worth more: rank 1 before rank 3 for RR."""
    lists = dict.fromkeys(NAMES[:8], "abc")
    others = {n: "def" if n == NAMES[0] else "abc" for n in NAMES[:8]}
    judged_by = {(n, c) for n in NAMES[:8] for c in "ad" if n > NAMES[2]}
    (trace,) = traces_to_ask(
        run_of(lists, judged_by, "a"), run_of(others, judged_by | {(NAMES[1], "a")}, "b"), "RR@3", 1
    )
    assert (trace.id, [c.id for c in trace.chunks]) == (NAMES[0], ["a"])
