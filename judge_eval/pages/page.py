"""What a page is: its name, its address, its script and its data; the server and reports find it by name.

Adding a page takes two files: `pages/NAMEpage.py`, which ends with `PAGE = Page(...)`, and its script in
`pages/web/`. A page of an installed package is an entry point of the group `judge_eval.pages`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import iter_modules

from judge_eval import pages as folder
from judge_eval import registry
from judge_eval.compare.comparison import Check
from judge_eval.errors import UnknownNameError
from judge_eval.llm.cache.store import Store
from judge_eval.runs.folder.records import SliceBy
from judge_eval.runs.folder.run import Run
from judge_eval.views.blocks import JSON
from judge_eval.views.page_texts import Text, page_texts

STYLES = ("pages.css", "compare.css", "runs.css", "claims.css")
"""The styles of all pages; a later file has the last word."""

_IMPORT = re.compile(r'^import [^;]*?(?:from )?"\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|class|let)", re.MULTILINE)


MOST = 10_000
"""The most traces that a page holds in full."""


@dataclass(frozen=True, slots=True)
class PageSettings:
    """How much a page holds."""

    store: Store | None = None
    """The cache in which the judge's raw replies are looked up; None leaves them out."""
    most: int | None = MOST
    """The most traces to hold in full; figures are of all. None holds all."""
    by: tuple[SliceBy, ...] = ()
    """Which slices to show; empty: those the run was asked for, or if all its traces are held, of every kind."""
    checks: Sequence[Check] = ()
    """What became of limits; a gate that failed or warns stands first on a report."""
    floor: Run | None = None
    """The verdicts of a floor on the labelled traces, to which the judge is compared."""


@dataclass(frozen=True, slots=True)
class PageData:
    """What the script of a page draws."""

    title: str
    data: JSON
    """What is read when the page is opened."""
    items: Iterable[JSON] = ()
    """What is read when it is looked at, such as traces in full."""


@dataclass(frozen=True, slots=True)
class Page:
    """One kind of page."""

    name: str
    path: str
    """Where a server shows it."""
    script: str | Path
    """Its module, a file of `pages/web/` or a path; it calls `page(NAME, draw)` of `dom.js`."""
    make: Callable[[Sequence[Run], PageSettings], PageData] = lambda *_: PageData("judge_eval", {})
    """Makes its data from runs."""
    texts: Mapping[str, Text] = field(default_factory=dict)
    """The texts that its script asks for by `phrase(NAME)`, beyond those that all pages have."""

    @property
    def module(self) -> str:
        """The file name of its script."""
        return Path(self.script).name

    def code(self) -> str:
        """Return its script with all that it imports and what starts it, as one script."""
        sources = self._sources()
        return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in sources.values())

    def all_texts(self, *, served: bool) -> dict[str, Text]:
        """Return the texts of its scripts by name; a served page may load every script."""
        own = {name.removesuffix(".js") for name in self._sources()}
        texts = {name: text for name, text in page_texts().items() if served or name.split(".")[0] in own}
        return texts | dict(self.texts)

    def _sources(self) -> dict[str, str]:
        sources: dict[str, str] = {}
        _collect(self.module, self.text(), sources)
        _collect("app.js", web("app.js"), sources)
        return sources

    def text(self) -> str:
        """Return its own script."""
        return web(self.script) if isinstance(self.script, str) else self.script.read_text(encoding="utf-8")


def _collect(name: str, text: str, sources: dict[str, str]) -> None:
    for needed in _IMPORT.findall(text):
        if needed not in sources:
            _collect(needed, web(needed), sources)
    sources.setdefault(name, text)


@cache
def web(name: str) -> str:
    """Read a file of the pages."""
    return (files("judge_eval.pages") / "web" / name).read_text(encoding="utf-8")


@cache
def web_files() -> frozenset[str]:
    """Return the names of the files of the pages."""
    return frozenset(file.name for file in (files("judge_eval.pages") / "web").iterdir() if file.is_file())


@cache
def pages() -> Mapping[str, Page]:
    """Return every page that is made from runs, by name."""
    modules = [module.name for module in iter_modules(folder.__path__) if module.name.endswith("page")]
    records = [getattr(import_module(f"{folder.__name__}.{name}"), "PAGE", None) for name in modules]
    records += [registry.find("pages", name, "page") for name in registry.names("pages")]
    return {page.name: page for page in records if isinstance(page, Page)}


def page_named(name: str) -> Page:
    """Return a page that is made from runs."""
    if name not in pages():
        raise UnknownNameError("page", name, pages())
    return pages()[name]
