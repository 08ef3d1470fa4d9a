"""`validate-judge`: folders of public sets in each of their shapes."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judge_eval import EvalRun
from judge_eval.data.labelled_sets import read_sets
from judge_eval.data.options import ReadOptions
from judge_eval.pages.compared import ComparedRuns
from judge_eval.pages.comparepage import compare_page
from judge_eval.pages.rows import Table
from judge_eval.server.server_settings import ServerSettings
from tests.support.chat_server import ChatServer
from tests.support.desk import Desk
from tests.support.golden import check_golden
from tests.support.serving import ask, serving

QUERIES = {"q1": "When do swifts leave?", "q2": "How deep is the lake?"}
PASSAGES = {
    "p1": "Swifts leave in the first days of August.",
    "p2": "Swifts eat insects.",
    "p3": "The lake is 254 metres deep.",
    "p4": "Ferries cross the lake.",
}
GRADES = {"q1": {"p1": 3, "p2": 1, "p4": 0}, "q2": {"p3": 3, "p4": 2, "p2": 0}}
BAG = Mapping[str, str | bytes]


def lines(*records: Mapping[str, Any]) -> str:
    """Write JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def tsv(rows: Mapping[str, str]) -> str:
    """Write an id and a text a line."""
    return "".join(f"{key}\t{text}\n" for key, text in rows.items())


def qrels(grades: Mapping[str, Mapping[str, int]], most: int = 3) -> str:
    """Write judgments."""
    return "".join(f"{q} 0 {d} {min(g, most)}\n" for q, docs in grades.items() for d, g in docs.items())


def ranked(*orders: str) -> str:
    """Write a run of the two queries, whose documents are named in order."""
    rows = []
    for query, order in zip(QUERIES, orders, strict=True):
        rows += [f"{query} Q0 {doc} {rank} {-rank} tag\n" for rank, doc in enumerate(order.split(), 1)]
    return "".join(rows)


def corpus(key: str, body: str) -> str:
    """Write passages with other names of the fields."""
    return lines(*({key: name, body: text} for name, text in PASSAGES.items()))


