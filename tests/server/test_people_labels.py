"""Several people label one run: their names, comments and differences, and a sample in its order."""

from __future__ import annotations

import csv
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from judge_eval.data.labels import agreed_label, read_labels
from judge_eval.runs.folder.labels import given_labels
from judge_eval.server.server_settings import ServerSettings
from judge_eval.study.agree import agree
from judge_eval.study.people import read_sample
from tests.support.application import CliRunner, app
from tests.support.serving import ask, judge, rows, serving

pytestmark = pytest.mark.filterwarnings("ignore:The .* attribute with value .* was provided:UserWarning")


def unlabelled(count: int) -> list[dict[str, Any]]:
    """Return the first rows without labels."""
    return [{**row, "chunks": [{**c, "label": None} for c in row["chunks"]]} for row in rows()[:count]]


def kappa_of(pairs: list[tuple[int, int]]) -> float:
    """Compute Cohen's kappa of two binary raters by its definition."""
    n = len(pairs)
    same = sum(a == b for a, b in pairs) / n
    chance = sum((sum(a == g for a, _ in pairs) / n) * (sum(b == g for _, b in pairs) / n) for g in (0, 1))
    return (same - chance) / (1 - chance)


@pytest.mark.slow
def test_labels_are_kept_by_name_and_a_decision_settles_a_difference(tmp_path: Path) -> None:
    """Anna's label survives Ben's; while they differ the chunk has none; the decision counts, and all is exported."""
    run = judge(unlabelled(4), tmp_path)
    assert run.folder is not None
    chunks = [(r.trace_id, c.id) for r in run.results for c in r.trace.chunks]
    anna = [k % 2 for k in range(len(chunks))]
    ben = [grade if k % 5 else 1 - grade for k, grade in enumerate(anna)]
    with serving(ServerSettings(tmp_path)) as url:
        base = f"{url}/api/v1/runs/{run.id}"

        def give(place: int, label: int | None, by: str, **more: Any) -> None:
            body = {"trace_id": chunks[place][0], "chunk_id": chunks[place][1], "label": label, "by": by, **more}
            assert ask(f"{base}/labels", method="POST", body=body)[0] == 201

        for place, (first, other) in enumerate(zip(anna, ben, strict=True)):
            give(place, first, "Anna", comment="clear" if place == 1 else "")
            give(place, other, "Ben")
        result = ask(f"{base}/people")[1]
        assert {each["by"]: each["n"] for each in result["people"]} == {"Anna": len(chunks), "Ben": len(chunks)}
        differing = {(each["trace"], each["chunk"]) for each in result["differing"]}
        assert differing == {chunks[k] for k in range(0, len(chunks), 5)}
        assert not differing & given_labels(run.folder, 1).keys()
        give(0, 1, "Cleo", final=True)
        assert given_labels(run.folder, 1)[chunks[0]].label == 1
        assert ask(f"{base}/people")[1]["differing"][-1]["decided"] is True
        give(1, None, "Ben")  # taken back: Anna's stays
        assert given_labels(run.folder, 1)[chunks[1]].by == "Anna"
    both = [pair for k, pair in enumerate(zip(anna, ben, strict=True)) if k != 1]
    (pair,) = agree(run, None).people
    assert (pair.people, pair.n) == (("Anna", "Ben"), len(both))
    assert pair.kappa.value == pytest.approx(kappa_of(both))
    assert pair.kappa.interval is not None
    assert "Anna and Ben: kappa" in CliRunner().invoke(app, ["agree", run.id[:8], "--out", str(tmp_path)]).stdout

    file, other = tmp_path / "labels.csv", judge(unlabelled(4), tmp_path / "other")
    named = CliRunner().invoke(app, ["runs", "labels", run.id[:8], "--out", str(tmp_path), "-o", str(file)])
    assert named.exit_code == 0, named.output
    with file.open(encoding="utf-8", newline="") as text:
        lines = list(csv.DictReader(text))
    assert {line["by"] for line in lines} == {"Anna", "Ben", "Cleo"}
    assert [line["comment"] for line in lines if line["comment"]] == ["clear"]
    printed = CliRunner().invoke(app, ["runs", "labels", run.id[:8], "--out", str(tmp_path)]).stdout.splitlines()
    assert [json.loads(line)["by"] for line in printed] == [line["by"] for line in lines]
    read = read_labels(file)
    assert read.grades[chunks[0]] == 1
    assert set(read.people) == {"Anna", "Ben"}
    added = CliRunner().invoke(app, ["runs", "labels", "latest", "--out", str(tmp_path / "other"), "--add", str(file)])
    assert added.exit_code == 0, added.output
    assert other.folder is not None
    grades = [{key: label.label for key, label in given_labels(f, 1).items()} for f in (run.folder, other.folder)]
    assert grades[0] == grades[1]


