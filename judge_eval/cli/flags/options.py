"""The flags that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_eval.cli.flags import completion

if TYPE_CHECKING:
    pass

READING, JUDGING, CALLING, KEEPING = "Reading the data", "Judging", "Calling the judge", "The run"
LOGPROBS = ("logprobs=true", "top_logprobs=5")
"""The parameters that ask a server for log-probabilities."""
NUMBERS, GATING = "Numbers", "Gate"


class Mode(StrEnum):
    """How chunks are put to the judge."""

    pointwise = "pointwise"
    listwise = "listwise"


class OnInvalid(StrEnum):
    """What an invalid record does."""

    error = "error"
    skip = "skip"


class Vote(StrEnum):
    """How the grades of several judges become one."""

    majority = "majority"
    median = "median"
    mean = "mean"


class IntervalMethod(StrEnum):
    """How intervals of means are made."""

    t = "t"
    bca = "bca"


class Otel(StrEnum):
    """What OpenTelemetry is told."""

    off = "off"
    on = "on"
    content = "content"


def _env(name: str) -> str:
    return f"JUDGE_EVAL_{name}"


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        envvar=_env("MODEL"),
        help="Who judges: provider/model, such as openai/NAME or fake/overlap (offline).",
        autocompletion=completion.models,
        rich_help_panel=JUDGING,
    ),
]
Prompt = Annotated[
    str,
    typer.Option(
        envvar=_env("PROMPT"),
        help="A prompt's id (see `prompts list`), or file:PATH for one of your own.",
        autocompletion=completion.prompts,
        rich_help_panel=JUDGING,
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode", envvar=_env("MODE"), help="One chunk a call, or all of a trace.", rich_help_panel=JUDGING
    ),
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        envvar=_env("JUDGE"),
        help="A judge of an installed package, in place of --mode.",
        autocompletion=completion.judges,
        rich_help_panel=JUDGING,
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        "-k",
        envvar=_env("METRICS"),
        help="Metrics, with commas between or repeated: AP@5,MRR,NDCG@5.",
        autocompletion=completion.metrics,
        rich_help_panel=JUDGING,
    ),
]
Relevant = Annotated[
    int | None,
    typer.Option(
        envvar=_env("RELEVANT"),
        help="The least grade that counts as relevant, in place of the prompt's.",
        rich_help_panel=JUDGING,
    ),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        metavar="MODEL[:PROMPT]",
        help="A member of a panel of judges; repeat for each.",
        rich_help_panel=JUDGING,
    ),
]
PanelFile = Annotated[
    Path | None, typer.Option("--panel", help="A panel of judges as TOML.", rich_help_panel=JUDGING)
]
Repeat = Annotated[
    int,
    typer.Option(
        envvar=_env("REPEAT"), min=1, help="Judge every chunk so often, and vote.", rich_help_panel=JUDGING
    ),
]
VoteOption = Annotated[
    Vote,
    typer.Option(
        "--vote", envvar=_env("VOTE"), help="How several verdicts become one.", rich_help_panel=JUDGING
    ),
]
Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence",
        help="Ask the server for log-probabilities; where it refuses, do without.",
        rich_help_panel=JUDGING,
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        envvar=_env("CACHE"),
        metavar="PATH",
        help="The folder of the cache (see `cache path`), or a database as postgresql://...",
        rich_help_panel=CALLING,
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the cache.", rich_help_panel=CALLING)
]
Offline = Annotated[
    bool, typer.Option("--offline", help="A cache miss is an error, not a call.", rich_help_panel=CALLING)
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar=[_env("BASE_URL"), "OPENAI_BASE_URL"],
        help="Of an OpenAI-compatible server.",
        rich_help_panel=CALLING,
    ),
]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        envvar=[_env("BASE_URL"), "OPENAI_BASE_URL"],
        help="Of an OpenAI-compatible server; repeat it for a fleet that serves the same model.",
        rich_help_panel=CALLING,
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        envvar=_env("PARAM"),
        help="NAME=VALUE sent with every request (value as JSON or text); repeatable.",
        rich_help_panel=CALLING,
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        envvar=_env("CONCURRENCY"), min=1, help="The most calls under way.", rich_help_panel=CALLING
    ),
]
Timeout = Annotated[
    float,
    typer.Option(envvar=_env("TIMEOUT"), min=0.001, help="Seconds for one call.", rich_help_panel=CALLING),
]
Rpm = Annotated[
    float | None,
    typer.Option(
        envvar=_env("RPM"), help="Requests a minute, if the server tells none.", rich_help_panel=CALLING
    ),
]
Tpm = Annotated[
    float | None,
    typer.Option(
        envvar=_env("TPM"), help="Tokens a minute, if the server tells none.", rich_help_panel=CALLING
    ),
]
Attempts = Annotated[
    int,
    typer.Option(
        envvar=_env("ATTEMPTS"), min=1, help="The most attempts at one call.", rich_help_panel=CALLING
    ),
]
MaxCalls = Annotated[
    int | None, typer.Option(envvar=_env("MAX_CALLS"), min=0, help="Budget: calls.", rich_help_panel=CALLING)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(envvar=_env("MAX_TOKENS"), min=0, help="Budget: tokens.", rich_help_panel=CALLING),
]
MaxCost = Annotated[
    float | None,
    typer.Option(envvar=_env("MAX_COST"), min=0, help="Budget: US dollars.", rich_help_panel=CALLING),
]
Record = Annotated[
    Path | None, typer.Option(help="Write every reply to a cassette.", rich_help_panel=CALLING)
]
Replay = Annotated[
    Path | None, typer.Option(help="Answer from a cassette instead of calling.", rich_help_panel=CALLING)
]
Hedge = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Make a call a second time after so long; both may be billed.",
        rich_help_panel=CALLING,
    ),
]
Lead = Annotated[
    bool,
    typer.Option(
        "--lead",
        help="A trace's first call goes ahead, where the server bills a seen prefix less.",
        rich_help_panel=CALLING,
    ),
]
OtelOption = Annotated[
    Otel,
    typer.Option(
        "--otel",
        envvar=_env("OTEL"),
        help="Tell OpenTelemetry of calls and scores; `content` with their texts.",
        rich_help_panel=CALLING,
    ),
]


def _place(given: str | Path) -> Path:
    from judge_eval.data.remote import is_url

    if not is_url(given):
        return Path(given)
    from judge_eval.runs.keeping.mirroring import place_of_runs

    return place_of_runs(given)


Out = Annotated[
    Path,
    typer.Option(
        "--out",
        envvar=_env("OUT"),
        parser=_place,
        metavar="PATH",
        help="The folder of runs, or its URL (s3://...).",
        rich_help_panel=KEEPING,
    ),
]
Label = Annotated[
    str | None, typer.Option(envvar=_env("LABEL"), help="What people call the run.", rich_help_panel=KEEPING)
]
Href = Annotated[
    str | None,
    typer.Option(
        envvar=_env("HREF"), help="Where the run belongs: a pull request, a job.", rich_help_panel=KEEPING
    ),
]
Tag = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", envvar=_env("TAGS"), help="A word to filter by; repeatable.", rich_help_panel=KEEPING
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Judge part I of N, by trace id; `runs merge` joins the runs.",
        rich_help_panel=KEEPING,
    ),
]
Columnar = Annotated[
    bool,
    typer.Option(
        "--columnar",
        envvar=_env("COLUMNAR"),
        help="Write Parquet parts beside the results, from which large runs are compared and reported fast.",
        rich_help_panel=KEEPING,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        envvar=_env("FORMAT"),
        help="The data's format, where their keys do not tell it (an unknown name lists them all).",
        rich_help_panel=READING,
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", help="OURS=THEIRS: what a field is called in the data; repeatable.", rich_help_panel=READING
    ),
]
CorpusOption = Annotated[
    Path | None,
    typer.Option(
        "--corpus", help="Where the texts of retrieved ids are: a file or folder.", rich_help_panel=READING
    ),
]
ListSep = Annotated[
    str | None,
    typer.Option(
        "--list-sep", help="What stands between the items of a list in a cell.", rich_help_panel=READING
    ),
]
Depth = Annotated[
    int | None,
    typer.Option("--depth", min=1, help="Take at most so many chunks of a trace.", rich_help_panel=READING),
]
Interval = Annotated[
    IntervalMethod,
    typer.Option(
        "--interval",
        envvar=_env("INTERVAL"),
        help="The intervals of means: Student's t, or the BCa bootstrap.",
        rich_help_panel=NUMBERS,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="KEY",
        envvar=_env("CLUSTER"),
        help="The key of a trace's metadata that says which traces belong together.",
        rich_help_panel=NUMBERS,
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        envvar=_env("BASELINE"),
        help="Compare with this run: its folder, its id or the start of it, label:NAME or latest.",
        rich_help_panel=GATING,
    ),
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-under",
        envvar=_env("FAIL_UNDER"),
        metavar="METRIC=VALUE",
        help="Fail where the mean is below; repeatable.",
        rich_help_panel=GATING,
    ),
]
MaxDrop = Annotated[
    list[str] | None,
    typer.Option(
        "--max-drop",
        envvar=_env("MAX_DROP"),
        metavar="METRIC=VALUE",
        help="Fail where the mean has surely dropped by more than this; repeatable.",
        rich_help_panel=GATING,
    ),
]
NonInferior = Annotated[
    list[str] | None,
    typer.Option(
        "--non-inferior",
        envvar=_env("NON_INFERIOR"),
        metavar="METRIC=MARGIN",
        help="Fail unless the mean is shown to have dropped by less than this; repeatable.",
        rich_help_panel=GATING,
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Let --max-drop compare means, not intervals.", rich_help_panel=GATING),
]
Seed = Annotated[int, typer.Option("--seed", help="Of whatever is drawn at random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

LabelFile = Annotated[
    Path | None,
    typer.Option("--labels", help="Human labels: JSON Lines, CSV or TREC qrels; else those in the dataset."),
]


LabelThreshold = Annotated[
    int | None, typer.Option("--label-relevant", min=1, help="The least label that counts as relevant.")
]

RunName = Annotated[
    str,
    typer.Argument(
        help="A run's folder, its id or the start of it, label:NAME or latest.",
        autocompletion=completion.runs,
    ),
]
