from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend, Member, Panel, Pointwise, Trace, import_verdicts, what_if
from judge_eval.errors import ConfigError, DataError, MetricError, RunError
from judge_eval.judges import Cascade, Decision
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.judging.verify import verify
from judge_eval.study.members import member_agreement
from judge_eval.views.pool import sweep_sentence
from judge_eval.views.run_remarks import remarks_of
from judge_eval.whatif import sweep
from judge_eval.wire import Request
from tests.support.claiming import cell
from tests.support.claims import claimed, run_by_claims
from tests.support.deciding import MODELS, RESTS, THRESHOLD
from tests.support.notes import note_sentences

LISTS = {"A": {"d1": 9.0, "d2": 7.0, "d3": 4.0, "d4": 1.0}, "B": {"d3": 0.9, "d5": 0.8, "d1": 0.5}}
GRADES = {"d1": 0, "d2": 1, "d3": 1, "d4": 0, "d5": 1}


def run_of(label: str, scores: dict[str, float | None], without: str = "", grades: dict[str, int] = GRADES) -> EvalRun:
    """Make a run of two equal questions with these scores; the chunk `without` has no verdict."""
    traces = [
        Trace(
            id=f"q{n}",
            query=f"Question {n}?",
            chunks=[{"id": c, "text": f"text of {c}", "score": score} for c, score in scores.items()],
        )
        for n in range(2)
    ]
    known = {(t.id, c.id): grades[c.id] for t in traces for c in t.chunks if c.id != without}
    return import_verdicts(known, traces, metrics=["P@2", "AP@3"], label=label)


def both(**more: str) -> list[EvalRun]:
    """Return the two runs."""
    return [run_of(name, dict(scores), more.get(name, "")) for name, scores in LISTS.items()]


def order(run: EvalRun) -> list[str]:
    """Return the chunks of the first question."""
    return [chunk.id for chunk in run.results[0].trace.chunks]


def test_a_fusion_is_a_run_of_the_old_verdicts(tmp_path: Path) -> None:
    """The fused list has each chunk's verdict and its score; the run is kept, verified, and names its parents."""
    runs = both()
    made = what_if(runs, fuse="rrf", out=tmp_path)
    assert order(made) == ["d1", "d3", "d2", "d5", "d4"]
    first = made.results[0]
    assert [outcome.grade for outcome in first.outcomes if outcome.kind == "verdict"] == [0, 1, 1, 1, 0]
    assert first.trace.chunks[0].score == pytest.approx(1 / 61 + 1 / 63)
    assert (made["P@2"], made["AP@3"], made.label) == (0.5, pytest.approx((1 / 2 + 2 / 3) / 2), "rrf")
    assert made.folder is not None
    assert verify(made.folder).condition == "whole"
    source = made.manifest.judge["imported"]
    assert isinstance(source, dict)
    assert source["what_if"] == {"recipe": "rrf", "conflicts": "majority", "runs": [run.id for run in runs]}
    assert judged_by(made.manifest) == "the verdicts of A and B put into new lists (rrf)"
    assert made.manifest.tally.calls == 0


def test_a_comparison_with_a_parent_knows_that_the_judge_is_the_same() -> None:
    """No warning says that the judges differ; that the chunks do is a note."""
    runs = both()
    comparison = runs[0].compare(what_if(runs, fuse="rrf"))
    assert comparison.warnings == ()
    assert comparison.paired == (2,)
    assert "the retrieved chunks differ" in note_sentences(comparison.notes)[0]


def test_what_nobody_judged_stays_open() -> None:
    """A chunk without a verdict is unjudged in the new list, and the mean has bounds; another run fills it."""
    made = what_if(both(B="d5"), fuse="combsum", metrics=["P@3"])
    assert order(made) == ["d3", "d1", "d5", "d2", "d4"]
    assert made.aggregate("P@3").bounds == pytest.approx((1 / 3, 2 / 3))
    opened = what_if(both(B="d5"), fuse="weighted:a=.3", metrics=["P@2"])
    aggregate = opened.aggregate("P@2")
    assert (aggregate.n_failed, aggregate.bounds) == (2, (0.5, 1.0))
    assert [outcome.why for _, outcome in opened.failures()] == ["unjudged"] * 2
    assert what_if(both(A="d3"), fuse="rrf").manifest.tally.failed_verdicts == 0


