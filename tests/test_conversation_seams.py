"""A conversation, a flag and what was searched go through every door of the product."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from judge_eval import Client, Evaluator, FakeBackend, Trace, open_dataset
from judge_eval.compare.compare import compare
from judge_eval.compare.gate import check_gates
from judge_eval.compare.options import Gates
from judge_eval.data.claimfiles import ClaimsFile, read_claims
from judge_eval.errors import DataError, RefusedError, RunError
from judge_eval.eval_run import EvalRun
from judge_eval.export.inspect_log import inspect_log
from judge_eval.export.tables import trace_rows
from judge_eval.llm.backend import Identity
from judge_eval.llm.local.classifier import Classifier
from judge_eval.pages.blind import blind_card
from judge_eval.pages.card import card_page
from judge_eval.pages.rows import Table, row_of
from judge_eval.pages.runpage import failed_verdicts
from judge_eval.pools.pool import Pool
from judge_eval.pools.scoring import score_pool
from judge_eval.runs.columns.verdict_table import table_from, verdict_table
from judge_eval.runs.judging.references import References
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.study.agree import agree
from judge_eval.study.sample import blind_csv, blind_jsonl, choose_traces
from judge_eval.views.run_remarks import remarks_of
from judge_eval.whatif import what_if
from judge_eval.wire import Request
from tests.support.command import FIXTURES, Shell

HUT = FIXTURES / "conversation.jsonl"


@pytest.fixture(scope="module")
def run() -> EvalRun:
    """The four questions of a conversation, judged."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        return evaluator.evaluate(HUT)


def test_people_who_label_see_the_turns(run: EvalRun) -> None:
    """In the file to fill in, in the table, and on the page that hides the verdicts."""
    chosen = choose_traces(run, 4, seed=1)
    rows = [json.loads(line) for line in blind_jsonl(chosen, run).splitlines()]
    assert {row["id"]: len(row.get("history", [])) for row in rows} == {f"hut-{n}": 2 * (n - 1) for n in range(1, 5)}
    table = {row["trace_id"]: row["conversation"] for row in csv.DictReader(io.StringIO(blind_csv(chosen)))}
    assert table["hut-1"] == ""
    assert table["hut-2"].startswith("user: What does a bed in the Grünwald hut cost?\nassistant: 34 euros")
    page = card_page(run.results[3], scale_of(run), run.manifest.metrics, None, [])
    assert [turn["role"] for turn in blind_card(page, {})["history"]] == ["user", "assistant"] * 3


def test_other_tools_get_the_turns(run: EvalRun) -> None:
    """The log for Inspect as messages, tables as text."""
    sample = json.loads("".join(inspect_log(run)))["samples"][3]
    assert [message["role"] for message in sample["messages"]] == [*["user", "assistant"] * 3, "user"]
    rows = list(trace_rows(run))
    assert [bool(row["conversation"]) for row in rows] == [False, True, True, True]


def test_the_client_sends_them() -> None:
    """Also in the form of another tool."""
    trace = Client("http://127.0.0.1:1").add_trace("q", ["c"], history=[{"type": "human", "content": "before"}])
    assert [(turn.role, turn.content) for turn in trace.history] == [("user", "before")]


def talk(name: str, said: str, **more: object) -> Trace:
    """A question whose words alone say nothing."""
    history = [{"role": "user", "content": said}]
    fields = {"id": name, "query": "And on Sundays?", "reference": "Closed.", "history": history, "chunks": ["Closed."]}
    return Trace.parse({**fields, **more})


