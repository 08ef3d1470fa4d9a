"""The flags on judging: how the judge is called, how the run goes, who judges: one, a panel, a cascade."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from judge_eval.cli import start_is_over
from judge_eval.cli.flags.common import JUDGING, NumbersFlags, configured_judges
from judge_eval.cli.flags.groups import is_flagged, only, without
from judge_eval.cli.printing.output import annotation, complain
from judge_eval.errors import ConfigError
from judge_eval.llm.cache.store import NONE, cache_place
from judge_eval.llm.options import PANEL, Options
from judge_eval.registry import MODES
from judge_eval.safe_text import public_url
from judge_eval.settings import Range, setting
from judge_eval.spelling import option

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.judge_file import JudgeSpec
    from judge_eval.runs.folder.run import Run
    from judge_eval.runs.judging.session import Driver

    ModeName: TypeAlias = str
else:  # typer makes a choice of it
    ModeName = Literal[MODES]

_setting = partial(setting, panel=JUDGING, changes_verdict=True)
_kept = partial(_setting, env=True, file=True)
_SHARED = ("prompt", "mode", "relevant", "evidence", "blank", "confidence", "repeat", "vote")
"""The options of one judge and of a panel."""
_SUFFIXES = (".toml", ".json")
"""How the names of judge files end."""
_cascaded = partial(setting, panel="A cascade of two judges", changes_verdict=True)
_called = partial(setting, panel=PANEL)


@dataclass(frozen=True)
class CachingFlags:
    """Where replies are cached."""

    cache: str | None = setting(
        None,
        "The folder of the cache (see `cache path`), `project` for this project's own "
        "(.judge_eval/cache), a database as postgresql://..., or `none`: nothing is read or written.",
        PANEL,
        metavar="PATH|project|none",
        env=True,
        file=True,
        common=True,
    )

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFlags:
    """How a run goes, and what comes before it."""

    engine: str = _called("local", "Where to judge: `local`, or `ray` for a cluster.")
    ray_address: str | None = _called(None, "With --engine ray: the cluster's address.")
    workers: int | None = _called(None, "With --engine ray: the number of workers.")
    block: int = _called(8, "With --engine ray: how many traces a worker is sent at once.", range=Range(1, 10_000))
    max_failures: int = setting(
        0, "How many failed verdicts are allowed before the exit code is 3.", env=True, file=True, common=True
    )
    retriever: str | None = setting(
        None,
        "The data are questions; this function of the working folder or of a package finds their chunks.",
        panel="Reading the data",
        metavar="MODULE:FUNCTION",
    )
    dry_run: bool = setting(False, "Show calls, cache hits and tokens; make no call.", common=True)

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

    def show_fault(self, *runs: Run) -> str | None:
        """Print why the first incomplete run is incomplete, for GitHub as an error, and return it; None if none is."""
        from judge_eval.views.run_remarks import incomplete_line

        lines = (incomplete_line(run.manifest, self.max_failures) for run in runs)
        fault = next(filter(None, lines), None)
        if fault is not None:
            complain(fault)
            if os.environ.get("GITHUB_ACTIONS") == "true":
                kind, _, rest = fault.partition(": ")
                annotation("error", kind, rest)
        return fault


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFlags:
    """A cascade: its two judges, and from which confidence the cheap one decides."""

    cascade: str | None = _cascaded(
        None,
        "Judge with two models: this one first, and --strong-model if it is not confident. It must "
        "return probabilities: decisions/NAME, or a chat model with log-probabilities.",
        metavar="MODEL",
        completion="models",
        common=True,
    )
    strong_model: str | None = _cascaded(
        None, "With --cascade: the strong judge. Default: --model.", metavar="MODEL", completion="models", common=True
    )
    cascade_threshold: float | None = _cascaded(
        None,
        "With --cascade: the confidence (.50, .51, ... 1.00) from which a cheap verdict is final. It has "
        "no guarantee; `cascade fit` finds one that has.",
    )

    def check_cascade(self) -> None:
        """Check that options of a cascade come with its cheap judge."""
        for field in fields(CascadeFlags):
            if getattr(self, field.name) is not None:
                raise ConfigError(
                    f"{option(field.name)} is for a cascade: name its cheap judge too, {option('cascade', 'MODEL')}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingFlags(CascadeFlags):
    """Who judges, and how."""

    model: str | None = _kept(
        None,
        "Who judges, such as openai/NAME or fake/overlap (offline).",
        metavar="PROVIDER/MODEL",
        flags=("--model", "-m"),
        completion="models",
        common=True,
    )
    prompt: str | None = _kept(
        None,
        "A prompt's id (see `prompts list`), or file:PATH for your own. Default: support/binary.",
        metavar="ID|file:PATH",
        completion="prompts",
        common=True,
    )
    mode: ModeName | None = _kept(
        None,
        "`pointwise` (one chunk a call), `listwise` (all of a trace) or `decision` (questions to "
        "decisions/NAME, its default). Claim by claim of the reference: `claims`, `claims-list`, "
        "`claims-decision`.",
        metavar="MODE",
        common=True,
    )
    member: list[str] | None = _setting(None, "A judge of a panel; repeat it for each.", metavar="MODEL[:PROMPT]")
    repeat: int = _setting(1, "Judge every chunk this many times, and vote.", env=True)
    vote: Literal["majority", "median", "mean"] = _setting("majority", "How several verdicts become one.", env=True)
    evidence: Literal["flag", "required"] | None = _kept(
        None,
        "A relevant verdict whose quote is missing, too short or not in the chunk: `flag` counts it and "
        "says so (the default, unless the prompt file says otherwise), `required` makes it a failure.",
    )
    blank: Literal["no_verdict", "irrelevant"] | None = _kept(
        None,
        "What a chunk without text counts as, without a call: `no_verdict` is a failed verdict (the "
        "default), `irrelevant` gives it the lowest grade.",
    )
    confidence: bool = _kept(False, "Ask the server for log-probabilities; continue without them if it refuses.")
    judge: str | None = _kept(
        None,
        "Who judges: a judge file, a table [judge.NAME] of the configuration, or a judge of an installed package.",
        metavar="FILE|NAME",
        completion="judges",
    )

    @property
    def asked(self) -> str:
        """The prompt, or that of those who name none."""
        from judge_eval.judges.judge import DEFAULT_PROMPT

        return self.prompt or DEFAULT_PROMPT

    @property
    def is_named(self) -> bool:
        """Whether anybody is named to judge."""
        return any((self.model, self.judge, self.cascade, self.member))

    @property
    def by_claims(self) -> bool:
        """Whether the judge may go by claims."""
        return self.spec().by_claims

    def spec(self, relevant: int | None = None) -> JudgeSpec:
        """Return who judges, as a judge file states it, with `relevant` as the least grade that is relevant.

        What a file leaves open is taken from the other options; a flag that contradicts the file is refused.
        """
        from judge_eval.judge_file import JudgeSpec, MemberSpec, cascade_spec
        from judge_eval.prompts import prompt_ids

        values = {field.name: getattr(self, field.name) for field in fields(self)} | {"relevant": relevant}
        file, where = self._file()
        if self.cascade or (file is not None and file.cheap is not None):
            if self.member or self.repeat > 1 or (self.judge and file is None):
                raise ConfigError("a cascade is of two judges; leave out --member, --repeat and --judge")
            return cascade_spec(values) if file is None else file.beside(where, values)
        self.check_cascade()
        shared: dict[str, Any] = {name: values[name] for name in _SHARED if values[name] is not None}
        if file is None:
            members = tuple(MemberSpec(**split_member(text, prompt_ids())) for text in self.member or ())
            return JudgeSpec(**shared, judge=self.judge, member=members, model="" if members else self.model or "")
        if self.member:
            if not file.member:
                raise ConfigError(f"{option('member')} is for a panel, and {where} describes one judge")
            more = (MemberSpec(**split_member(text, prompt_ids())) for text in self.member)
            file = file.model_copy(update={"member": (*file.member, *more)})
        if not file.member:
            shared["model"] = self.model
        for name in shared.keys() & file.model_fields_set:
            stated = shared.pop(name)
            if stated != getattr(file, name) and is_flagged(name):
                raise ConfigError(
                    f"{option(name)} {stated}: {where} says {getattr(file, name)}; leave one of the two out"
                )
        return file.model_copy(update=shared)

    def _file(self) -> tuple[JudgeSpec | None, str]:
        """Return the judge that a file or a table of the configuration describes, and what that is called."""
        from judge_eval.judge_file import JudgeSpec, read_judge

        if self.judge is None:
            return None, ""
        if Path(self.judge).is_file() or self.judge.endswith(_SUFFIXES):
            return read_judge(Path(self.judge)), self.judge
        path, tables = configured_judges()
        if self.judge in tables and path is not None:
            where = f"{path}: [judge.{self.judge}]"
            return JudgeSpec.of_table(tables[self.judge], where, path.parent), where
        return None, ""

    def evaluator(
        self,
        calling: CallingFlags,
        numbers: NumbersFlags,
        metrics: Sequence[str] | None = None,
        *,
        fitting: bool = False,
    ) -> Evaluator:
        """Make the evaluator, which the caller closes; `fitting` leaves a cascade's threshold open."""
        from judge_eval.evaluator import DEFAULT_METRICS, Evaluator

        spec, options = self.spec(numbers.relevant), calling.options()
        urls = [url for url in (options.base_url, *options.fleet) if url is not None]
        if spec.base_url and urls not in ([], [spec.base_url]) and is_flagged("fleet", "base_url"):
            raise ConfigError(
                f"{option('base_url')} {', '.join(map(public_url, urls))}: the judge file says "
                f"{public_url(str(spec.base_url))}; leave one of the two out"
            )
        start_is_over()
        return Evaluator(
            **spec.keywords(options, fitting=fitting),
            metrics=metrics or numbers.names or DEFAULT_METRICS,
            cache=calling.used or False,
            intervals=numbers.intervals,
        )