def test_only_what_nobody_judged_is_asked_about(tmp_path: Path) -> None:
    """`judge_missing` asks about the open chunk of each question and no other; known verdicts stay as they were."""
    asked: list[str] = []

    def reply(request: Request) -> str:
        asked.extend(passage.text for passage in request.passages)
        return '{"evidence": "text of d5", "reason": "", "instruction_in_chunk": false, "verdict": true}'

    judge = Evaluator(FakeBackend(reply), prompt="relevance/binary", cache=False)
    made = what_if(both(B="d5"), fuse="combsum", metrics=["P@3"], judge_missing=judge, out=tmp_path)
    assert asked == ["text of d5"] * 2
    assert (made["P@3"], made.manifest.tally.calls, made.status) == (2 / 3, 2, "done")
    assert "the other verdicts are of A and B, put into new lists (combsum)" in judged_by(made.manifest)
    assert verify(made.folder or tmp_path).condition == "whole"
    graded = Evaluator(FakeBackend(reply), prompt="relevance/graded", cache=False)
    with pytest.raises(ConfigError, match=r"on the scale 0-1 \(relevant from 1\), the judge's on 0-3"):
        what_if(both(B="d5"), fuse="rrf", judge_missing=graded)


def test_a_fitted_cascade_promises_nothing_of_new_lists() -> None:
    """Most verdicts of such a run are another judge's, so the bound of the fit is not said of it."""
    judge = Cascade(Decision("relevance/decision"), Pointwise("relevance/binary"), THRESHOLD, guarantee=RESTS)
    with Evaluator(MODELS, judge=judge, cache=False) as evaluator:
        made = what_if(both(B="d5"), fuse="combsum", metrics=["P@3"], judge_missing=evaluator)
    assert made.manifest.tally.failed_verdicts == 0
    said = " ".join(remark.text for remark in remarks_of(made.manifest) if remark.about == "cascade")
    assert "nothing bounds how often the verdicts of these lists are wrong" in said
    assert "in at most" not in said


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cut": 2}, ["d1", "d2"]),
        ({"threshold": "score>=4"}, ["d1", "d2", "d3"]),
        ({"threshold": "score <= 4.5", "cut": 1}, ["d3"]),
        ({"rerank": "mmr:lambda=1"}, ["d1", "d2", "d3", "d4"]),
    ],
)
def test_one_run_is_cut_in_several_ways(settings: dict[str, object], expected: list[str]) -> None:
    """A cutoff, a threshold by score, and a reranking of one run."""
    assert order(what_if(both()[:1], **settings)) == expected  # type: ignore[arg-type]


def test_repeated_texts_are_dropped_and_alike_ones_go_down() -> None:
    """`dedup` drops the second of two equal texts; maximal marginal relevance moves what says the same."""
    texts = {"a": "the office opens at nine", "b": "the office opens at nine", "c": "parking is free"}
    trace = Trace(id="q", query="Q?", chunks=[{"id": c, "text": text} for c, text in texts.items()])
    run = import_verdicts({("q", c): 1 for c in texts}, [trace], metrics=["P@2"])
    assert order(what_if([run], dedup=True)) == ["a", "c"]
    assert order(what_if([run], rerank="mmr:lambda=.3")) == ["a", "c", "b"]


def test_interleaving_takes_turns() -> None:
    """Two runs by turns, without a score."""
    made = what_if(both(), interleave=True, cut=3)
    assert order(made) == ["d1", "d3", "d2"]
    assert made.results[0].trace.chunks[0].score is None


@pytest.mark.parametrize(
    ("runs", "settings", "message"),
    [
        (2, {}, "2 runs make one list by"),
        (2, {"fuse": "rrf", "interleave": True}, "one of the two"),
        (1, {"fuse": "rrf"}, "one run is neither fused"),
        (1, {}, "say what to try"),
        (1, {"cut": 0}, "cut 0: write a whole number from 1"),
        (1, {"threshold": "score>4"}, "write score>=x"),
    ],
)
def test_settings_that_do_not_fit_are_refused(runs: int, settings: dict[str, object], message: str) -> None:
    """Each error says what to write."""
    with pytest.raises(ConfigError, match=message):
        what_if(both()[:runs], **settings)  # type: ignore[arg-type]