def test_people_settle_a_label_unless_they_are_split_on_relevance() -> None:
    """The lower median counts if more people are on its side of the threshold; a real tie settles nothing."""
    assert agreed_label([1, 1, 0], 1) == 1
    assert agreed_label([1, 0, 1, 0], 1) is None
    assert agreed_label([1, 1, 1], 1, [0]) == 0
    assert agreed_label([], 1) is None
    assert agreed_label([3, 2], 2) == 2
    assert agreed_label([1, 0], 2) == 0
    assert agreed_label([3, 2, 0], 2) == 2
    assert agreed_label([3, 2, 1], 2) == 2
    assert agreed_label([2, 1], 2) is None


@pytest.mark.slow
def test_blind_hides_rank_score_and_the_labels_of_others(tmp_path: Path) -> None:
    """Blind, Ben sees neither Anna's label nor rank or score, in the same shuffled order each time."""
    data = [{**row, "chunks": [{**c, "score": 9.0 - k} for k, c in enumerate(row["chunks"])]} for row in unlabelled(3)]
    run = judge(data, tmp_path)
    ids = [chunk.id for chunk in run.results[0].trace.chunks]
    with serving(ServerSettings(tmp_path)) as url:
        base = f"{url}/api/v1/runs/{run.id}"
        for chunk in ids:
            body = {"trace_id": run.results[0].trace_id, "chunk_id": chunk, "label": 1, "by": "Anna", "blind": True}
            ask(f"{base}/labels", method="POST", body=body)
        looks = {}
        for by in ("Anna", "Ben"):
            query = urlencode({"trace_id": run.results[0].trace_id, "blind": "true", "by": by})
            looks[by] = [ask(f"{base}/trace?{query}")[1]["trace"]["chunks"] for _ in range(2)]
            row = ask(f"{base}/rows?blind=true&by={by}&limit=1")[1]["rows"][0]
            assert ("?" in row["strip"]) is (by == "Ben")
        first, again = looks["Ben"]
        assert first == again
        assert all(card["hidden"] and card["score"] is None and card["label"] is None for card in first)
        assert not any(card.get("people") for card in first)
        shown = [card["id"] for card in first]
        assert sorted(shown) == sorted(ids)
        assert shown != ids
        assert [card["id"] for card in looks["Anna"][0]] == ids


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_sample_is_served_in_its_order_with_progress(tmp_path: Path, suffix: str) -> None:
    """The rows of a sample are its traces in its order, chunks too, and `done` counts whole traces of one person."""
    run = judge(unlabelled(8), tmp_path)
    file = tmp_path / f"to_label{suffix}"
    drawn = CliRunner().invoke(app, ["sample", "latest", "--out", str(tmp_path), "-n", "4", "-o", str(file)])
    assert drawn.exit_code == 0, drawn.output
    assert f"judge-eval serve --sample {file}" in drawn.stderr
    sample = read_sample(file)
    assert run.id.startswith(sample.run)
    with serving(ServerSettings(tmp_path, sample=sample)) as url:
        base = f"{url}/api/v1/runs/{run.id}"
        asked = f"{base}/rows?blind=true&sample=true&by=Anna"
        result = ask(asked)[1]
        assert [row["id"] for row in result["rows"]] == list(sample.chunks)
        assert (result["done"], result["total"]) == (0, 4)
        trace, chunks = next(iter(sample.chunks.items()))
        query = urlencode({"trace_id": trace, "blind": "true", "sample": "true", "by": "Anna"})
        assert [card["id"] for card in ask(f"{base}/trace?{query}")[1]["trace"]["chunks"]] == list(chunks)
        for chunk in chunks:
            body = {"trace_id": trace, "chunk_id": chunk, "label": 0, "by": "Anna", "blind": True}
            assert ask(f"{base}/labels", method="POST", body=body)[0] == 201
        assert ask(asked)[1]["done"] == 1
        assert ask(asked.replace("Anna", "Ben"))[1]["done"] == 0
    with serving(ServerSettings(tmp_path)) as url:
        assert ask(f"{url}/api/v1/runs/{run.id}/rows?sample=true")[0] == 404


