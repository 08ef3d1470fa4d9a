"""The flags on calls and on how a run goes: cache, server, limits, budgets, cluster, allowed failures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from judge_eval.cli.flags.groups import only
from judge_eval.errors import ConfigError
from judge_eval.llm.cache.store import NONE, cache_place
from judge_eval.llm.options import PANEL, Options
from judge_eval.llm.options import PANEL as CALLING
from judge_eval.settings import Range, Setting
from judge_eval.spelling import option

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.runs.judging.session import Driver


@dataclass(frozen=True)
class CachingFlags:
    """Where replies are cached."""

    cache: Annotated[
        str | None,
        Setting(
            "The folder of the cache (see `cache path`), `project` for this project's own "
            "(.judge_eval/cache), a database as postgresql://..., or `none`: nothing is read or written.",
            PANEL,
            "PATH|project|none",
            env=True,
            file=True,
            common=True,
        ),
    ] = None

    @property
    def location(self) -> str | Path:
        """The folder or the database of the cache; the user's own where none is given."""
        from judge_eval.evaluator import default_cache

        return cache_place(self.cache) if self.cache else default_cache()

    @property
    def used(self) -> str | Path | None:
        """The cache in use; None without one."""
        return None if self.cache == NONE else self.location


@dataclass(frozen=True)
class CallingFlags(Options, CachingFlags):
    """How the judge is called, and where its replies are cached."""

    def options(self) -> Options:
        """Return how the judge is called."""
        return Options(**{field.name: getattr(self, field.name) for field in fields(Options)})


HowCalled: TypeAlias = Annotated[CallingFlags, only("cache", "fleet", "params", "concurrency", "max_cost")]
"""How a judge is called, for verbs that may: the configuration says the rest."""


_setting = partial(Setting, panel=CALLING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFlags:
    """How a run goes, and what comes before it."""

    engine: Annotated[str, _setting("Where to judge: `local`, or `ray` for a cluster.")] = "local"
    ray_address: Annotated[str | None, _setting("With --engine ray: the cluster's address.")] = None
    workers: Annotated[int | None, _setting("With --engine ray: the number of workers.")] = None
    block: Annotated[
        int, _setting("With --engine ray: how many traces a worker is sent at once.", range=Range(1, 10_000))
    ] = 8
    max_failures: Annotated[
        int,
        Setting("How many failed verdicts are allowed before the exit code is 3.", env=True, file=True, common=True),
    ] = 0
    retriever: Annotated[
        str | None,
        Setting(
            "The data are questions; this function of the working folder or of a package finds their chunks.",
            panel="Reading the data",
            metavar="MODULE:FUNCTION",
        ),
    ] = None
    dry_run: Annotated[bool, Setting("Show calls, cache hits and tokens; make no call.", common=True)] = False

    def search(self) -> Any:
        """Return what finds the chunks of questions; None where the data bring them."""
        from judge_eval.runs.judging.retrieval import named_retriever

        if self.retriever is None:
            return None
        if self.dry_run:
            fault = f"the calls depend on what {option('retriever')} finds; leave one out"
            raise ConfigError(f"{option('dry_run')}: {fault}")
        return named_retriever(self.retriever)

    def driver(self, evaluator: Evaluator) -> Driver | None:
        """Return what judges on a cluster; None where this machine does."""
        if self.engine == "local":
            return None
        if self.engine != "ray":
            raise typer.BadParameter(f"--engine {self.engine!r}: write local or ray")
        from judge_eval.distributed import RayDriver

        return RayDriver(evaluator, address=self.ray_address, workers=self.workers, block=self.block)
