"""The rows of the matrix: a record for each kind of judge. A new kind is a new record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judge_eval import Judge, Member, Options
from tests.matrix.inside import Cascade, Claims, Decision, Listwise, Panel, Pointwise
from tests.support.stages import stages_file

MAIN, CHEAP = "gpt-4.1-mini", "gpt-4.1-nano"
"""Names of models whose prices are known."""


@dataclass(frozen=True)
class Place:
    """Where a judge is asked, and by which prompt."""

    folder: Path
    """For the files that a kind needs."""
    url: str
    """Of the server."""
    cheap_url: str
    """Of the server that answers a cascade's cheap judge."""
    prompt: str = "support/binary"


Built = tuple[str | Mapping[str, str], Judge, Options]
"""The model or models, the judge, and how it is called: what an `Evaluator` takes."""


@dataclass(frozen=True)
class Kind:
    """A kind of judge."""

    name: str
    flags: Callable[[Place], tuple[object, ...]]
    """The flags of the command line, but `--prompt` and `--base-url`."""
    build: Callable[[Place], Built]
    """The same in Python, for the prompt `support/binary` (or its own)."""
    metrics: str = "AP@3,NDCG@3,SoftP@3"
    claims: bool = False
    """Whether the data must bring the claims of the references."""
    prompt: Callable[[Path], str] = lambda _: "support/binary"
    """Writes the prompt's file, where it is one, and names the prompt."""
    graded: str = "support/graded"
    """A prompt of the same kind with more than two grades."""


def _direct(place: Place, **more: Any) -> Options:
    return Options(base_url=place.url, **more)


def _single(name: str, judge: Callable[[], Judge], *flags: object, **more: Any) -> Kind:
    return Kind(
        name,
        lambda _: ("--model", f"openai/{MAIN}", *flags),
        lambda place: (f"openai/{MAIN}", judge(), _direct(place)),
        **more,
    )


def _deciding(name: str, judge: Callable[[], Judge], *flags: object, **more: Any) -> Kind:
    return Kind(
        name,
        lambda _: ("--model", f"decisions/{MAIN}", "-p", "dialect=openai", *flags),
        lambda place: (f"decisions/{MAIN}", judge(), _direct(place, params={"dialect": "openai"})),
        **more,
    )


def _panel_file(place: Place, *members: Mapping[str, object]) -> tuple[object, ...]:
    lines = []
    for member in members:
        lines += ["[[member]]", *(f"{key} = {_toml(value)}" for key, value in member.items()), ""]
    path = place.folder / "panel.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return ("--judge", path)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return repr(value)


def _panel(place: Place) -> Built:
    members = [
        Member("first", Pointwise("support/binary"), "first"),
        Member("second", Pointwise("support/binary"), "second"),
        Member("third", Pointwise("support/binary", sample=1), "second"),
    ]
    return {"first": f"openai/{MAIN}", "second": f"openai/{CHEAP}"}, Panel(members), _direct(place)


def _mixed(place: Place) -> Built:
    options = _direct(place)
    members = [
        Member("alone", Pointwise("support/binary"), "alone"),
        Member("list", Listwise("listwise/support/binary"), "list"),
        Member("deciding", Decision("support/decision"), "deciding"),
    ]
    models = {"alone": f"openai/{MAIN}", "list": f"openai/{CHEAP}", "deciding": f"decisions/{MAIN}"}
    special = {"deciding": replace(options, params={"dialect": "openai"})}
    return models, Panel(members), replace(options, members=special)


def _cascade(name: str, **more: bool) -> Kind:
    def build(place: Place) -> Built:
        options = _direct(place)
        judge = Cascade(Decision("support/decision"), Pointwise("support/binary"), 0.75, **more)
        special = {"cheap": replace(options, base_url=place.cheap_url, params={"dialect": "openai"})}
        models = {"cheap": f"decisions/{CHEAP}", "strong": f"openai/{MAIN}"}
        return models, judge, replace(options, members=special)

    stage = {"model": f"decisions/{CHEAP}", "params": {"dialect": "openai"}}
    return Kind(name, lambda place: _stages(place, stage, **more), build)


def _stages(place: Place, cheap: dict[str, Any], **more: object) -> tuple[object, ...]:
    stage = {"base_url": place.cheap_url, **cheap}
    return "--judge", stages_file(place.folder, stage, f"openai/{MAIN}", threshold=0.75, **more)


def _listwise_cascade(place: Place) -> Built:
    options = _direct(place)
    judge = Cascade(Listwise("listwise/support/binary"), Pointwise("support/binary"), 0.75)
    special = {"cheap": replace(options, base_url=place.cheap_url)}
    models = {"cheap": f"openai/{CHEAP}", "strong": f"openai/{MAIN}"}
    return models, judge, replace(options, members=special)


def _own_prompt(folder: Path) -> str:
    """Write a prompt file with four grades, of which `--relevant` takes only the highest for relevant."""
    shipped = Path(__file__).parents[2] / "prompts" / "support" / "graded.toml"
    text = shipped.read_text(encoding="utf-8")
    path = folder / "own.toml"
    path.write_text(re.sub('id = "support/graded"', 'id = "house/own"', text), encoding="utf-8")
    return f"file:{path}"


def _own(place: Place) -> Built:
    path = Path(place.prompt.removeprefix("file:"))
    return f"openai/{MAIN}", Pointwise(path, relevant=3), _direct(place)


KINDS = (
    _single("pointwise", lambda: Pointwise("support/binary")),
    _single("listwise", lambda: Listwise("listwise/support/binary"), "--mode", "listwise"),
    _deciding("decision", lambda: Decision("support/decision")),
    _single(
        "claims", lambda: Claims("claims/support"), "--mode", "claims",
        metrics="AP@3,NDCG@3,ClaimRecall@3",
    ),
    _single(
        "claims-list", lambda: Claims("claims/support-list"), "--mode", "claims-list",
        metrics="AP@3,NDCG@3,ClaimRecall@3",
    ),
    _deciding(
        "claims-decision", lambda: Claims("claims/decision"), "--mode", "claims",
        metrics="AP@3,NDCG@3,ClaimRecall@3", claims=True,
    ),
    Kind(
        "panel",
        lambda place: _panel_file(
            place,
            {"name": "first", "model": f"openai/{MAIN}"},
            {"name": "second", "model": f"openai/{CHEAP}"},
            {"name": "third", "model": f"openai/{CHEAP}", "sample": 1},
        ),
        _panel,
    ),
    Kind(
        "mixed-panel",
        lambda place: _panel_file(
            place,
            {"name": "alone", "model": f"openai/{MAIN}"},
            {"name": "list", "model": f"openai/{CHEAP}", "mode": "listwise"},
            {"name": "deciding", "model": f"decisions/{MAIN}", "params": {"dialect": "openai"}},
        ),
        _mixed,
    ),
    _cascade("cascade"),
    Kind(
        "listwise-cascade",
        lambda place: _stages(place, {"model": f"openai/{CHEAP}", "mode": "listwise"}),
        _listwise_cascade,
    ),
    _cascade("explained-cascade", explain_positives=True),
    Kind(
        "own-scale",
        lambda _: ("--model", f"openai/{MAIN}", "--relevant", 3),
        _own,
        prompt=_own_prompt,
    ),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
