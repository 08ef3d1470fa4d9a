"""`init`: a first configuration and a first dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.printing.door import tell
from judge_eval.cli.printing.errors import verb

CONFIG = "judge_eval.toml"
DATA = "traces.jsonl"

_CONFIG = """\
# Settings of judge-eval. Flags and JUDGE_EVAL_* variables go before them; `judge-eval doctor` shows what is
# in force. In pyproject.toml the same keys stand under [tool.judge_eval]. Keys (OPENAI_API_KEY) stay in the
# environment, never in a file.

# Who judges: provider/model. fake/overlap counts shared words, offline: to try things out, never to report.
model = "fake/overlap"
# model = "openai/NAME"
# base_url = "https://host/v1"          # of an OpenAI-compatible server

# What is asked: `judge-eval prompts list` shows the prompts; file:PATH is one of your own.
prompt = "support/binary"
# mode = "listwise"                     # all chunks of a trace in one call: cheaper, a little less exact
# judge = "NAME"                        # a judge of an installed package
# relevant = 2                          # the least grade that counts as relevant
# param = { temperature = 0, seed = 1 } # sent with every request

metrics = ["AP@5", "MRR", "NDCG@5"]

# Where runs and replies are kept.
out = "runs"
# cache = "project"                     # .judge_eval/cache here; else one that all your projects share
# label = "main"
# href = "https://host/pull/1"
# tags = ["nightly"]
# server = "http://127.0.0.1:8642"      # of a `judge-eval serve`: a run prints the address of its page

# Intervals and gates.
# interval = "bca"                      # how intervals of means are made
# cluster = "document"                  # the key of metadata that groups traces which belong together
# baseline = "label:main"               # compare with this run
# fail_under = { "AP@5" = 0.7 }         # the exit code is 1 where a mean is below
# max_drop = { "AP@5" = 0.03 }          # or has surely dropped by more than this

# Limits: how fast, how long, how expensive.
# concurrency = 256
# rpm = 500                             # requests a minute, where the server states no limit
# tpm = 200000                          # tokens a minute
# timeout = 120
# attempts = 8
# max_calls = 1000
# max_tokens = 1000000
# max_cost = 5.0                        # US dollars
# max_failures = 0                      # failed verdicts that are allowed before the exit code is 3
# on_invalid = "skip"                   # pass over records that cannot be read
# otel = "on"                           # report calls and scores to OpenTelemetry
"""

_DATA = """\
{"id": "q1", "query": "When does the library open on Sundays?", "reference": "It opens at ten on Sundays.", \
"chunks": [{"id": "hours", "text": "On Sundays the library opens at ten and closes at four."}, \
{"id": "cards", "text": "A library card costs nothing for residents."}]}
{"id": "q2", "query": "How long may a book be kept?", "reference": "A book may be kept for four weeks.", \
"chunks": [{"id": "fines", "text": "Late fees are ten cents a day."}, \
{"id": "loans", "text": "Every book may be kept for four weeks and renewed twice."}, \
{"id": "films", "text": "Films are due after one week."}]}
{"id": "q3", "query": "Who founded the library?", "reference": "Ada Byrne founded it in 1911.", \
"chunks": [{"id": "hours", "text": "On weekdays the library opens at nine."}]}
"""


@verb
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path(),
) -> None:
    """Write a commented configuration and a tiny dataset; overwrite nothing.

    Examples:
    judge-eval init
    judge-eval init new-folder
    """
    from judge_eval.errors import ConfigError

    files = {folder / CONFIG: _CONFIG, folder / DATA: _DATA}
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} is there already; nothing was written: move it or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    for path in files:
        tell(f"wrote {path}")
    inside = "" if folder == Path() else f"cd {folder} && "
    tell(f"try it: {inside}judge-eval run {DATA}")
