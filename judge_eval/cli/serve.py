"""`serve`: the pages and the REST API over the folder of runs."""

import os
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from judge_eval.cli import start_is_over
from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Floor, NumbersFlags, Runs
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import HowCalled, WhoJudges
from judge_eval.cli.printing.output import remark, tell
from judge_eval.compare.options import Gates
from judge_eval.errors import ConfigError
from judge_eval.server.server_settings import TOKEN, ServerLimits, ServerSettings, Serving
from judge_eval.settings import setting


@verb
def serve(
    runs: Runs,
    serving: Serving,
    limits: Annotated[ServerLimits, only()],
    gates: Annotated[Gates, only("fail_under"), without("baseline", "max_drop", "non_inferior")],
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only("metrics")],
    calling: HowCalled,
    sample: Path | None = setting(None, "A file of `sample`: label its traces in the browser, in its order."),
    floor: Floor = None,
) -> None:
    """Serve pages and a REST API over the folder of runs; with --model it judges submitted traces too.

    Runs that `judge-eval run` writes into the folder are shown while they are judged, with their finished
    traces.

    Examples:
    judge-eval serve
    judge-eval serve --out ci-runs --port 9000
    judge-eval serve --sample to_label.jsonl
    judge-eval serve --model openai/NAME --fail-under AP@5=0.8
    """
    from judge_eval.compare.gate import gate_limits
    from judge_eval.runs.keeping.mirror import is_mirror, shown
    from judge_eval.server.process import serve as run_server
    from judge_eval.study.people import read_sample
    from judge_eval.trials.floor_judge import check_floor

    out = runs.out
    if is_mirror(out):
        raise ConfigError(f"{shown(out)}: a server needs a local folder; use `runs pull` first")
    drawn = None if sample is None else read_sample(sample)
    page = "" if drawn is None else f"/runs/{runs.load(drawn.run).id}?sample=1&blind=1"
    settings = ServerSettings(
        out,
        **asdict(serving),
        token=os.environ.get(TOKEN) or None,
        thresholds={limit.metric: limit.value for limit in gate_limits(gates)},
        cache=calling.used,
        limits=limits,
        sample=drawn,
        floor=floor,
    )
    if floor is not None:
        check_floor(floor)
    evaluator = judging.evaluator(calling, numbers) if judging.is_named else nullcontext()
    start_is_over()
    with evaluator as judge:
        run_server(settings, judge, ready=lambda url: _announce(str(out), url, page))


def _announce(out: str, url: str, page: str) -> None:
    everywhere = next((host for host in ("0.0.0.0", "[::]") if f"//{host}:" in url), None)  # noqa: S104  shown
    if everywhere is None:
        tell(f"judge_eval serves {out} on {url}")
    else:
        here = url.replace(everywhere, "127.0.0.1" if everywhere[0] == "0" else "[::1]")
        tell(f"judge_eval serves {out} on {here}, and on this machine's other addresses")
        url = here
    if Path(out).exists() and not os.access(out, os.W_OK):
        remark(f"{out} cannot be written: its runs are shown, but no label, upload or submission can be kept")
    if page:
        tell(f"label the sample on {url}{page}")
    tell(f"with JUDGE_EVAL_SERVER={url} set, `judge-eval run` prints the address of its page", flush=True)
