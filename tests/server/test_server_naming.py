from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from judge_eval import EvalRun, Evaluator
from judge_eval.errors import DataError, RunError
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerSettings
from tests.support.serving import ask, judge, rows, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve two runs of one label, one whose label has a slash, and one that remembers its baseline."""
    root = tmp_path_factory.mktemp("named")
    data = rows()[:8]
    turned = [{**row, "chunks": row["chunks"][::-1]} for row in data]
    older = judge(data[:3], root, label="main", name="docs")
    main = judge(data, root, label="main", name="docs")
    branch = judge(turned, root, label="feature/x", name="docs")
    pr = judge(turned, root, label="PR 2", name="docs", baseline=main.id)
    other = judge([{**row, "id": f"o{i}"} for i, row in enumerate(data[:2])], root, label="other", name="faq")
    with serving(ServerSettings(root), Evaluator("fake/overlap", cache=False)) as url:
        yield {
            "root": root, "url": url, "api": f"{url}/api/v1",
            "older": older, "main": main, "branch": branch, "pr": pr, "other": other,
        }  # fmt: skip


@pytest.mark.parametrize("part", ["", "/summary", "/page", "/rows", "/results", "/labels", "/baselines",
                                  "/trace?trace_id=docs-001", "/live"])  # fmt: skip
def test_a_label_reads_like_the_newest_run_of_it(served: dict[str, Any], part: str) -> None:
    """Every route that reads a run takes `label:NAME` for the newest run of that label."""
    by_label = ask(f"{served['api']}/runs/label:main{part}")
    assert by_label[0] == 200
    assert by_label[1] == ask(f"{served['api']}/runs/{served['main'].id}{part}")[1]


def test_two_labels_are_compared(served: dict[str, Any]) -> None:
    """Comparing takes labels on both sides, those with a slash too."""
    api, ids = served["api"], (served["main"].id, served["branch"].id)
    names = "baseline=label:main&candidate=label:feature/x"
    for route in ("compare?", "compare/changed?limit=100&"):
        result = ask(f"{api}/{route}{names}")
        assert result[0] == 200
        assert result[1] == ask(f"{api}/{route}baseline={ids[0]}&candidate={ids[1]}")[1]
    assert ask(f"{api}/named?name={quote('label:feature/x')}")[1]["id"] == ids[1]
    assert ask(f"{api}/named?name={ids[1]}")[1]["id"] == ids[1]


def test_labels_stand_side_by_side(served: dict[str, Any]) -> None:
    """Several runs are held side by side by label too; two names of one run are one run named twice."""
    names = ("label:main", "label:feature/x", "label:PR 2")
    asked = "&".join(f"run={quote(name)}" for name in names)
    by_id = "&".join(f"run={served[name].id}" for name in ("main", "branch", "pr"))
    for route, more in (("matrix", ""), ("matrix/rows", ""), ("matrix/trace", "&place=0")):
        result = ask(f"{served['api']}/{route}?{asked}{more}")
        assert result[0] == 200
        assert result[1] == ask(f"{served['api']}/{route}?{by_id}{more}")[1]
    code, result, _ = ask(f"{served['api']}/matrix?{asked}&run={served['main'].id}")
    assert code == 422
    assert "named twice" in result["error"]["message"]


def test_blind_tells_nothing_of_the_baseline(served: dict[str, Any]) -> None:
    """Blind, a run that remembers its baseline is told of without it: no sentence, difference or strip."""
    api = f"{served['api']}/runs/{served['pr'].id}"
    for more in ("", f"&baseline={served['main'].id}", "&baseline=label:main"):
        page = ask(f"{api}/page?blind=true{more}")[1]
        assert page["baseline"] is None
        assert not page.keys() & {"opening", "problem", "histograms", "agreement"}
        assert not any("pair" in metric or metric["mean"] is not None for metric in page["metrics"])
        result = ask(f"{api}/rows?blind=true&sort=change{more}")[1]["rows"]
        assert all(
            (row["before"], row["ranks_before"], row["change"], row["deltas"]) == (None, None, "", {}) for row in result
        )
        assert "row" not in ask(f"{api}/trace?trace_id=docs-001&blind=true{more}")[1]


def test_a_name_that_is_none_is_told(served: dict[str, Any]) -> None:
    """An unknown label is a 404 that names one that is nearly it; what is no name at all a 422."""
    code, result, _ = ask(f"{served['api']}/runs/label:mian/page")
    assert code == 404
    assert "no run labelled 'mian'" in result["error"]["message"]
    assert "main" in result["error"]["message"]
    for name in ("main", "label:", "../main", "0000"):
        assert ask(f"{served['api']}/runs/{quote(name, safe='')}/summary")[0] in (404, 422)
    assert ask(f"{served['api']}/named?name=main")[0] == 422
    assert ask(f"{served['api']}/runs/label:main", method="DELETE")[0] == 422


def test_changed_traces_are_sorted_by_what_they_lost(served: dict[str, Any]) -> None:
    """Those that lost most come first; the other way round, in the dataset's order, by another metric."""
    base = f"{served['api']}/compare/changed?baseline=label:main&candidate=label:feature/x&limit=100"

    def asked(more: str) -> list[dict[str, Any]]:
        return list(ask(base + more)[1]["rows"])

    for more, metric, way in (("", "AP@5", 1), ("&sort=-change", "AP@5", -1), ("&metric=MRR", "MRR", 1)):
        moved = [way * row["deltas"][metric] for row in asked(more)]
        assert moved == sorted(moved), more
        assert len(set(moved)) > 1
    ids = [row["id"] for row in asked("&sort=order")]
    assert ids == sorted(ids)
    assert ask(base + "&sort=best")[0] == 422


