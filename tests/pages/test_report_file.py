from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from judge_eval import EvalRun
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.page import pages, web, web_files
from judge_eval.pages.report import embed, store_at
from judge_eval.pages.rows import Table
from judge_eval.runs.folder.labels import Label, add_label, given_labels, with_labels
from judge_eval.runs.judging.recall import Memory
from tests.support.application import CliRunner, app
from tests.support.blocks_of_pages import blocks_of, data_of
from tests.support.reports import compare_report, run_report
from tests.support.serving import judge, rows, scripted

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"


@pytest.mark.slow
def test_the_report_holds_every_trace_and_its_numbers() -> None:
    """The file's data are the run's: means, intervals, and every trace with all its chunks."""
    run = judge(rows(), label="main")
    text = run_report(run)
    data, traces = data_of(text), blocks_of(text)
    assert [m["name"] for m in data["metrics"]] == ["AP@5", "MRR", "NDCG@5"]
    for metric in data["metrics"]:
        assert metric["mean"] == run[metric["name"]]
        assert tuple(metric["interval"]) == run.aggregate(metric["name"]).interval
    assert [t["id"] for t in traces] == [r.trace_id for r in run.results]
    for trace, result in zip(traces, run.results, strict=True):
        assert ["".join(c["text"]) for c in trace["chunks"]] == [c.text for c in result.trace.chunks]


def test_hostile_text_stays_inside_its_string() -> None:
    """No text of a run can end the element it stands in, and the policy names the very script and style."""
    hostile = [{**rows()[0], "id": HOSTILE, "query": HOSTILE, "tags": [HOSTILE]}]
    text = run_report(judge(hostile, label=HOSTILE))
    assert text.count("<script") == 4
    assert text.count("</script>") == 4
    assert "<img" not in text
    assert data_of(text)["rows"][0]["id"] == HOSTILE
    for kind, tag in (("script", 'script type="module"'), ("style", "style")):
        body = re.search(f"<{tag}>(.*?)</{kind}>", text, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body.group(1).encode()).digest()).decode()
        assert f"'sha256-{digest}'" in text
    assert "unsafe" not in text.split("</head>")[0].split("<style>")[0]


def test_the_pages_reach_for_nothing_outside() -> None:
    """Neither script nor style names another site; markup is read in one place, of what Python wrote and escaped."""
    assert [name for name in web_files() if "innerHTML" in web(name)] == ["dom.js"]
    assert web("dom.js").count("innerHTML") == web("dom.js").count("holder.innerHTML = html;") == 1
    for name in web_files():
        code = web(name)
        addresses = [a for a in re.findall(r"https?://[^\s\"'`)]+", code) if "www.w3.org/2000/svg" not in a]
        assert not addresses, name
        for word in ("outerHTML", "insertAdjacentHTML", "document.write", "eval(", "@import"):
            assert word not in code, (name, word)


def test_one_script_out_of_the_modules() -> None:
    """The modules join to one script: no import or export is left, and no name is taken twice."""
    for page in pages().values():
        code = page.code()
        assert not re.search(r"^(import|export)\b", code, re.MULTILINE)
        names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", code, re.MULTILINE)
        assert len(names) == len(set(names))


def test_embed_escapes_what_html_or_javascript_could_mistake() -> None:
    """Signs with a meaning in HTML are written as escapes and read back the same."""
    value = {"a": "</script>&<!--\u2028\u2029", "b": ["é", "🍅"]}
    assert not set("<>&\u2028\u2029") & set(embed(value))
    assert json.loads(embed(value)) == value


@pytest.mark.slow
def test_a_baseline_gives_each_metric_its_paired_difference() -> None:
    """The difference shown is the mean of the per-trace differences, and rows carry their own."""
    shuffled = [{**row, "chunks": row["chunks"][::-1]} for row in rows()]
    old, new = judge(rows()), judge(shuffled)
    data = data_of(run_report(new, old))
    pair = data["metrics"][0]["pair"]
    assert pair["difference"] == pytest.approx(new["AP@5"] - old["AP@5"])
    assert pair["interval"][0] < pair["difference"] < pair["interval"][1]
    assert {row["change"] for row in data["rows"]} == {"retrieval", ""}


