"""The columns of the matrix: a function for each feature. A new feature is a new function."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import re
import signal
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from judge_eval import Client, Trace
from tests.matrix.answers import SAID, plainly, reply
from tests.matrix.case import Case, RefusedError, facts
from tests.matrix.inside import BatchServer, Shell, database, on_ray, served


@dataclass(frozen=True)
class Feature:
    """A feature."""

    name: str
    check: Callable[[Case], None]
    needs: tuple[str, ...] = ()
    """Packages beyond the group `test`."""
    service: str = ""
    """What must run beside it: `postgres` or `ray`."""


FEATURES: list[Feature] = []


def feature(*needs: str, service: str = "") -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Register a function as a feature, by its own name."""

    def register(check: Callable[[Case], None]) -> Callable[[Case], None]:
        FEATURES.append(Feature(check.__name__.replace("_", "-"), check, needs, service))
        return check

    return register


# Asking


@feature()
def python(case: Case) -> None:
    """A judge that is built in Python gives the run of the command line, in memory too."""
    with case.evaluator() as evaluator:
        run = evaluator.evaluate(case.rows(), out=case.folder / "runs")
        case.same(run)
        case.nothing_twice()
        case.same(evaluator.evaluate(case.rows()), totals=False)
    case.nothing_twice()


@feature()
def warm_cache_and_offline(case: Case) -> None:
    """A second run, offline, asks nobody and says the same."""
    case.same(case.run())
    again = case.run("--offline")
    case.nothing_twice()
    case.same(again, totals=False)
    tally = again.manifest.tally
    assert (tally.calls, tally.hits) == (0, case.plain.totals["calls"])


