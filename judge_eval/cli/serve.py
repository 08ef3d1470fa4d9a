"""`serve`: the pages and the REST API over the folder of runs."""

from __future__ import annotations

import os
from typing import Annotated

from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import ServingJudge
from judge_eval.cli.flags.keeping import Runs
from judge_eval.cli.flags.numbers import NumbersFlags
from judge_eval.cli.flags.serving import ServingFlags, TakingFlags
from judge_eval.cli.printing.door import tell
from judge_eval.cli.printing.errors import verb


@verb
def serve(
    runs: Runs,
    serving: ServingFlags,
    taking: TakingFlags,
    judging: ServingJudge,
    numbers: Annotated[NumbersFlags, only("metrics", "relevant")],
    calling: Annotated[
        CallingFlags, without("offline", "base_urls", "record", "replay", "lead", "hedge", "otel")
    ],
) -> None:
    """Serve pages and a REST API over the folder of runs; with --model it judges submitted traces too.

    Runs that `judge-eval run` writes into the folder are shown while they are judged, with their traces as
    they come.

    Examples:
    judge-eval serve
    judge-eval serve --out ci-runs --port 9000
    judge-eval serve --model openai/NAME --threshold "AP@5>=0.8"
    """
    from contextlib import nullcontext

    from judge_eval.errors import ConfigError
    from judge_eval.runs.keeping.mirroring import is_mirror, shown
    from judge_eval.server.process import serve as run_server
    from judge_eval.server.settings import TOKEN, ServerLimits, ServerSettings, read_thresholds

    out = runs.out
    if is_mirror(out):
        raise ConfigError(f"{shown(out)}: a server reads a folder; bring the runs with `runs pull` first")
    settings = ServerSettings(
        root=out,
        host=serving.host,
        port=serving.port,
        token=os.environ.get(TOKEN) or None,
        allowed_hosts=tuple(serving.allow_host or ()),
        thresholds=read_thresholds(serving.threshold or ()),
        cache=None if calling.no_cache else calling.location,
        limits=ServerLimits(
            taking.max_body * 2**20,
            taking.max_traces,
            taking.max_chunks,
            taking.max_queued,
            taking.max_runs,
        ),
    )
    evaluator = judging.evaluator(calling, numbers) if judging.model or judging.cascades else nullcontext()
    with evaluator as judge:
        run_server(settings, judge, ready=lambda url: _announce(str(out), url))


def _announce(out: str, url: str) -> None:
    """Say where the pages are, by an address that can be opened."""
    everywhere = next((host for host in ("0.0.0.0", "[::]") if f"//{host}:" in url), None)  # noqa: S104  shown
    if everywhere is None:
        tell(f"judge_eval serves {out} on {url}")
    else:
        here = url.replace(everywhere, "127.0.0.1" if everywhere[0] == "0" else "[::1]")
        tell(f"judge_eval serves {out} on {here}, and on this machine's other addresses")
        url = here
    tell(f"with JUDGE_EVAL_SERVER={url} set, `judge-eval run` prints the address of its page", flush=True)