def test_scores_that_are_missing_or_rise_are_refused() -> None:
    """Distances are no scores: a fusion of scores refuses them and names the one of ranks."""
    a, b = both()
    rising = run_of("R", {"d1": 0.1, "d2": 0.2})
    for other, message in ((rising, "scores rise with the rank"), (run_of("N", {"d1": None}), "has no score")):
        with pytest.raises(DataError, match=rf'{message}; .fuse="rrf"'):
            what_if([a, other], fuse="combsum")
        assert what_if([b, other], fuse="rrf").manifest.tally.traces == 2
    with pytest.raises(DataError, match="a threshold needs"):
        what_if([run_of("N", {"d1": None})], threshold="score>=1")


def test_runs_that_disagree_are_settled_by_the_stated_rule() -> None:
    """Of two runs the first counts; `refuse` makes no run."""
    other = run_of("C", dict(LISTS["B"]), grades={**GRADES, "d1": 1})
    made = what_if([both()[0], other], fuse="rrf", metrics=["P@1"])
    assert made["P@1"] == 0.0
    with pytest.raises(RunError, match="'d1' of question 'q0'"):
        what_if([both()[0], other], fuse="rrf", conflicts="refuse")


def noisy(label: str, questions: int, seed: int) -> EvalRun:
    """Make a run of many questions whose scores say nothing of the verdicts."""
    rng = np.random.default_rng(seed)
    traces, known = [], {}
    for n in range(questions):
        names = [f"d{k}" for k in rng.permutation(12)[:6]]
        chunks = [{"id": c, "text": f"{c} of {n}", "score": 1.0 - k / 10} for k, c in enumerate(names)]
        traces.append(Trace(id=f"q{n}", query=f"Question {n}?", chunks=chunks))
        known |= {(f"q{n}", c): int((n * 7 + int(c[1:]) * 5) % 3 == 0) for c in names}
    return import_verdicts(known, traces, metrics=["AP@5", "P@3"], label=label)


def test_a_sweep_is_each_what_if_and_a_winner_held_out() -> None:
    """Each point is the what-if of its value; the held-out mean takes for each half what the other half chose."""
    runs = [noisy("A", 40, 1), noisy("B", 40, 2)]
    report = sweep(runs, "a=0:1:.25", fuse="weighted", metric="AP@5", seed=4)
    assert [point.value for point in report.points] == [0.0, 0.25, 0.5, 0.75, 1.0]
    made = [what_if(runs, fuse=f"weighted:a={value}", metrics=["AP@5"]) for value in (0, 0.25, 0.5, 0.75, 1)]
    assert [point.mean.value for point in report.points] == pytest.approx([run["AP@5"] for run in made])
    shift = [run["AP@5"] - runs[0]["AP@5"] for run in made]
    assert [point.difference.value for point in report.points] == pytest.approx(shift)
    table = np.array([[result.scores["AP@5"] for result in run.results] for run in made]).T
    half = np.random.default_rng(4).permutation(40) % 2
    best = [int(table[half == side].mean(axis=0).argmax()) for side in (0, 1)]
    assert report.chosen == tuple(report.points[place].value for place in best)
    held = np.where(half == 0, table[:, best[1]], table[:, best[0]])
    assert report.held_out.value == pytest.approx(held.mean())
    assert f"AP@5 is {held.mean():.4f} [" in sweep_sentence(report)


@pytest.mark.parametrize("populations", [5, pytest.param(12, marks=pytest.mark.slow)])
def test_a_winner_by_chance_is_not_shown_as_one(populations: int) -> None:
    """Over populations in which no value is better, the held-out winner gains nothing, the best point does."""
    best, held = [], []
    for seed in range(populations):
        runs = [noisy("A", 30, seed), noisy("B", 30, seed + 100)]
        report = sweep(runs, "a=0:1:.1", fuse="weighted", metric="P@3", seed=seed)
        middle = np.mean([point.mean.value for point in report.points])
        best.append(max(point.mean.value for point in report.points) - middle)
        held.append(report.held_out.value - middle)
    assert np.mean(best) > 0.02
    assert abs(np.mean(held)) < np.mean(best) / 2