@feature()
def budget_then_resume(case: Case) -> None:
    """A run that a budget ended is completed by a resume, which pays for the rest alone."""
    calls = case.plain.totals["calls"]
    first = case.run("--max-calls", calls // 2, "--concurrency", 1, codes=(0, 1, 3, 4))
    assert first.manifest.tally.failed_verdicts > 0
    assert case.asked == calls // 2
    run = case.run("--resume", "--concurrency", 1)
    case.nothing_twice()
    case.same(run)


@feature()
def kill_then_resume(case: Case) -> None:
    """A run killed at its last call is completed by a resume, which pays for that call alone.

    Its totals hold what its rows say was paid before; of what only the cache held they may know.
    """
    plain, data = case.plain, case.data()
    shell = Shell(case.folder)
    arguments = [str(each) for each in case.run_arguments("--concurrency", 1, data=data)]
    started: list[subprocess.Popen[bytes]] = []

    def rows() -> list[dict[str, Any]]:
        written = b"".join(path.read_bytes() for path in case.folder.glob("runs/*/results.jsonl"))
        return [json.loads(line) for line in written.split(b"\n")[:-1]]

    def die(number: int) -> bool:
        if number < plain.asked:
            return True
        case.server.before = None
        until = time.monotonic() + 1
        while not rows() and time.monotonic() < until:  # what was answered is on its way to the disk
            time.sleep(0.02)
        time.sleep(0.1)
        started[0].send_signal(signal.SIGKILL)
        return False

    case.server.before = die
    with shell.start(*arguments, OPENAI_API_KEY="k") as process:
        started.append(process)
        assert process.wait(60) == -signal.SIGKILL, process.stderr and process.stderr.read()
    paid = sum(len(row["calls"]) for row in rows())
    asked = case.asked
    run = case.run("--resume", "--concurrency", 1, data=data)
    assert case.asked == plain.asked
    calls = run.manifest.tally.calls
    assert paid + case.asked - asked <= calls <= plain.totals["calls"]
    case.same(run, totals=calls == plain.totals["calls"])


@feature()
def record_and_replay(case: Case) -> None:
    """A cassette that a run recorded answers the same command without a call."""
    case.same(case.run("--record", "tape.jsonl"))
    run = case.run("--replay", "tape.jsonl", cache="empty-cache", out="replayed")
    case.nothing_twice()
    case.same(run, totals=False)


@feature()
def conversation(case: Case) -> None:
    """Every request about a question after others shows these; after others than before it is asked anew, alone."""
    case.same(case.run())
    about = [body for body in case.server.bodies if "thing 1" in body.lower()]
    assert about
    assert all(SAID in body for body in about)
    assert not [body for body in case.server.bodies if SAID in body and body not in about]
    asked, rows = case.asked, case.rows()
    rows[1]["history"][0]["content"] = "Which thing is the smallest?"
    data = case.folder / "changed.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    case.run(data=data, out="changed")
    assert case.asked - asked == sum(case.server.bodies[body] for body in about)


@feature()
def evidence_required(case: Case) -> None:
    """Replies in the cache are read anew under the other policy, as those are that are asked for under it."""
    case.run()
    before = Counter(case.server.bodies)
    again = case.run("--evidence", "required", codes=(0, 3))
    assert not (case.server.bodies - before) & before, "a reply that is in the cache was paid again"
    wanted = case.server.bodies
    fresh = case.run("--evidence", "required", out="fresh", cache="fresh-cache", codes=(0, 3))
    assert facts(again).results == facts(fresh).results
    assert case.server.bodies.keys() == wanted.keys()
    for result in again.results:
        for outcome in result.outcomes:
            assert outcome.kind == "no_verdict" or not outcome.relevant or outcome.evidence_found


@feature()
def blank_chunks(case: Case) -> None:
    """Nobody is asked about chunks without text: they have no verdict, or are irrelevant on request."""
    rows = case.rows()
    for row in rows:
        row["chunks"] += [{"id": "none", "text": ""}, {"id": "white", "text": " \n"}]
    data = case.folder / "blank.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    run = case.run(data=data)
    assert (run.status, run.manifest.tally.failures) == ("done", {"empty": 2 * len(rows)})
    assert case.run("--resume", data=data).id == run.id
    case.call("runs", "verify", run.folder)
    with pytest.raises(RefusedError, match="differs in"):
        case.run("--resume", run.folder, "--blank", "irrelevant", data=data)
    rated = case.run("--blank", "irrelevant", data=data, out="rated")
    case.nothing_twice()
    assert (rated.status, rated.manifest.tally.failures) == ("done", {})
    for result in rated.results:
        assert not any(o.relevant for o in result.outcomes if o.chunk_id in ("none", "white"))
    with case.evaluator(blank="irrelevant") as evaluator:
        assert facts(evaluator.evaluate(rows)).results == facts(rated).results


@feature()
def confidence(case: Case) -> None:
    """Asking for probabilities changes no verdict, and gives each one."""
    run = case.run("--confidence")
    mine = facts(run)
    for trace_id, result in case.plain.results.items():
        for before, after in zip(result["outcomes"], mine.results[trace_id]["outcomes"], strict=True):
            assert after["grade"] == before["grade"]
            assert after["confidence"] is not None
        assert mine.results[trace_id]["votes"] == result["votes"]
    again = case.run("--confidence", "--offline")
    assert facts(again).results == mine.results


@feature(service="postgres")
def postgres_cache(case: Case) -> None:
    """A cache in a database keeps what a folder keeps."""
    with database() as url:
        case.call("cache", "init", "--cache", url)
        case.same(case.run(cache=url))
        case.same(case.run("--offline", cache=url), totals=False)
    case.nothing_twice()


# Reading


@feature()
def limit_and_seed(case: Case) -> None:
    """A random sample of the traces is judged as in the whole run."""
    run = facts(case.run("--limit", 2, "--seed", 7))
    assert len(run.results) == 2
    for trace_id, result in run.results.items():
        assert result == case.plain.results[trace_id]
    calls = [call for result in run.results.values() for call in result["calls"]]
    assert run.totals["calls"] == len(calls) == case.asked
    assert run.totals["input_tokens"] == sum(call["input_tokens"] for call in calls)


@feature()
def on_invalid_skip(case: Case) -> None:
    """An invalid record is left out and counted; all else is as without it."""
    run = case.run("--on-invalid", "skip", data=case.data(extra=['{"id": "bad", "chunks": 7}']))
    case.same(run)
    case.nothing_twice()
    assert run.manifest.dataset.skipped == 1


@feature("pandas")
def frames(case: Case) -> None:
    """A data frame is judged as the file is, and comes back with its verdicts."""
    import pandas as pd

    with case.evaluator() as evaluator:
        run = evaluator.evaluate(pd.DataFrame(case.rows()), out=case.folder / "runs")
        case.same(run)
    grades = [[outcome.get("grade") for outcome in each["outcomes"]] for each in case.plain.results.values()]
    assert run.to_pandas()["verdicts"].tolist() == grades
    frame = run.verdicts_frame()
    assert frame["grade"].tolist() == [grade for row in grades for grade in row]


@feature()
def streams(case: Case) -> None:
    """Traces that come one by one are judged as those of a file, and so are results that go one by one."""
    traces = [Trace.parse(row) for row in case.rows()]
    with case.evaluator() as evaluator:
        run = evaluator.evaluate(iter(traces), out=case.folder / "runs")
        case.same(run)
        case.nothing_twice()
        outcomes = {
            result.trace_id: [each.model_dump(mode="json") for each in result.outcomes]
            for result in evaluator.stream(traces)
        }
    assert outcomes == {name: result["outcomes"] for name, result in case.plain.results.items()}
    case.nothing_twice()


# Spreading


@feature()
def shards_and_merge(case: Case) -> None:
    """The runs of two shards are merged into the run of one machine."""
    data = case.data()
    for part in (1, 2):
        case.run("--shard", f"{part}/2", data=data)
    case.call("runs", "merge", *sorted((case.folder / "runs").iterdir()), "--out", "merged")
    case.same(case.newest("merged"))
    case.nothing_twice()


@feature(service="ray")
def cluster(case: Case) -> None:
    """Workers on a cluster give the run of one process."""
    with case.evaluator() as evaluator:
        run = evaluator.evaluate(case.rows(), out=case.folder / "runs", driver=on_ray(evaluator))
    case.same(run)
    case.nothing_twice()


@feature()
def batch(case: Case) -> None:
    """Verdicts by batch are those of single calls, with the same tokens and their cost."""
    data, cache = case.data(), case.cache()
    with BatchServer(verdict=reply) as files:
        case.urls = {"url": files.url}
        case.call("batch", "export", data, "--out", "batch", "--cache", cache, *case.judge_flags())
        for _ in range(5):
            case.call("batch", "submit", "batch")
            case.call("batch", "fetch", "batch")
            finish = ("--finish", "batch", "--out", "runs", "--metrics", case.kind.metrics)
            case.call("batch", "import", "batch", *finish, codes=(0, 1, 3, 4))
            if list((case.folder / "runs").glob("*")):
                break
        case.nothing_twice(Counter({plainly(body): count for body, count in files.paid.items()}))
    run = case.newest()
    case.same(run, totals=False)
    tally = run.manifest.tally
    assert tally.input_tokens == case.plain.totals["input_tokens"]
    assert tally.output_tokens == case.plain.totals["output_tokens"]
    assert case.plain.totals["cost"] is None or tally.cost


@feature()
def serve(case: Case) -> None:
    """What is submitted over REST is judged as by the command line."""
    with case.evaluator() as evaluator, served(case.folder / "served", evaluator) as url:
        client = Client(url)
        for row in case.rows():
            client.add_trace(Trace.parse(row))
        submitted = client.evaluate()
        run = client.get_eval_run(submitted.uuid, wait=30)
    case.same(run)
    case.nothing_twice()


@feature()
def upload(case: Case) -> None:
    """A run that is uploaded to a server comes back as it was."""
    case.same(case.run())
    with served(case.folder / "served") as url:
        client = Client(url)
        uploaded = client.upload(case.newest())
        case.same(client.get_eval_run(uploaded.uuid))
    case.nothing_twice()


@feature("fsspec")
def push_and_pull(case: Case) -> None:
    """A run that is pushed to a storage and pulled from there is as it was."""
    run = case.run()
    storage = (case.folder / "storage").as_uri()
    case.call("runs", "push", run.folder, storage)
    assert run.folder is not None
    case.call("runs", "pull", f"{storage}/{run.folder.name}", "--out", "pulled")
    case.same(case.newest("pulled"))
    case.nothing_twice()


# What is made of a run


@feature()
def rescore(case: Case) -> None:
    """Another threshold is applied to the verdicts: grades are cut, probabilities are summed."""
    prompt = case.place().prompt if case.kind.name == "own-scale" else case.kind.graded
    metrics = "P@3,NDCG@3,SoftP@3"
    run = case.run(prompt=prompt, metrics=metrics)
    asked = case.asked
    case.call("score", run.folder, "--relevant", 1, "--metrics", metrics, "-o", "scored.json")
    assert case.asked == asked
    scored = json.loads((case.folder / "scored.json").read_text(encoding="utf-8"))
    means = {name: each["mean"] for name, each in scored["aggregates"].items()}
    hard, soft = [], []
    for result in run.results:
        cut, likely = [], []
        for outcome in result.outcomes:
            assert outcome.kind == "verdict"
            cut.append(outcome.grade >= 1)
            shares = outcome.grade_probabilities
            likely.append(float(outcome.grade >= 1) if shares is None else sum(shares[1:]))
        hard.append(sum(cut) / len(cut))
        soft.append(sum(likely) / len(likely))
    assert abs(means["P@3"] - sum(hard) / len(hard)) < 1e-9
    assert abs(means["SoftP@3"] - sum(soft) / len(soft)) < 1e-9
    assert means["NDCG@3"] == run["NDCG@3"]


@feature()
def runs_import(case: Case) -> None:
    """The verdicts of a run that is imported are those of the run, with all that belongs to them."""
    run = case.run()
    case.call("runs", "import", run.folder, "--data", "data.jsonl", "--out", "imported", "--metrics", case.kind.metrics)
    mine, plain = facts(case.newest("imported")), case.plain
    for trace_id, result in plain.results.items():
        for name in ("outcomes", "votes", "claims", "scores"):
            assert mine.results[trace_id][name] == result[name], name
    assert mine.aggregates == plain.aggregates
    assert {**mine.counts, "unsupported": None} == {**plain.counts, "unsupported": None}


@feature()
def compare(case: Case) -> None:
    """A run beside the same run judged elsewhere shows no change; a cascade's escalation is said."""
    first, other = case.run(out="one"), case.run(out="other", cache="other-cache")
    assert case.asked == 2 * case.plain.asked
    document = json.loads(case.call("compare", first.folder, other.folder, "--json"))
    assert document["paired"] == [3]
    assert not any(document["changed"])
    assert not document["traces"]
    assert not document["warnings"]
    for difference in document["differences"]:
        mean = case.plain.aggregates[difference["metric"]]["mean"]
        assert difference["baseline_mean"] == difference["candidate_mean"] == mean
    if case.plain.counts["stages"]:
        assert "escalated" in case.call("compare", first.folder, other.folder)


@feature()
def other_cuts(case: Case) -> None:
    """A run beside one whose chunks are glued: compared by words, which are the same, whatever the judge says."""
    run, rows = case.run(), case.rows()
    for row in rows:
        row["chunks"] = [{"id": f"{row['id']}-all", "text": "\n".join(chunk["text"] for chunk in row["chunks"])}]
    data = case.folder / "glued.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    glued = case.run(data=data, out="glued")
    in_words = "ClaimRecall" if "ClaimRecall@3" in case.kind.metrics else "HitRate"
    document = json.loads(case.call("compare", run.folder, glued.folder, "--json"))
    (cuts,) = document["cuts"]
    assert (cuts["differ"], cuts["same_text"]) == (True, 3)
    assert set(cuts["by_chunks"]) == set(case.kind.metrics.split(","))
    if cuts["quoted"]:
        assert cuts["headline"].startswith(in_words)
        assert [(d["metric"], d["difference"]) for d in document["differences"]] == [(cuts["headline"], 0)]
    else:
        assert "quotes no words" in " ".join(case.call("compare", run.folder, glued.folder).split())
        assert not document["differences"]
    verdicts = [[o for r in each.results for o in r.outcomes if o.kind == "verdict"] for each in (run, glued)]
    quotes = [any(o.evidence or any(s.quote for s in o.supports or ()) for o in each) for each in verdicts]
    assert cuts["quoted"] == all(quotes)
    named = [f"{in_words}@{words}w" for words in (12, 20, 36)]
    document = json.loads(case.call("compare", run.folder, glued.folder, "--json", "--metrics", ",".join(named)))
    assert [(d["metric"], d["difference"]) for d in document["differences"]] == [(name, 0) for name in named]


def expected_rows(case: Case) -> list[dict[str, Any]]:
    """Return a row a chunk: its outcome, with the votes on it."""
    made = []
    for trace_id, result in case.plain.results.items():
        for rank, outcome in enumerate(result["outcomes"]):
            votes = {name: votes[rank] for name, votes in result["votes"].items()}
            made.append({"trace_id": trace_id, "votes": votes, **outcome})
    return made


@feature()
def exports(case: Case) -> None:
    """Each format holds each verdict with its grade, reason, stage and votes."""
    run, wanted = case.run(), expected_rows(case)
    for suffix in ("csv", "jsonl", "json", "md", "qrels", "run"):
        case.call("export", run.folder, "-o", f"made.{suffix}")
    with (case.folder / "made.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    for cell, row in zip(cells, wanted, strict=True):
        assert (cell["trace_id"], cell["chunk_id"]) == (row["trace_id"], row["chunk_id"])
        assert cell["grade"] == str(row["grade"])
        unsaid = {"reason": "no reason: the judge gives none"}
        for name in ("reason", "evidence", "stage", "confidence"):
            wanted_cell = unsaid.get(name, "") if row[name] is None else str(row[name])
            assert cell[name] == wanted_cell, name
        assert not row["votes"] or any("vote" in name for name in cell), "the table has no votes"
    lines = (case.folder / "made.jsonl").read_text(encoding="utf-8").splitlines()
    chunks = [chunk["metadata"]["judge_eval"] for line in lines for chunk in json.loads(line)["chunks"]]
    for chunk, row in zip(chunks, wanted, strict=True):
        assert {name: row[name] for name in chunk if name in row} == {n: chunk[n] for n in chunk if n in row}
        assert chunk["grade"] == row["grade"]
    whole = json.loads((case.folder / "made.json").read_text(encoding="utf-8"))
    for result in whole["results"]:
        for name in ("outcomes", "votes", "claims", "scores"):
            assert result[name] == case.plain.results[result["trace_id"]][name]
    grades = [line.split()[-1] for line in (case.folder / "made.qrels").read_text().splitlines()]
    assert grades == [str(row["grade"]) for row in wanted]


@feature()
def report(case: Case) -> None:
    """The report shows each trace with what the judge said of its chunks."""
    run = case.run()
    case.call("report", run.folder, "-o", "report.html")
    page = (case.folder / "report.html").read_text(encoding="utf-8")
    for packed in re.findall(r"[A-Za-z0-9+/]{80,}=*", page):
        with contextlib.suppress(ValueError, zlib.error):
            page += zlib.decompress(base64.b64decode(packed)).decode()
    for result in run.results:
        assert result.trace_id in page
        for outcome in result.outcomes:
            assert outcome.kind == "verdict"
            assert json.dumps(outcome.reason or "")[1:-1] in page
    case.nothing_twice()