def test_compare_names_what_changed() -> None:
    """A reversed list is a change of retrieval, another judge's flip one of the verdict; a warning tells."""
    base = [row for row in rows() if len(row["chunks"]) > 2][:6]
    other = [{**row, "chunks": row["chunks"][::-1]} if i == 0 else row for i, row in enumerate(base)]
    old = judge(base, label="a")
    new = judge(other, label="b")
    page = compare_page(ComparedRuns(Table(old), Table(new)))
    assert page["changes"] == {"retrieval": 1, "same": 5}
    assert page["warnings"] == ()
    assert "the retrieved chunks differ" in page["notes"][0]
    flipped = scripted(base, None, lambda text: {"verdict": True, "evidence": text[:20]})
    page = compare_page(ComparedRuns(Table(old), Table(flipped)))
    assert page["changes"]["verdicts"] >= 5
    message = " | ".join(page["warnings"])
    assert "the model differs in model" in message
    assert "the model differs in provider" in message
    text = compare_report(old, new)
    (changed,) = blocks_of(text)
    assert changed["change"] == "retrieval"
    assert [move["b"] for move in changed["moves"]] == [1, 2, 3, 4, 5][: len(changed["moves"])]


@pytest.mark.slow
def test_the_page_says_what_the_comparison_says() -> None:
    """Difference, interval, p, wins and changes are those of `compare`, clusters and failures included."""
    from judge_eval.compare.compare import compare

    base = [{**row, "metadata": {"cluster": str(i // 3)}} for i, row in enumerate(rows())]
    base[4] = {**base[4], "query": base[4]["query"] + " And why?"}
    turned = [{**row, "chunks": row["chunks"][::-1]} if i % 2 else row for i, row in enumerate(base)]
    turned[6] = {**turned[6], "query": "Something else?"}
    old = judge(base)
    new = scripted(turned, None, lambda t: "no JSON" if len(t) % 13 == 0 else {"verdict": len(t) % 2 == 0})
    result, page = compare(old, new), compare_page(ComparedRuns(Table(old), Table(new)))
    assert page["common"] == result.paired[0] == 37
    assert {name: n for name, n in page["changes"].items() if name != "same"} == result.changed[0]
    for mine, theirs in zip(page["metrics"], result.differences, strict=True):
        assert mine["name"] == theirs.metric
        assert tuple(mine["interval"]) == pytest.approx(theirs.interval)
        got = [mine[name] for name in ("n", "wins", "ties", "losses")]
        assert got == [theirs.n, theirs.wins, theirs.ties, theirs.losses]
        for name in ("difference", "p", "p_holm", "detectable"):
            assert mine[name] == pytest.approx(getattr(theirs, name)), name


def test_other_questions_are_warned_of() -> None:
    """Runs over other questions, or other references, are named as such; other chunks alone are not."""
    old = judge(rows()[:3])
    new = judge([{**row, "reference": "something else"} for row in rows()[:3]])
    first, second = compare_page(ComparedRuns(Table(old), Table(new)))["warnings"]
    assert first.startswith("the dataset differs: 3 traces (docs-001, docs-002, docs-003) have a different question")
    assert second == f"no trace has a value of {', '.join(old.manifest.metrics)} in both runs"


def test_prompt_and_reply_come_back_from_the_cache(tmp_path: Path) -> None:
    """With the cache at hand a card shows the prompt as it was sent and the reply as it came."""
    run = judge(rows()[:4], cache=tmp_path / "cache")
    store = store_at(tmp_path / "cache")
    assert store is not None
    traces = blocks_of(run_report(run, store=store))
    for trace, row in zip(traces, rows(), strict=False):
        for card, chunk in zip(trace["chunks"], row["chunks"], strict=True):
            (call,) = card["calls"]
            assert chunk["text"] in call["prompt"][1][1]
            assert json.loads(call["reply"])["reason"] == card["reason"]
    without = blocks_of(run_report(run))[0]["chunks"][0]["calls"][0]
    assert without["reply"] is None
    assert "no cache" in without["reply_note"]


def test_a_changed_prompt_is_not_shown_as_the_one_used() -> None:
    """Where the prompt's digest differs from the run's, no prompt is rendered and the reason is told."""
    run = judge(rows()[:1])
    judge_told = {**run.manifest.judge, "prompt": {**run.manifest.judge["prompt"], "digest": "0" * 64}}
    memory = Memory(run.manifest.model_copy(update={"judge": judge_told}))
    assert set(memory.calls(run.results[0])) == {None}
    assert "digest differs" in memory.problem


def test_later_labels_take_the_place_of_the_datasets(tmp_path: Path) -> None:
    """The last label of a chunk counts, one taken back does not, and a torn line is passed over."""
    run = judge(rows()[:2], tmp_path)
    assert run.folder is not None
    chunk = run.results[0].trace.chunks[0]
    for value in (0, 1, 0):
        add_label(run.folder, Label(trace_id=run.results[0].trace_id, chunk_id=chunk.id, label=value))
    with (run.folder / "labels.jsonl").open("a") as file:
        file.write('{"torn')
    assert [label.label for label in given_labels(run.folder, 1).values()] == [0]
    assert with_labels(run).results[0].trace.chunks[0].label == 0
    assert [r.trace.chunks[0].label for r in with_labels(run).results][1] == run.results[1].trace.chunks[0].label
    add_label(run.folder, Label(trace_id="q", chunk_id="c", label=1))
    assert len(given_labels(run.folder, 1)) == 2
    (run.folder / "labels.jsonl").unlink()
    add_label(run.folder, Label(trace_id="q", chunk_id="c", label=1))
    add_label(run.folder, Label(trace_id="q", chunk_id="c", label=None))
    assert given_labels(run.folder, 1) == {}


def test_labels_given_later_feed_agreement(tmp_path: Path) -> None:
    """What people label after the run counts where the judge is held against people."""
    from judge_eval.study.agree import agree
    from judge_eval.study.matching import labels_of

    bare = [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()[:4]]
    run = judge(bare, tmp_path)
    assert run.folder is not None
    given = {(r.trace_id, o.chunk_id): o for r in run.results for o in r.outcomes}
    for (trace_id, chunk_id), outcome in given.items():
        assert outcome.kind == "verdict"
        add_label(run.folder, Label(trace_id=trace_id, chunk_id=chunk_id, label=outcome.grade))
    result = agree(run, labels_of(run))
    assert result.n == len(given)
    assert result.figures["accuracy"].value == 1.0


def test_chunks_are_the_same_by_what_they_say() -> None:
    """Chunks whose ids were made from their rank are told apart by their text, equal ones by their order."""
    base = {"id": "q", "query": "What?", "reference": "It is so."}
    old = judge([{**base, "chunks": ["It is so.", "No.", "No."]}])
    new = judge([{**base, "chunks": ["No.", "It is so.", "New."]}])
    (changed,) = blocks_of(compare_report(old, new))
    assert changed["change"] == "retrieval"
    assert [(move["a"], move["b"]) for move in changed["moves"]] == [(2, 1), (1, 2), (None, 3), (3, None)]


def test_failures_are_listed_and_never_numbers(tmp_path: Path) -> None:
    """Every failed verdict stands in the list with its reason, and its trace has no score."""
    run = scripted(rows()[:5], tmp_path, lambda text: "no JSON" if len(text) % 2 else {"verdict": False})
    data = data_of(run_report(EvalRun.load(run.folder)))
    assert data["failures"]["count"] == run.manifest.tally.failed_verdicts > 0
    assert data["failures"]["whys"] == {"unparsable": data["failures"]["count"]}
    for row in data["rows"]:
        assert (row["failed"] > 0) == ("!" in row["strip"])
        if "!" in row["strip"][:5]:
            assert row["scores"]["AP@5"] is None


def test_the_verb_writes_both_kinds_of_report(tmp_path: Path) -> None:
    """`report RUN` writes the run's page, `report A B` the comparison; both names a baseline is an error."""
    judge(rows()[:3], tmp_path / "runs", label="one")
    judge(rows()[:3], tmp_path / "runs", label="two")
    runner = CliRunner()
    common = ["--out", str(tmp_path / "runs"), "--cache", "none", "-o", str(tmp_path / "r.html")]
    result = runner.invoke(app, ["report", "label:two", "--baseline", "label:one", *common])
    assert result.exit_code == 0, result.output
    data = data_of((tmp_path / "r.html").read_text())
    assert (data["page"], data["baseline"]["label"]) == ("run", "one")
    assert runner.invoke(app, ["report", "label:one", "label:two", *common]).exit_code == 0
    data = data_of((tmp_path / "r.html").read_text())
    assert (data["page"], data["a"]["label"], data["b"]["label"]) == ("compare", "one", "two")
    assert runner.invoke(app, ["report", "label:one", "label:two", "--baseline", "latest", *common]).exit_code == 2