@pytest.mark.parametrize(
    ("values", "settings", "fault"),
    [
        ("k=1", {"fuse": "rrf"}, "1 values"),
        ("q=1,2", {"fuse": "rrf"}, "one of k, a, lambda"),
        ("k", {"fuse": "rrf"}, "PARAMETER=VALUES"),
        ("a=0,1", {"fuse": "rrf"}, "a is a parameter of weighted"),
        ("lambda=0,1", {"fuse": "rrf"}, "a parameter of mmr"),
        ("cut=1.5,2", {"fuse": "rrf"}, "whole number"),
        ("k=0:10:0", {"fuse": "rrf"}, "FROM:TO:STEP"),
        ("k=0:100000:1", {"fuse": "rrf"}, "at most 101"),
        ("k=1,x", {"fuse": "rrf"}, "not a number"),
        ("lambda=0,7", {"rerank": "mmr"}, "mmr:lambda=7.0: lambda must be between 0 and 1"),
    ],
)
def test_values_that_cannot_be_tried_are_refused(values: str, settings: dict[str, str], fault: str) -> None:
    """One message says what is wrong with the values, or to which setting the parameter belongs."""
    with pytest.raises((ConfigError, MetricError), match=fault):
        sweep(both(), values, **settings)  # type: ignore[arg-type]


def test_cuts_and_thresholds_are_swept_over_one_run() -> None:
    """`cut` and `threshold` need no fusion; each point is the what-if of its value."""
    (run, _) = both()
    cuts = sweep([run], "cut=1,3", metric="P@2")
    assert [point.mean.value for point in cuts.points] == [0.0, 0.5]
    least = sweep([run], "threshold=2,8", metric="P@2")
    made = [what_if([run], threshold=f"score>={value}", metrics=["P@2"])["P@2"] for value in (2, 8)]
    assert [point.mean.value for point in least.points] == made


def by_panel(label: str, names: str) -> EvalRun:
    """Judge chunks named by letters; the members disagree about every vowel."""
    chunks = [{"id": name, "text": f"text of {name}", "score": 9.0 - k} for k, name in enumerate(names)]
    trace = Trace.parse({"id": "q", "query": "Q?", "reference": "R.", "chunks": chunks})
    members = {"mild": dict.fromkeys(names, 1), "strict": {name: int(name not in "aeiou") for name in names}}
    panel = Panel([Member(name, Pointwise(), name) for name in members])
    models = {name: FakeBackend.table(grades) for name, grades in members.items()}
    with Evaluator(models, judge=panel, cache=False, metrics=["P@2"]) as evaluator:
        return evaluator.evaluate(trace, label=label)


def test_votes_go_with_their_chunks(tmp_path: Path) -> None:
    """A what-if of a panel's run has each chunk's votes at its new rank, in its folder too."""
    made = what_if([by_panel("A", "abc")], rerank="mmr:lambda=0", cut=2, out=tmp_path)
    (result,) = EvalRun.load(made.folder or tmp_path).results
    strict = tuple(int(chunk.id not in "aeiou") for chunk in result.trace.chunks)
    assert result.votes == {"mild": (1, 1), "strict": strict}
    agreement = member_agreement(made)
    assert agreement is not None
    assert [(member.name, member.n) for member in agreement.members] == [("mild", 2), ("strict", 2)]


def test_votes_of_two_runs_are_joined_where_the_same_voters_were_asked() -> None:
    """Each chunk brings the votes of the run whose verdict counts; beside a run without votes there are none."""
    panels = [by_panel("A", "abc"), by_panel("B", "dbe")]
    (result,) = what_if(panels, interleave=True).results
    assert [chunk.id for chunk in result.trace.chunks] == ["a", "d", "b", "e", "c"]
    assert result.votes == {"mild": (1, 1, 1, 1, 1), "strict": (0, 1, 1, 0, 1)}
    plain = Trace.parse({"id": "q", "query": "Q?", "reference": "R.", "chunks": [{"id": "x", "text": "text of x"}]})
    alone = import_verdicts({("q", "x"): 1}, [plain], metrics=["P@2"])
    (mixed,) = what_if([panels[0], alone], interleave=True).results
    assert mixed.votes == {}