def judged(*traces: Trace) -> EvalRun:
    """Judge by counting words."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        return evaluator.evaluate(list(traces))


def test_runs_of_other_conversations_are_not_of_the_same_question() -> None:
    """Neither compared under one id, nor joined into a pool, with the table of the verdicts made from either reader."""
    pool, library = judged(talk("a", "When does the pool open?")), judged(talk("a", "When does the library open?"))
    with pytest.raises(RunError, match="have no trace in common"):
        compare(pool, library)
    with pytest.raises((RunError, DataError)):
        Pool.of([pool, library])
    assert compare(pool, judged(talk("a", "When does the pool open?"))).paired == (1,)


def test_claims_are_of_a_reference_in_its_conversation(tmp_path: Path) -> None:
    """Two conversations with one last turn and one reference have two lines; a file without the turns is of neither."""
    traces = [talk("a", "When does the pool open?"), talk("b", "When does the library open?")]
    references = References(traces)
    assert [len(trace.history) for trace in references.open()] == [1, 1]
    rows = [
        {"query": t.query, "reference": t.reference, "claims": [f"The {t.id} is closed."]}
        | {"history": [turn.model_dump() for turn in t.history]}
        for t in traces
    ]
    path = tmp_path / "claims.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = read_claims(path)
    assert [file.fill(trace).claims[0].text for trace in traces] == ["The a is closed.", "The b is closed."]  # type: ignore[index]
    assert References(traces, file).existing == 2
    path.write_text(json.dumps({"query": "And on Sundays?", "reference": "Closed.", "claims": ["Closed."]}) + "\n")
    with pytest.raises(DataError, match="no claims of this question and reference after this conversation"):
        read_claims(path).fill(traces[0])
    assert isinstance(file, ClaimsFile)


def test_a_local_model_reads_the_end_of_a_long_conversation() -> None:
    """After the question, in about a quarter of its room; a model of entailment reads the reference alone."""
    model = object.__new__(Classifier)
    model.__dict__.update(max_tokens=16, by_reference=False)
    requests: list[Request] = []

    def keep(request: Request) -> str:
        requests.append(request)
        return "{}"

    Evaluator(FakeBackend(keep), cache=False).evaluate(talk("a", "When does the large pool open?"))
    (request, *_) = requests
    assert model._pairs(request) == [("And on Sundays? Closed.\nlarge pool open?", "Closed.")]
    model.__dict__.update(by_reference=True)
    assert model._pairs(request) == [("Closed.", "Closed.")]


@pytest.mark.slow
def test_columns_hold_the_flag_and_what_was_searched(tmp_path: Path) -> None:
    """The light reader and the records give one table."""
    traces = [
        talk("a", "x", search_query="Sunday hours"),
        talk("b", "y", answerable=False),
        talk("c", "z", answerable=True),
    ]
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate(traces, out=tmp_path)
    tables = [verdict_table(EvalRun.load(run.folder or "")), table_from(list(run.results), run.manifest.metrics)]
    for table in tables:
        assert table.unanswerable.tolist() == [False, True, False]
        for name in ("questions", "searches"):
            assert np.array_equal(getattr(table, name), getattr(tables[0], name))
    assert len(set(tables[0].searches.tolist())) == 2


def test_the_unanswerable_turns_of_mtrag(conformance_data: Path) -> None:
    """With annotators as the judge: nothing is never returned, and 18 of 55 have a passage that they marked."""
    traces = list(open_dataset(conformance_data / "conversations" / "mtrag_conversations.jsonl"))
    labels = {(trace.id, chunk.id): chunk.label for trace in traces for chunk in trace.chunks}

    def by_people(request: Request) -> str:
        good = bool(labels[request.trace_id, request.chunk_ids[0]])
        return json.dumps({"evidence": "", "reason": "r", "instruction_in_chunk": False, "verdict": good})

    backend = FakeBackend(by_people, identity=Identity("test", "people"))
    made = Evaluator(backend, prompt="relevance/binary", cache=False).evaluate(traces)
    record = made.manifest.unanswerable
    assert record is not None
    assert (record.traces, record.empty, record.accepted) == (65, 0, 18)
    (line,) = (remark.text for remark in remarks_of(made.manifest) if remark.about == "unanswerable")
    assert line.startswith(
        "65 unanswerable questions, in no mean: nothing returned for 0 (0.0000 [0.0000, 0.0558]); 2.9"
    )


def test_lists_that_are_made_of_two_wordings_have_none() -> None:
    """A what-if keeps conversation, flag and, if all runs searched it, what was searched."""
    first = judged(talk("a", "x", search_query="Sunday hours"), talk("b", "y", search_query="Sunday", answerable=True))
    other = judged(talk("a", "x", search_query="open on Sunday"), talk("b", "y", search_query="Sunday"))
    made = what_if([first, other], fuse="rrf").results
    assert [(len(r.trace.history), r.trace.search_query, r.trace.answerable) for r in made] == [
        (1, None, None),
        (1, "Sunday", True),
    ]
    assert what_if([first], cut=1).results[0].trace.search_query == "Sunday hours"


def test_the_report_of_three_runs_splits_the_loss_by_all_wordings(tmp_path: Path) -> None:
    """Each of the others has its part in one sentence, in the order of the runs."""
    shell = Shell(tmp_path)
    for name, text in (("raw", "Open."), ("rewritten", "Closed."), ("human", "Closed.")):
        rows = [talk(f"q{k}", "x", search_query=f"{name} {k}", chunks=["Other.", text]) for k in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("".join(trace.model_dump_json() + "\n" for trace in rows))
        result = shell("run", f"{name}.jsonl", "--model", "fake/overlap", "--cache", "none", "--label", name, "-q")
        assert result.code == 0, result.err
    labels = ["label:raw", "label:rewritten", "label:human"]
    assert shell("report", *labels, "-o", "matrix.html").code == 0
    told = " ".join(shell("compare", *labels).out.split())
    assert "is the wording's: with rewritten 3 questions gain" in told
    assert "with human 3 questions gain" in told
    assert "is lost with all 3 wordings" in told


def test_agreement_is_of_questions_after_conversations() -> None:
    """Labels of two conversations with one last turn are told apart."""
    rows = []
    for k in range(6):
        chunks = [{"id": "c", "text": "Closed.", "label": 1}, {"id": "d", "text": "Open.", "label": 0}]
        rows.append(talk(f"q{k}", f"before {k}", chunks=chunks, metadata={"session_id": f"s{k % 3}"}))
    found = agree(judged(*rows), None)
    assert (found.n, found.traces, found.confusion) == (12, 6, ((6, 0), (0, 6)))


def test_junit_and_batches_leave_unanswerable_questions_out(tmp_path: Path) -> None:
    """A limit is on the mean of the others; a prompt that needs an answer has no request about them in a batch."""
    shell = Shell(tmp_path)
    rows = [talk("a", "x"), talk("b", "y", answerable=False, reference=None), talk("c", "z", chunks=["Closed.", "No."])]
    (tmp_path / "data.jsonl").write_text("".join(trace.model_dump_json() + "\n" for trace in rows))
    result = shell(
        "run", "data.jsonl", "--model", "fake/overlap", "--cache", "none", "--fail-under", "AP@5=1", "-o", "gate.xml"
    )  # fmt: skip
    assert result.code == 0, result.err
    text = (tmp_path / "gate.xml").read_text()
    assert 'tests="1" failures="0" errors="0"' in text
    assert "1 unanswerable question, in no mean" in text
    result = shell("batch", "export", "data.jsonl", "--model", "openai/m", "--out", "batch", "--cache", "cache")
    assert result.code == 0, result.err
    (requests,) = (tmp_path / "batch").glob("round-1/part-*.jsonl")
    assert len(requests.read_text().splitlines()) == 3


def test_a_dry_run_counts_the_tokens_of_the_turns() -> None:
    """Before anything is paid the cost of a conversation is that of the request with its turns."""
    said = "When does the large pool in the park open? " * 40
    tokens = []
    for trace in (talk("a", said), talk("a", said, history=[])):
        with Evaluator(FakeBackend(lambda _: "{}"), cache=False) as evaluator:
            tokens.append(evaluator.plan([trace])[1].input_tokens)
    assert len(said) / 6 < tokens[0] - tokens[1] < len(said)


def test_a_failed_verdict_of_an_unanswerable_question_opens_no_mean() -> None:
    """It counts as a failure and is asked again, but no mean, bound or gate of the others waits for it."""

    def answer(request: Request) -> str:
        good = {"evidence": "Closed.", "reason": "r", "instruction_in_chunk": False, "verdict": True}
        return "no object" if request.trace_id == "b" else json.dumps(good)

    backend = FakeBackend(answer, identity=Identity("test", "m"))
    with Evaluator(backend, prompt="relevance/binary", metrics=["AP@5"], cache=False) as evaluator:
        made = evaluator.evaluate([talk("a", "x"), talk("b", "y", answerable=False)])
    aggregate = made.aggregates["AP@5"]
    assert (aggregate.mean, aggregate.n, aggregate.n_failed, aggregate.bounds) == (1.0, 1, 0, (1.0, 1.0))
    assert (made.manifest.tally.failed_verdicts, made.manifest.status) == (1, "incomplete")
    assert check_gates([made], Gates(fail_under=("AP@5=1",)))[0].passed


def test_agreement_counts_the_chunks_of_unanswerable_questions() -> None:
    """A verdict on a labelled chunk is one, whatever the question: only means of retrieval leave these out."""
    chunks = [{"id": "c", "text": "Closed.", "label": 1}, {"id": "d", "text": "Open.", "label": 0}]
    rows = [talk(f"q{k}", "x", chunks=chunks, answerable=k != 0) for k in range(3)]
    with Evaluator("fake/overlap", prompt="relevance/binary", cache=False) as evaluator:
        asked = evaluator.evaluate(rows)
    assert asked.aggregates["AP@5"].n == 2
    assert agree(asked, None).n == 6
    silent = judged(*rows)  # a prompt that needs a reference asks nobody about the first: none of its verdicts failed
    assert (agree(silent, None).n, agree(silent, None).failed) == (4, 0)
    failing = FakeBackend.table({("q1", "c"): RefusedError("no")}, default={"verdict": False})
    with Evaluator(failing, cache=False) as evaluator:
        some = evaluator.evaluate(rows)
    assert (agree(some, None).n, agree(some, None).failed) == (3, 1)


def test_nobody_is_asked_is_no_failure_of_a_row_and_nothing_to_label() -> None:
    """The list of traces, its filter and the page agree; people label what has verdicts."""
    chunks = [{"id": "c", "text": "Closed."}]
    silent = judged(*(talk(f"q{k}", "x", chunks=chunks, answerable=k != 0) for k in range(3)))
    table = Table(silent)
    assert [row.failed for row in table.rows] == [row_of(each, scale_of(silent)).failed for each in silent.results]
    assert [row.failed for row in table.rows] == [0, 0, 0]
    assert failed_verdicts(table)["count"] == 0
    assert {each.result.trace_id for each in choose_traces(silent, 2)} == {"q1", "q2"}
    with pytest.raises(DataError, match="2 traces of this run can be labelled"):
        choose_traces(silent, 3)


def test_a_pool_joins_what_two_wordings_found() -> None:
    """The same question searched in two wordings is one question of the pool, with the chunks of both."""
    first = judged(talk("a", "x", search_query="Sunday hours", chunks=[{"id": "c", "text": "Closed."}]))
    other = judged(talk("a", "x", search_query="open on Sunday", chunks=[{"id": "d", "text": "Closed on Sundays."}]))
    report = score_pool(Pool.of([first, other]), ["Recall@5"])
    assert (report.questions, report.chunks, report.relevant, report.n_conflicts) == (1, 2, 2, 0)