TREC: BAG = {
    "msmarco-test2019-queries.tsv": tsv(QUERIES),
    "2019qrels-pass.txt": qrels(GRADES),
    "collection.tsv": tsv(PASSAGES),
    "runs/good.run": ranked("p1 p2 p4", "p3 p4 p9"),
    "runs/bad.run": ranked("p4 p2", "p2 p4"),
}
V2: BAG = {
    "2021_queries.tsv": tsv(QUERIES),
    "2021.qrels.pass.final.txt": qrels(GRADES),
    "msmarco_v2_passage/msmarco_v2_passage_00.gz": gzip.compress(corpus("pid", "passage").encode()),
    "msmarco_v2_passage/msmarco_v2_passage_01.gz": gzip.compress(lines({"pid": "p9", "passage": "More."}).encode()),
}
LLMJUDGE: BAG = {
    "llm4eval_query_2024.txt": tsv(QUERIES),
    "llm4eval_test_qrel_2024.txt": qrels(GRADES),
    "llm4eval_document_2024.jsonl": corpus("docid", "doc"),
}
BEIR: BAG = {
    "queries.jsonl": lines(*({"_id": key, "text": text} for key, text in QUERIES.items())),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp3\t1\n",
    "corpus.jsonl": lines(*({"_id": key, "title": "", "text": text} for key, text in PASSAGES.items())),
}
NOMIRACL: BAG = {
    "swahili/topics/dev.relevant.tsv": tsv({"q1": QUERIES["q1"]}),
    "swahili/topics/dev.non_relevant.tsv": tsv({"q2": QUERIES["q2"]}),
    "swahili/qrels/dev.relevant.tsv": "q1\tQ0\tp1\t1\nq1\tQ0\tp2\t0\n",
    "swahili/qrels/dev.non_relevant.tsv": "q2\tQ0\tp2\t0\n",
    "swahili/corpus.jsonl.gz": gzip.compress(
        lines(*({"docid": key, "title": "T", "text": text} for key, text in PASSAGES.items())).encode()
    ),
}
HOTPOT: BAG = {
    "hotpot_dev_distractor_v1.json": json.dumps(
        [
            {
                "_id": "h1",
                "question": "In which country is the lake of the swifts?",
                "answer": "Norway",
                "context": [["Lake", ["The lake lies in Norway."]], ["Swift", ["A bird."]]],
                "supporting_facts": [["Lake", 0]],
            }
        ]
    )
}
CLAPNQ: BAG = {
    "clapnq_dev_answerable.jsonl": lines(
        {
            "id": "c1",
            "input": QUERIES["q1"],
            "passages": [{"title": "Swift", "text": "", "sentences": [PASSAGES["p1"] + " ", PASSAGES["p2"]]}],
            "output": [{"answer": "In August.", "selected_sentences": [PASSAGES["p1"]], "meta": {}}],
        }
    ),
    "clapnq_dev_unanswerable.jsonl": lines(
        {
            "id": "c2",
            "input": QUERIES["q2"],
            "passages": [{"title": "Swift", "text": "", "sentences": [PASSAGES["p2"]]}],
            "output": [{"answer": "", "selected_sentences": [], "meta": {}}],
        }
    ),
}
WICE: BAG = {
    "data/entailment_retrieval/claim/test.jsonl": lines(
        *(
            {
                "label": label,
                "supporting_sentences": [],
                "claim": "The lake is 254 metres deep.",
                "evidence": ["The lake lies in Norway.", PASSAGES[passage]],
                "meta": {"id": f"test{passage}", "claim_title": "The lake"},
            }
            for label, passage in (("supported", "p3"), ("partially_supported", "p4"), ("not_supported", "p2"))
        )
    )
}
ATTRIBUTION: BAG = {
    "test_all_subset_balanced.jsonl": lines(
        *(
            {
                "question": QUERIES["q2"],
                "claim": PASSAGES["p3"],
                "references": [PASSAGES[key]],
                "attribution_label": label,
            }
            for key, label in (("p3", "attributable"), ("p4", "not attributable"))
        )
    )
}
NUGGETS: BAG = {
    "nist_assignments_nuggets.jsonl": lines(
        *(
            {
                "qid": "2024-1",
                "query": QUERIES["q2"],
                "run_id": system,
                "answer_text": answer,
                "nuggets": [
                    {"text": "The lake is 254 metres deep", "importance": "vital", "assignment": first},
                    {"text": "Ferries cross the lake", "importance": "okay", "assignment": second},
                ],
            }
            for system, answer, first, second in (
                ("both", PASSAGES["p3"] + " " + PASSAGES["p4"], "support", "partial_support"),
                ("none", PASSAGES["p2"], "not_support", "not_support"),
            )
        )
    )
}
SETS: dict[str, tuple[BAG, list[int], str]] = {
    "dl19": (TREC, [0, 0, 1, 2, 3, 3], "relevance"),
    "dl21": (V2, [0, 0, 1, 2, 3, 3], "relevance"),
    "llmjudge": (LLMJUDGE, [0, 0, 1, 2, 3, 3], "relevance"),
    "beir": (BEIR, [1, 1], "relevance"),
    "hotpotqa": (HOTPOT, [0, 1], "support"),
    "clapnq": (CLAPNQ, [0, 0, 1], "support"),
    "wice": (WICE, [1, 2, 3], "support"),
    "attributionbench": (ATTRIBUTION, [1, 3], "support"),
    "nuggets": (NUGGETS, [1, 1, 2, 3], "support"),
}


