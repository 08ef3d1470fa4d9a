"""From flags to an evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from judge_eval.cli.options import IntervalMethod, Mode, need_model, prompt_name, split_metrics, split_params

if TYPE_CHECKING:
    from judge_eval.backends.stack import Options
    from judge_eval.evaluator import Evaluator


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
) -> Iterator[Evaluator]:
    """Make an evaluator from flags, and close it afterwards."""
    from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
    from judge_eval.runs.records import Intervals

    made = Evaluator(
        "replay/cassette" if options.replay else need_model(model),
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
