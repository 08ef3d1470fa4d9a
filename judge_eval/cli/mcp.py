"""`mcp`: the tools for coding agents, over the Model Context Protocol."""

import os
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

from judge_eval.cli import start_is_over
from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import NumbersFlags, Runs
from judge_eval.cli.flags.groups import only
from judge_eval.cli.flags.judging import CallingFlags, WhoJudges
from judge_eval.cli.printing.output import remark
from judge_eval.errors import ConfigError, needs_extra
from judge_eval.server.server_settings import TOKEN, ServerLimits, ServerSettings, Serving
from judge_eval.settings import setting


@verb
def mcp(
    runs: Runs,
    serving: Serving,
    limits: Annotated[ServerLimits, only()],
    judging: WhoJudges,
    numbers: Annotated[NumbersFlags, only("metrics")],
    calling: Annotated[CallingFlags, only("cache", "fleet", "concurrency", "max_cost")],
    http: bool = setting(False, "Listen at --host and --port, path /mcp, instead of standard input."),
) -> None:
    """Offer tools to coding agents: judge retrievals, list the worst traces, compare, gate, try what-ifs.

    Without --model nothing is judged. Over --http the pages and the REST API are served too, a caller brings its data
    (no file of this machine is read), and JUDGE_EVAL_SERVER_TOKEN is the token.

    Examples:
    judge-eval mcp --model openai/NAME --metrics AP@5
    judge-eval mcp --http --port 9000
    """
    from judge_eval.runs.keeping.mirror import is_mirror, shown

    if is_mirror(runs.out):
        raise ConfigError(f"{shown(runs.out)}: tools need a local folder of runs; use `runs pull` first")
    try:
        from judge_eval.server.tools import make_tools
    except ImportError as error:
        raise needs_extra(f"tools for agents need {error.name}", "mcp") from None
    evaluator = judging.evaluator(calling, numbers) if judging.is_named else nullcontext()
    start_is_over()
    with evaluator as judge:
        if not http:
            make_tools(runs.out, judge, limits, files=True).run("stdio")
            return
        from judge_eval.server.process import serve

        token = os.environ.get(TOKEN) or None
        settings = ServerSettings(runs.out, **asdict(serving), token=token, cache=calling.used, limits=limits)
        serve(settings, judge, ready=lambda url: remark(f"tools for agents at {url}/mcp"), tools=True)