def put(folder: Path, files: BAG) -> Path:
    """Write files into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def table(desk: Desk, *arguments: object) -> list[dict[str, Any]]:
    """Run the verb offline and return its rows."""
    done = desk("validate-judge", "--model", "fake/overlap", "--json", *arguments)
    assert done.code == 0, done.err
    rows: list[dict[str, Any]] = json.loads(done.out)["rows"]
    return rows


@pytest.mark.parametrize("name", SETS)
def test_each_set_is_recognised_by_its_files(name: str, tmp_path: Path) -> None:
    """A folder as it is published gives the labels of the set."""
    files, labels, _ = SETS[name]
    (made,) = read_sets(put(tmp_path / name, files), ReadOptions())
    assert made.name == name
    assert sorted(c.label for t in made.traces for c in t.chunks if c.label is not None) == labels


def test_nomiracl_has_a_folder_for_each_language(tmp_path: Path) -> None:
    """Questions with and without relevant passages are read, in the language of the folder."""
    (made,) = read_sets(put(tmp_path, NOMIRACL), ReadOptions())
    assert {(t.id, t.metadata["language"], *(c.label for c in t.chunks)) for t in made.traces} == {
        ("q1", "swahili", 1, 0),
        ("q2", "swahili", 0),
    }


@pytest.mark.slow
def test_a_folder_of_sets_is_judged_by_the_shipped_prompts(desk: Desk) -> None:
    """Each set has a row for both prompts of its family; other folders beside it are passed over."""
    for name, (files, *_) in SETS.items():
        put(desk.folder / "sets" / name, files)
    put(desk.folder / "sets" / "notes", {"readme.txt": "nothing"})
    rows = table(desk, "--sets", "sets")
    assert [(row["set"], row["prompt"]) for row in rows] == [
        (name, f"{SETS[name][2]}/{scale}@2") for name in sorted(SETS) for scale in ("binary", "graded")
    ]
    assert all(row["prompt_digest"] and row["served"] == ["overlap-1"] for row in rows)
    assert {row["skipped"] for row in rows} == {0}  # nobody is asked about an unanswerable question


@pytest.mark.foreign
def test_figures_are_those_of_scikit_learn_and_intervals_by_question(desk: Desk) -> None:
    """Kappa and AUC are scikit-learn's, systems are ranked, and claims on one subject are one question."""
    metrics = pytest.importorskip("sklearn.metrics")
    home = put(desk.folder / "dl", TREC)
    (row,) = table(desk, "--sets", home, "--prompt", "relevance/graded")
    chosen = ("--prompt", "relevance/graded", "--relevant", 2, "--metrics", "RR", "-q")
    made = desk("run", home, "--format", "judged", "-m", "fake/overlap", *chosen)
    assert made.code == 0, made.err
    assert desk("export", "latest", "-o", "verdicts.jsonl").code == 0
    pairs = [
        (chunk["label"], chunk["metadata"]["judge_eval"]["grade"])
        for line in (desk.folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
        for chunk in json.loads(line)["chunks"]
    ]
    labels, grades = zip(*pairs, strict=True)
    relevant = [label >= 2 for label in labels]
    assert row["kappa"]["value"] == pytest.approx(metrics.cohen_kappa_score(relevant, [grade >= 2 for grade in grades]))
    assert row["auc"]["value"] == pytest.approx(metrics.roc_auc_score(relevant, grades))
    assert (row["traces"], row["kappa"]["traces"]) == (2, 2)
    assert (row["systems"]["value"], row["spearman"]["value"], row["systems"]["n"]) == (1.0, 1.0, 2)
    (claims,) = table(desk, "--sets", put(desk.folder / "wice", WICE), "--prompt", "support/binary")
    assert (claims["chunks"], claims["traces"], claims["kappa"]["interval"]) == (3, 1, None)


def test_the_table_as_markdown(desk: Desk) -> None:
    """Tables of two models, joined, read as one; nobody is asked."""
    home = put(desk.folder / "dl19", TREC)
    for model in ("overlap", "inverted"):
        assert desk("validate-judge", "-m", f"fake/{model}", "--sets", home, "-o", f"{model}.json").code == 0
    joined = desk("validate-judge", "--join", "overlap.json", "--join", "inverted.json", "-o", "all.md")
    assert joined.code == 0, joined.err
    check_golden("validate_judge.md", (desk.folder / "all.md").read_text(encoding="utf-8"))


def test_a_budget_is_for_all_sets_and_prompts(desk: Desk) -> None:
    """Over HTTP: the prompt that the budget pays for has its row, the rest is no score, and the exit code is 3."""
    home = put(desk.folder / "dl", TREC)
    with ChatServer() as server:
        command = ["validate-judge", "-m", "openai/m", "--base-url", server.url, "--sets", home]
        done = desk(*command, "-o", "table.json", OPENAI_API_KEY="sk-x", JUDGE_EVAL_MAX_CALLS="6")
        assert len(server.calls) == 6
    assert done.code == 3
    assert "no chunk of this run has both a verdict and a label" in done.err
    text = (desk.folder / "table.json").read_text(encoding="utf-8")
    (row,) = json.loads(text)["rows"]
    assert (row["prompt"], row["failed"]) == ("relevance/binary@2", 0)
    assert "sk-x" not in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "not the folder of a known set; a set has these files: queries, qrels and a corpus"),
        ("broken", "broken/claim/test.jsonl"),
        ("unlabelled", "no chunk has a label"),
    ],
)
def test_what_cannot_be_used_is_one_message(desk: Desk, name: str, message: str) -> None:
    """An unknown folder, a broken record and a set without labels end before anything is asked."""
    put(desk.folder, {"empty/a.txt": "a", "broken/claim/test.jsonl": '{"label": "x"}\n'})
    trace = {"query": "q", "reference": "r", "chunks": ["a b c"]}
    put(desk.folder / "unlabelled", {"answerable.jsonl": lines(trace)})
    done = desk("validate-judge", "-m", "fake/overlap", "--sets", name)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_odd_run_of_a_system_costs_no_row(desk: Desk) -> None:
    """A score that is no number, and a pipe among the runs, are named; the set keeps its row without systems."""
    for name, fault in (("nan", "'nan' is not a number"), ("pipe", "not a file, as the run of a system is")):
        home = put(desk.folder / name, TREC)
        odd = home / "runs" / "odd.run"
        os.mkfifo(odd) if name == "pipe" else odd.write_text("q1 Q0 p1 1 nan x\n")
        done = desk("validate-judge", "-m", "fake/overlap", "--prompt", "relevance/graded", "--sets", home, "--json")
        assert done.code == 0
        assert f"odd.run{'' if name == 'pipe' else ':1'}: " in done.err
        assert fault in done.err
        (row,) = json.loads(done.out)["rows"]
        assert (row["failed"], row["systems"]) == (0, None)