def test_labelled_data_show_no_verdict_to_who_has_not_labelled_them(tmp_path: Path) -> None:
    """Labels that the dataset brings are not those of who looks: nothing of a run or a sample is shown for them."""
    run = judge(rows()[:4], tmp_path)
    assert any(chunk.label is not None for result in run.results for chunk in result.trace.chunks)
    file = tmp_path / "to_label.jsonl"
    CliRunner().invoke(app, ["sample", "latest", "--out", str(tmp_path), "-n", "2", "-o", str(file)])
    with serving(ServerSettings(tmp_path, sample=read_sample(file))) as url:
        base = f"{url}/api/v1/runs/{run.id}"
        for of in ("true", "false"):
            first, *_ = listed = ask(f"{base}/rows?blind=true&sample={of}")[1]["rows"]
            assert {sign for row in listed for sign in row["strip"]} == {"?"}
            query = urlencode({"trace_id": first["id"], "blind": "true", "sample": of})
            assert all(card["hidden"] for card in ask(f"{base}/trace?{query}")[1]["trace"]["chunks"])


def test_a_file_that_is_not_a_sample_is_refused(tmp_path: Path) -> None:
    """A file of labels that does not name its run is refused in one sentence, before the server starts."""
    file = tmp_path / "labels.jsonl"
    file.write_text(json.dumps({"trace_id": "a", "chunk_id": "b", "label": 1}) + "\n")
    shown = CliRunner().invoke(app, ["serve", "--out", str(tmp_path), "--sample", str(file)])
    assert shown.exit_code == 2
    assert "judge-eval sample" in shown.stderr


@pytest.mark.slow
def test_two_people_who_label_at_once_lose_no_label(tmp_path: Path) -> None:
    """Blind labels of two people that come at the same time are all kept, and neither sees the other's meanwhile."""
    run = judge(unlabelled(4), tmp_path)
    cards = [(result.trace_id, chunk.id) for result in run.results for chunk in result.trace.chunks]
    with serving(ServerSettings(tmp_path)) as url, ThreadPoolExecutor(8) as pool:
        base = f"{url}/api/v1/runs/{run.id}"

        def give(place: int, by: str) -> int:
            trace, chunk = cards[place]
            label = (place + (by == "Ben")) % 2
            body = {"trace_id": trace, "chunk_id": chunk, "label": label, "by": by, "blind": True}
            status = ask(f"{base}/labels", method="POST", body=body)[0]
            other = urlencode({"trace_id": trace, "blind": "true", "by": "Cleo"})
            shown = ask(f"{base}/trace?{other}")[1]["trace"]["chunks"]
            assert not any(card["label"] is not None or card.get("people") for card in shown)
            return status

        given = [pool.submit(give, place, by) for place in range(len(cards)) for by in ("Anna", "Ben")]
        assert {each.result() for each in given} == {201}
        labels = ask(f"{base}/labels")[1]
        assert Counter(label["by"] for label in labels) == {"Anna": len(cards), "Ben": len(cards)}
        people = ask(f"{base}/people")[1]
        assert len(people["differing"]) == len(cards)
        assert not any(each["decided"] for each in people["differing"])
    lines = (run.folder / "labels.jsonl").read_text().splitlines()
    assert len(lines) == 2 * len(cards)
    assert all(json.loads(line)["blind"] for line in lines)