def split_member(text: str, known: Sequence[str]) -> dict[str, str]:
    """Split `provider/model:prompt`; what stands behind the last colon is a prompt only if it is known.

    Raises:
        ConfigError: A file of a prompt stands there without `file:`; it would be taken for a part of the model's name.
    """
    model, is_file, path = text.partition(":file:")
    if is_file:
        return {"model": model, "prompt": f"file:{path}"}
    model, colon, prompt = text.rpartition(":")
    if colon and prompt.lower().endswith(".toml"):
        raise ConfigError(f"{option('member')} {text}: a prompt's file is named with file:; write :file:{prompt}")
    if colon and (prompt.partition("@")[0] in known or "/" in prompt):
        return {"model": model, "prompt": prompt}
    return {"model": text}


OF_THE_RUN = without("evidence", "blank", "confidence", "repeat", "vote")
"""What the run says for verbs that ask a run's judge; the configuration may say something else by now."""


def judge_of_run(judging: JudgingFlags, calling: CallingFlags, run: Run) -> dict[str, Any]:
    """Return as keywords of `Evaluator` who judged a run: the models are named, all else is the run's own."""
    from judge_eval.trials.drift import recorded_judge, recorded_params

    called = replace(calling, params={**recorded_params(run), **calling.params})
    who = judging.spec().keywords(called.options())
    if judging.judge is None and not is_flagged("prompt", "mode"):
        who = {"model": who["model"], "judge": recorded_judge(run), "options": who["options"]}
    return {**who, "metrics": run.manifest.metrics, "intervals": run.manifest.intervals}


WhoJudges: TypeAlias = Annotated[JudgingFlags, only("model", "judge", "prompt", "mode")]
"""Who judges, for verbs that may: all else about a judge stands in its file and in the configuration."""