def test_no_file_that_a_user_names_is_a_device(desk: Desk) -> None:
    """Tables to join, prompts and a trace are refused at once where they never end."""
    odd = desk.folder / "odd.toml"
    odd.symlink_to("/dev/zero")
    for command in (
        ("validate-judge", "--join", odd),
        ("prompts", "show", f"file:{odd}"),
        ("judge", odd, "-m", "fake/overlap"),
    ):
        done = desk(*command)
        assert done.code == 2
        assert "it is a device, not a file" in done.err


@pytest.mark.slow
def test_false_support_on_labelled_sets_is_said_under_comparisons_of_other_cuts(desk: Desk) -> None:
    """A table beside the runs tells of their judge: in the terminal, JSON, pages and REST; else nothing is said."""
    rows = [
        {"id": f"v{k}", "query": "When?", "reference": "It opens at nine.", "chunks": [
            {"id": "c", "text": "It never opens at nine.", "label": 0}, {"id": "d", "text": "Else.", "label": 0}
        ]}
        for k in range(12)
    ]  # fmt: skip
    put(desk.folder, {"hours.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    parts = ["The hut serves soup and bread until late. ", "It opens at nine on every day of the year. "] * 2
    for name, chunks in (("small", parts), ("glued", ["".join(parts)])):
        data = [
            {"id": f"q{k}", "query": "When?", "reference": "It opens at nine.", "chunks": chunks} for k in range(12)
        ]
        put(desk.folder, {f"{name}.jsonl": "".join(json.dumps(row) + "\n" for row in data)})
        made = desk("run", f"{name}.jsonl", "-m", "fake/overlap", "-k", "HitRate@15w,AP@2", "--label", name, "-q")
        assert made.code == 0, made.err
    names = "label:small", "label:glued"
    said = "on hours.jsonl the judge found 12 of 24 chunks relevant that people found irrelevant: false support pulls"
    other = ("--sets", "hours.jsonl", "--prompt", "support/graded", "-o", "runs/validation.json")
    (row,) = table(desk, *other)
    assert row["false_support"] == [12, 24]
    assert said not in " ".join(desk("compare", *names).out.split())
    with serving(ServerSettings(desk.folder / "runs")) as url:
        address = f"{url}/api/v1/compare?baseline=label%3Asmall&candidate=label%3Aglued"
        assert said not in ask(address)[1]["read"]
        table(desk, *other[:3], "support/binary", *other[4:])
        status, page, _ = ask(address)
    assert (status, said in page["read"]) == (200, True)
    assert said in " ".join(desk("compare", *names).out.split())
    record = json.loads(desk("compare", *names, "--json").out)
    assert (record["cuts"][0]["false_support"], record["cuts"][0]["validated"]) == ([12, 24], ["hours.jsonl"])
    runs = {run.manifest.label: run for run in map(EvalRun.load, (desk.folder / "runs").glob("*/"))}
    assert page["read"] == compare_page(ComparedRuns(Table(runs["small"]), Table(runs["glued"])))["read"]
    (desk.folder / "runs" / "validation.json").write_text("{")
    assert "validation.json beside the runs is not a table of validate-judge" in " ".join(
        desk("compare", *names).out.split()
    )
