"""From flags to an evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.flags.options import IntervalMethod, Mode, Otel
from judge_eval.cli.flags.options import Vote as VoteName
from judge_eval.cli.flags.values import need_model, prompt_name, split_metrics, split_params
from judge_eval.errors import ConfigError

if TYPE_CHECKING:
    from judge_eval.backends.stack import Options
    from judge_eval.evaluator import Evaluator
    from judge_eval.judges import Judge


def make_options(
    *,
    base_url: str | Sequence[str] | None = None,
    param: Sequence[str] | None = None,
    timeout: float = 120.0,
    concurrency: int = 256,
    rpm: float | None = None,
    tpm: float | None = None,
    attempts: int = 8,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    offline: bool = False,
    record: Path | None = None,
    replay: Path | None = None,
    lead: bool = False,
    hedge: float | None = None,
    otel: Otel = Otel.off,
) -> Options:
    """Gather the flags on how the judge is called."""
    from judge_eval.backends.stack import Options

    urls = [base_url] if isinstance(base_url, str) else list(base_url or ())
    return Options(
        base_url=urls[0] if urls else None,
        fleet=tuple(urls[1:]),
        params=split_params(param),
        timeout=timeout,
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        attempts=attempts,
        max_calls=max_calls,
        max_tokens=max_tokens,
        max_cost=max_cost,
        offline=offline,
        record=record,
        replay=replay,
        lead=lead,
        hedge=hedge,
        otel=otel.value,
    )


@contextmanager
def evaluator(
    model: str | None,
    prompt: str,
    mode: Mode,
    metrics: Sequence[str] | None,
    relevant: int | None,
    cache: str | None,
    no_cache: bool,
    options: Options,
    interval: IntervalMethod = IntervalMethod.t,
    cluster: str = "cluster",
    *,
    members: Sequence[str] | None = None,
    panel: Path | None = None,
    repeat: int = 1,
    vote: VoteName = VoteName.majority,
    judge_name: str | None = None,
) -> Iterator[Evaluator]:
    """Make an evaluator from flags, and close it afterwards."""
    from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
    from judge_eval.runs.folder.records import Intervals

    judge: Judge | str | None = judge_name
    chosen = None
    if members or panel is not None:
        if repeat > 1:
            raise ConfigError("--repeat and a panel do not go together; give members `sample`s of their own")
        judge, chosen, options = _panel(members, panel, prompt, mode, relevant, vote, options)
    made = Evaluator(
        chosen or ("replay/cassette" if options.replay else need_model(model)),
        judge=judge,
        repeat=repeat,
        vote=vote.value,
        prompt=prompt_name(prompt),
        mode="listwise" if mode is Mode.listwise else "pointwise",
        metrics=split_metrics(metrics) or DEFAULT_METRICS,
        relevant=relevant,
        cache=False if no_cache else cache or True,
        options=options,
        intervals=Intervals(method=interval.value, cluster=cluster),
    )
    with made:
        yield made


def _panel(
    members: Sequence[str] | None,
    panel: Path | None,
    prompt: str,
    mode: Mode,
    relevant: int | None,
    vote: VoteName,
    options: Options,
) -> tuple[Judge, dict[str, str], Options]:
    """Make the panel that flags or a file describe."""
    from judge_eval.cli.flags.panels import make_panel, read_panel, split_member
    from judge_eval.prompts import prompt_ids

    listed, told = read_panel(panel) if panel is not None else ([], {})
    listed += [split_member(text, prompt_ids()) for text in members or ()]
    chosen = told.get("vote", vote.value)
    if chosen not in tuple(VoteName):
        raise ConfigError(f"{panel}: no vote {chosen!r}; known: {', '.join(VoteName)}")
    quorum = told.get("quorum", 1)
    if not isinstance(quorum, int):
        raise ConfigError(f"{panel}: the quorum is {quorum!r}; it is a whole number")
    models, judge, options = make_panel(
        listed,
        prompt=prompt,
        mode=mode,
        relevant=relevant,
        vote=VoteName(chosen).value,
        quorum=quorum,
        options=options,
    )
    return judge, models, options
