"""Cards of verdicts that have no reason, of two stages, and of calls that hold many questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun, Evaluator, FakeBackend
from judge_eval.judges import Cascade, Decision, Pointwise
from judge_eval.llm.cache.store import Store
from judge_eval.pages.blind import blind_card
from judge_eval.pages.card import answer_in_words, card_page
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.figures import head
from judge_eval.pages.matrixpage import SeveralRuns
from judge_eval.pages.report import store_at
from judge_eval.pages.rows import Table, haystack
from judge_eval.pages.runpage import run_page
from judge_eval.runs.judging.merge import merge
from judge_eval.runs.judging.recall import Memory
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.schema import NO_REASON
from judge_eval.wire import DecisionAnswer, DecisionQuestion, Level, Request
from tests.support.deciding import MODELS, cascaded, decided
from tests.support.serving import judge, rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Judge the same traces by a decision model, and by a cascade, over one cache."""
    cache = tmp_path_factory.mktemp("deciding") / "cache"
    runs = {"decision": decided(rows()[:5], cache=cache), "cascade": cascaded(rows()[:5], cache=cache)}
    return {**runs, "store": store_at(cache)}


def cards(run: EvalRun, place: int, store: Store | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Make the cards of one trace, and the system messages that they name."""
    systems: list[str] = []
    memory = Memory(run.manifest, store)
    page = card_page(run.results[place], scale_of(run), run.manifest.metrics, memory, systems)
    return page["chunks"], systems


@pytest.mark.parametrize("name", ["decision", "cascade"])
def test_a_card_holds_what_the_verdict_holds(made: dict[str, Any], name: str) -> None:
    """Reason and quote are null where there is none, beside the words for it; probability and stage stand."""
    run = made[name]
    for place, result in enumerate(run.results):
        for card, outcome in zip(cards(run, place, None)[0], result.outcomes, strict=True):
            assert card["reason"] == outcome.reason
            assert card.get("no_reason") == (NO_REASON if outcome.reason is None else None)
            assert card["evidence"] == outcome.evidence
            assert (card["confidence"], card["stage"]) == (outcome.confidence, outcome.stage)
            if outcome.evidence is None:
                assert len(card["text"]) == 1
        assert (NO_REASON in haystack(result)) == any(o.reason is None for o in result.outcomes)


def test_the_call_of_a_decision_shows_questions_and_answers(made: dict[str, Any]) -> None:
    """The rules, the shared input, and each question with its chunk and its answer; once for all chunks."""
    run = made["decision"]
    result = run.results[0]
    actual, systems = cards(run, 0, made["store"])
    (call,) = actual[0]["calls"]
    assert [role for role, _ in call["prompt"]] == ["system", "input"]
    assert "Use only the chunk" in systems[call["prompt"][0][1]]
    assert result.trace.query in call["prompt"][1][1]
    assert result.trace.reference in call["prompt"][1][1]
    pairs = zip(call["questions"], result.trace.chunks, result.outcomes, strict=True)
    for number, (asked, chunk, outcome) in enumerate(pairs, 1):
        assert (asked["name"], asked["chunks"]) == (f"c{number}", (chunk.id,))
        assert chunk.text[:60].replace('"', '\\"') in asked["data"]
        assert asked["answer"] == f"true {outcome.confidence:.2f}, false {1 - outcome.confidence:.2f}"
    assert '"c1": [' in call["reply"]
    assert [card["calls"] for card in actual[1:]] == [[{"same_as": 1}]] * 4
    without = cards(run, 0, None)[0][0]["calls"][0]
    assert [asked["answer"] for asked in without["questions"]] == [None] * 5
    assert "no cache" in without["reply_note"]


def test_a_cascade_shows_the_calls_of_both(made: dict[str, Any]) -> None:
    """A chunk that was escalated has two calls, each with its own prompt, reply and the model's route."""
    run = made["cascade"]
    for place, result in enumerate(run.results):
        actual, _ = cards(run, place, made["store"])
        for card, outcome in zip(actual, result.outcomes, strict=True):
            assert len(card["calls"]) == (2 if outcome.stage == "strong" else 1)
            last = card["calls"][-1]
            if outcome.stage == "strong":
                assert last["route"] == "strong"
                assert outcome.reason in last["reply"]
                assert "questions" not in last
        assert actual[0]["calls"][0]["route"] == "cheap"
        assert "questions" in actual[0]["calls"][0]


def test_replies_of_two_models_are_told_apart(tmp_path: Path) -> None:
    """Both are asked the very same; each card's calls show the reply of the model that was asked."""
    judge_ = Cascade(Pointwise(), Pointwise(), None)
    models = {"cheap": "fake/never", "strong": "fake/overlap"}
    with Evaluator(models, judge=judge_, cache=tmp_path / "cache") as evaluator:
        run = evaluator.evaluate(rows()[:2])
    result, _ = cards(run, 0, store_at(tmp_path / "cache"))
    for card, outcome in zip(result, run.results[0].outcomes, strict=True):
        cheap, strong = card["calls"]
        assert (cheap["model"], strong["model"]) == ("never-1", "overlap-1")
        assert cheap["key"] == strong["key"]
        assert outcome.reason in strong["reply"]
        assert outcome.reason not in cheap["reply"]


def test_a_call_nobody_can_follow_says_so() -> None:
    """Scripted models are never stored, and an odd record of a cascade is a sentence, no error."""
    models = {"cheap": FakeBackend.table({}, default=0), "strong": FakeBackend.table({}, default=1)}
    judge_ = Cascade(Decision(), Pointwise(), 0.9)
    with Evaluator(models, judge=judge_, cache=False) as evaluator:
        run = evaluator.evaluate(rows()[:1])
    assert cards(run, 0, None)[0][0]["calls"][0]["questions"]
    for odd in ({"threshold": "much"}, {"cheap": 3}, {"strong": {}}, {"threshold": [0.9]}):
        result = run.manifest.model_copy(update={"judge": {**run.manifest.judge, **odd}})
        memory = Memory(result)
        assert memory.problem
        assert set(memory.calls(run.results[0])) == {None}


def test_answers_in_words() -> None:
    """Statements are true or false, grades have their shares, and what is missing says why."""
    statement = DecisionQuestion("c1", "Is it so?", {})
    graded = DecisionQuestion("c1", "How much?", {}, (Level("none", "-"), Level("some", "-"), Level("all", "-")))
    assert answer_in_words(statement, DecisionAnswer((0.25, 0.75))) == "true 0.75, false 0.25"
    shares = DecisionAnswer((0.0, 0.92, 0.08))
    assert answer_in_words(graded, shares) == "grade 0 0.00, grade 1 0.92, grade 2 0.08"
    assert answer_in_words(statement, DecisionAnswer((), "refused")) == "no answer (refused)"
    assert answer_in_words(statement, DecisionAnswer((), "unparsable", "odd")) == "no answer (unparsable): odd"


def test_the_head_counts_the_stages(made: dict[str, Any]) -> None:
    """The page says who judged, how, and how many verdicts each stage gave."""
    run = made["cascade"]
    result = run_page(Table(run))["head"]
    assert result["stages"] == run.manifest.tally.stages
    assert result["model"] == "fake/overlap-1, fake/overlap-1"
    assert result["prompt"] == "a cascade (support/decision@1 first, support/binary@2 below 0.90)"
    assert head(made["decision"].manifest)["stages"] == {}
    everything = Cascade(Decision(), Pointwise(), None)
    with Evaluator(MODELS, judge=everything, cache=False) as evaluator:
        all_strong = head(evaluator.evaluate(rows()[:1]).manifest)
    assert all_strong["prompt"] == "a cascade (support/decision@1 first, support/binary@2 for every chunk)"


def test_a_blind_page_tells_nothing_of_the_stages(made: dict[str, Any]) -> None:
    """A card without a label shows no probability, no stage and no call, its own or another chunk's."""
    result = made["cascade"].results[0]
    chunks = result.trace.chunks
    page = card_page(result, scale_of(made["cascade"]), ["AP@5"], Memory(made["cascade"].manifest), [])
    cards = blind_card(page, {chunks[0].id: 1})["chunks"]
    first, *others = sorted(cards, key=lambda card: card["label"] is None)
    assert first["calls"] == []
    for card in others:
        assert not {"stage", "confidence", "no_reason", "calls"} & card.keys()


def test_changed_verdicts_say_which_stage_and_that_there_is_no_reason(made: dict[str, Any]) -> None:
    """A flip between a decision model and an inverted judge has null beside the words for it."""

    def inverted(request: Request) -> str:
        del request
        return '{"evidence": "", "reason": "The opposite.", "verdict": true, "instruction_in_chunk": false}'

    with Evaluator(FakeBackend(inverted), cache=False) as evaluator:
        other = evaluator.evaluate(rows()[:5])
    run = made["cascade"]
    sides = ComparedRuns(Table(run), Table(other))
    moves = [move for line in sides.in_full(sides.changed) for move in line["moves"]]
    before = [move["was"] for move in moves if move["flipped"]]
    assert {item["stage"] for item in before} == {"cheap", "strong"}
    kept = [item for item in before if item["stage"] == "cheap"]
    assert {(item["reason"], item["no_reason"]) for item in kept} == {(None, NO_REASON)}


def test_a_chat_judge_s_page_is_as_it_was() -> None:
    """A plain judge has reasons, no stage and no questions."""
    run = judge(rows()[:1])
    card, *_ = cards(run, 0, None)[0]
    assert card["stage"] is None
    assert "no_reason" not in card
    assert "questions" not in card["calls"][0]


def test_several_runs_side_by_side_name_the_judge_too(made: dict[str, Any]) -> None:
    """A cell of a chunk says that there is no reason, and which judge of a cascade gave the verdict."""
    runs = [made["decision"], made["cascade"], judge(rows()[:5])]
    several = SeveralRuns([Table(run) for run in runs])
    values = [several.in_full(row.place) for row in several.rows]
    cells = [cell for row in values for chunk in row["chunks"] for cell in chunk["cells"]]
    by_run = [cells[place::3] for place in range(3)]
    assert {cell["reason"] for cell in by_run[0]} == {NO_REASON}
    assert {cell["stage"] for cell in by_run[1]} == {"cheap", "strong"}
    assert {cell["stage"] for cell in (*by_run[0], *by_run[2])} == {None}
    assert all((cell["reason"] == NO_REASON) == (cell["stage"] == "cheap") for cell in by_run[1])


def test_merged_shards_count_the_stages_of_all(tmp_path: Path) -> None:
    """The counts of a merged run are the sums of its shards', and those of the run in one piece."""
    shards = []
    for part in (1, 2):
        run = cascaded(rows()[:6], tmp_path / "shards", shard=(part, 2))
        assert run.folder is not None
        shards.append(run.folder)
    merged = merge(shards, tmp_path / "merged")
    assert merged.manifest.tally.stages == cascaded(rows()[:6]).manifest.tally.stages