def test_a_run_remembers_its_baseline(served: dict[str, Any]) -> None:
    """Without being told, page, rows and trace show the differences from it; `none` leaves them out."""
    base = f"{served['api']}/runs/{served['pr'].id}"
    page = ask(f"{base}/page")[1]
    assert page["baseline"]["id"] == served["main"].id == ask(f"{base}/summary")[1]["baseline"]
    assert page["opening"]["sentence"].startswith("no difference is shown: AP@5 -")
    assert page == ask(f"{base}/page?baseline=label:main")[1]
    changed = [row for row in ask(f"{base}/rows?sort=change")[1]["rows"] if row["change"]]
    assert changed[0]["deltas"]["AP@5"] == min(row["deltas"]["AP@5"] for row in changed)
    assert all(row["before"] for row in changed)
    row = ask(f"{base}/trace?trace_id={changed[0]['id']}")[1]["row"]
    assert row == changed[0]
    for part in ("page", "rows", f"trace?trace_id={row['id']}"):
        result = ask(f"{base}/{part}{'&' if '?' in part else '?'}baseline=none")[1]
        assert result.get("baseline") is None
        assert "row" not in result
        assert all(not each["deltas"] for each in result.get("rows", ()))
    assert "row" not in ask(f"{base}/trace?trace_id={row['id']}&blind=true")[1]


def test_what_a_run_may_be_compared_with_is_offered(served: dict[str, Any]) -> None:
    """The picker's list leads with runs of the same data, newest first, and leaves the run itself out."""
    offered = ask(f"{served['api']}/runs/{served['pr'].id}/baselines")[1]
    expected = [served[name].id for name in ("branch", "main", "older", "other")]
    assert [each["id"] for each in offered] == expected
    assert [each["same"] for each in offered] == [True, True, True, False]


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_a_baseline_that_is_lost_hides_no_run(tmp_path: Path, harm: str) -> None:
    """Where the remembered baseline is gone or damaged the page says so, and shows the run."""
    old = judge(rows()[:3], tmp_path)
    new = judge(rows()[:3], tmp_path, baseline=old.id)
    assert old.folder is not None
    if harm == "gone":
        old.folder.rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    else:
        (old.folder / "results.jsonl").write_text("{}\n")
    with serving(ServerSettings(tmp_path)) as url:
        base = f"{url}/api/v1/runs/{new.id}"
        code, page, _ = ask(f"{base}/page")
        assert code == 200
        assert (page["baseline"], len(page["metrics"])) == (None, 3)
        assert old.id[:8] in page["problem"]
        assert ask(f"{base}/rows")[1]["total"] == 3
        assert ask(f"{base}/page?baseline={old.id}")[1] == page  # named, it is the same
        assert ask(f"{url}/api/v1/compare?baseline={old.id}&candidate={new.id}")[0] in (404, 409)


def test_the_client_takes_labels(served: dict[str, Any]) -> None:
    """`Client` brings home, labels and submits by `label:NAME`; what it deletes it wants by its UUID."""
    client = Client(served["url"])
    assert client.get_eval_run("label:main").id == served["main"].id
    assert client.get_eval_run("label:feature/x").id == served["branch"].id
    client.label("label:PR 2", "docs-001", served["pr"].results[0].trace.chunks[0].id, 1)
    assert ask(f"{served['api']}/runs/{served['pr'].id}/labels")[1][0]["label"] == 1
    client.add_trace("What is a tomato?", ["A tomato is a fruit."], reference="A tomato is a fruit.")
    result = client.evaluate(label="mine", baseline="label:main")
    assert result.baseline == served["main"].id
    assert client.get_eval_run(result.uuid).manifest.baseline == served["main"].id
    client.delete(result.uuid)
    with pytest.raises(RunError, match="no run labelled 'nowhere'"):
        client.get_eval_run("label:nowhere")
    client.add_trace("What is a tomato?", ["A fruit."], reference="A fruit.")
    with pytest.raises(RunError, match="no run labelled 'nowhere'"):
        client.evaluate(baseline="label:nowhere")
    with pytest.raises(DataError):
        client.evaluate(baseline="main")
    with pytest.raises(DataError):
        client.delete("label:main")


def test_an_uploaded_baseline_must_be_a_run_s_id(tmp_path: Path) -> None:
    """An upload keeps the id of its baseline, and no other text can stand there."""
    run = judge(rows()[:2])
    with serving(ServerSettings(tmp_path)) as url:
        client = Client(url)
        before = str(uuid.uuid4())

        def with_baseline(text: str) -> EvalRun:
            update = {"id": str(uuid.uuid4()), "baseline": text}
            return EvalRun(run.manifest.model_copy(update=update), run.results)

        assert client.upload(with_baseline(before)).baseline == before
        for text in ("label:main", "<script>", before.upper(), ""):
            with pytest.raises(DataError, match="baseline"):
                client.upload(with_baseline(text))
