from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from judge_eval import Evaluator
from judge_eval.llm.cache.store import cache_place, project_cache
from judge_eval.server.rest_client import Client
from judge_eval.server.server_settings import ServerSettings
from tests.support.command import FIXTURES, Shell
from tests.support.desk import Desk
from tests.support.serving import ask, serving

FAKE = ("--model", "fake/overlap")
PIZZA = FIXTURES / "pizza.jsonl"
SHARED = "answers are kept in xdg/judge_eval, which all your projects share"


def test_the_first_run_says_where_answers_are_kept(desk: Desk) -> None:
    """The first run in a folder of runs says where the cache is and who shares it; later ones do not."""
    result = desk("run", PIZZA, *FAKE)
    assert f'{SHARED}\nto give this project a cache of its own, put `cache = "project"` in' in result.out
    assert "answers are kept" not in desk("run", PIZZA, *FAKE).out
    clean = desk("run", PIZZA, *FAKE, "--out", "clean")
    assert f"{SHARED} (4 came from there)\n" in clean.out
    assert json.loads(desk("run", PIZZA, *FAKE, "--out", "as-json", "--json").out)["status"] == "done"


@pytest.mark.parametrize("flags", [("--cache", "none"), ("-q",)])
def test_nothing_is_said_of_a_cache_that_is_not_used_or_not_asked_about(desk: Desk, flags: tuple[str, ...]) -> None:
    """Without a cache there is none to name, and `-q` leaves remarks out."""
    assert "answers are kept" not in desk("run", PIZZA, *FAKE, *flags).out


@pytest.mark.foreign
def test_a_project_keeps_a_cache_of_its_own(desk: Desk) -> None:
    """`cache = "project"` in the configuration: answers lie at its top, out of git."""
    (desk.folder / "judge_eval.toml").write_text('model = "fake/overlap"\ncache = "project"\n')
    result = desk("run", PIZZA)
    assert "answers are kept in .judge_eval/cache\n" in result.out
    assert not (desk.folder / "xdg").exists()
    subprocess.run(["git", "init", "-q", "."], cwd=desk.folder, check=True)
    seen = subprocess.run(
        ["git", "status", "--short"], cwd=desk.folder, check=True, capture_output=True, text=True
    ).stdout
    assert ".judge_eval/" not in seen
    below = desk.folder / "a" / "b"
    below.mkdir(parents=True)
    desk.patch.chdir(below)
    assert desk("cache", "path").out.strip() == str(desk.folder / ".judge_eval" / "cache")
    assert "4 from the cache" in desk("run", PIZZA).out
    settings = json.loads(desk("doctor", "--json").out)["settings"]
    assert {each["name"]: each["value"] for each in settings}["cache"].endswith(".judge_eval/cache")


def test_the_cache_of_a_project_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Evaluator(cache="project")` and JUDGE_EVAL_CACHE=project mean one folder, `./project` another."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    place = tmp_path / ".judge_eval" / "cache"
    assert project_cache() == cache_place("project") == place
    assert cache_place("./project") == Path("project")
    assert cache_place("postgresql://h/db") == "postgresql://h/db"
    for cache, variable in (("project", ""), (True, "project")):
        monkeypatch.setenv("JUDGE_EVAL_CACHE", variable)
        with Evaluator("fake/overlap", cache=cache) as evaluator:
            run = evaluator.evaluate(PIZZA)
        assert (place / "cache.db").is_file()
        assert run.manifest.tally.hits == (0 if cache == "project" else 4)


def test_a_run_prints_the_address_of_its_page(desk: Desk) -> None:
    """Where a server is set, by flag, environment or file, the printed address is that of the page."""
    with serving(ServerSettings(desk.folder / "runs")) as url:
        result = desk("run", PIZZA, *FAKE, JUDGE_EVAL_SERVER=url + "/")
        page = result.out.rsplit("its page: ", 1)[1].splitlines()[0]
        run = json.loads(desk("show", "latest", "--json").out)
        assert page == f"{url}/runs/{run['id']}"
        assert ask(page)[0] == 200
        assert ask(page.replace("/runs/", "/api/v1/runs/"))[1]["id"] == run["id"]
        (desk.folder / "judge_eval.toml").write_text(f'server = "{url}"\n')
        assert f"its page: {url}/runs/" in desk("run", PIZZA, *FAKE).out
        desk.patch.setenv("JUDGE_EVAL_SERVER", url)
        assert run["id"] in {summary.uuid for summary in Client().list_runs()}
    (desk.folder / "judge_eval.toml").unlink()
    desk.patch.delenv("JUDGE_EVAL_SERVER")
    assert "its page" not in desk("run", PIZZA, *FAKE).out


@pytest.mark.parametrize("server", ["localhost:8642", "ftp://host", "http://host/?a=b", "http://a b"])
def test_an_address_that_is_none_is_told_before_anything_is_judged(desk: Desk, server: str) -> None:
    """A server's address that cannot be one ends the command with an example, and without a run."""
    result = desk("run", PIZZA, *FAKE, "--server", server)
    assert result.code == 2
    assert "write the address that `judge-eval serve` prints, such as http://127.0.0.1:8642" in result.err
    assert not (desk.folder / "runs").exists()


def test_no_password_of_a_server_is_shown(desk: Desk) -> None:
    """Credentials in the server's address reach no output."""
    result = desk("run", PIZZA, *FAKE, "--server", "http://me:hush-hush@host:1")
    assert "hush" not in result.out + result.err
    assert "its page: http://host:1/runs/" in result.out


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_serve_always_prints_an_address_that_can_be_opened(tmp_path: Path, host: str) -> None:
    """Whatever it listens on, the first line has an address of this machine, before any request is made."""
    shell = Shell(tmp_path)
    token = {"JUDGE_EVAL_SERVER_TOKEN": "t" * 32} if host != "127.0.0.1" else {}
    server = shell.start("serve", "--port", "0", "--host", host, **token)
    try:
        assert server.stdout is not None
        first, second = (server.stdout.readline().decode() for _ in range(2))
        url = first.split(" on ", 1)[1].split(",")[0].strip()
        assert url.startswith("http://127.0.0.1:")
        assert ask(url)[0] == 200
        assert f"JUDGE_EVAL_SERVER={url}" in second
    finally:
        server.terminate()
        server.communicate(timeout=60)