def missing_one(names: str = "ab") -> tuple[list[EvalRun], Panel, dict[str, FakeBackend]]:
    """Return a panel's run and one whose only chunk has no verdict, with a panel that accepts everything."""
    plain = Trace.parse({"id": "q", "query": "Q?", "reference": "R.", "chunks": [{"id": "x", "text": "text of x"}]})
    members = ("mild", "strict")
    panel = Panel([Member(name, Pointwise(), name) for name in members])
    return (
        [by_panel("A", names), import_verdicts({}, [plain], metrics=["P@2"])],
        panel,
        {name: FakeBackend.table({"x": 1}) for name in members},
    )


def test_votes_are_kept_where_missing_chunks_are_judged() -> None:
    """Known chunks keep their votes; the new ones have those of the panel that was asked, or none of another judge."""
    runs, panel, models = missing_one()
    with Evaluator(models, judge=panel, cache=False) as asked:
        (result,) = what_if(runs, interleave=True, judge_missing=asked).results
    assert [chunk.id for chunk in result.trace.chunks] == ["a", "x", "b"]
    assert result.votes == {"mild": (1, 1, 1), "strict": (0, 1, 1)}
    assert len(result.calls) == 2
    with Evaluator(FakeBackend.table({"x": 1}), cache=False) as alone:
        (result,) = what_if(runs, interleave=True, judge_missing=alone).results
    assert result.votes == {"mild": (1, None, 1), "strict": (0, None, 1)}


def test_claims_are_kept_where_missing_chunks_are_judged() -> None:
    """The judge is asked about the claims of the run, not about new ones, and ClaimRecall counts all chunks."""
    run = run_by_claims([claimed("q", {"c1": "+!.", "c2": ".!."})], metrics=["ClaimRecall@3"])
    (result,) = run.results
    asked: list[Request] = []

    def reply(request: Request) -> str:
        asked.append(request)
        return json.dumps({"instruction_in_chunk": False, "claims": [cell(2, quote="Passage 2 of q")]})

    with Evaluator(FakeBackend(reply), mode="claims", cache=False) as evaluator:
        made = what_if([run], cut=3, judge_missing=evaluator)
    assert [passage.text for request in asked for passage in request.passages] == ["Passage 2 of q."]
    (completed,) = made.results
    assert completed.claims is not None
    assert result.claims is not None
    assert completed.claims.claims == result.claims.claims
    assert completed.scores["ClaimRecall@3"] == 1
    other = import_verdicts({("q", "q-1"): 1}, [result.trace], metrics=["P@2"])
    with (
        Evaluator(FakeBackend(reply), mode="claims", cache=False) as evaluator,
        pytest.raises(ConfigError, match="not by one set of claims"),
    ):
        what_if([other], cut=3, judge_missing=evaluator)


def test_claim_recall_of_a_cut_list() -> None:
    """Claims stay: those that the kept chunks cover count, and what chunks cover together is open after a cut."""
    known, open_ = {"c1": "+..", "c2": "..+"}, {"c1": "~~.", "c2": "+.."}
    run = run_by_claims(
        [claimed("known", known), claimed("open", open_, together={"c1": True})],
        metrics=["ClaimRecall@3", "Sufficiency@3"],
    )
    before = [result.scores for result in run.results]
    whole = what_if([run], cut=3)
    assert [result.claims for result in whole.results] == [result.claims for result in run.results]
    assert [result.scores for result in whole.results] == before
    (first, second) = what_if([run], cut=2).results
    assert (before[0]["ClaimRecall@3"], first.scores["ClaimRecall@3"]) == (1.0, 0.5)
    assert (before[1]["Sufficiency@3"], second.scores["Sufficiency@3"]) == (1.0, None)
    assert second.claims is not None
    assert second.claims.together == {"c1": None}
    report = sweep([run], "cut=1,2,3", metric="ClaimRecall@3")
    assert [point.mean.value for point in report.points] == [0.5, 0.5, 0.75]
