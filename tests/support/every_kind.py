"""A folder with a file of every kind that the commands write."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.batch_server import BatchServer
from tests.support.desk import Desk
from tests.support.stages import stages_file
from tests.support.unsure_server import dataset

RUN = ("run", "traces.jsonl", "--out", "new")
BINARY = ("--model", "fake/overlap", "--prompt", "support/binary@1")
FAKE = BINARY[:2]
CLAIMS, CASCADE, BATCH = "claims.jsonl", "cascade.json", "batch"


def write_kinds(desk: Desk) -> None:
    """Write runs, and the files that a cascade, a calibration and a batch leave, from `traces.jsonl` in the folder."""

    def done(*arguments: object) -> None:
        assert desk(*arguments, OPENAI_API_KEY="x").code == 0, arguments

    runs = {
        "overlap": (*BINARY, "--record", "cassette.jsonl", "--cache", "none"),
        "panel": ("--member", "fake/overlap:support/binary", "--member", "fake/hash:support/binary"),
    }
    for name, asked in runs.items():
        done(*RUN, *asked)
        keep_run(desk.folder, name)
    done(*RUN, *BINARY, "--cache", "answers")
    shutil.rmtree(desk.folder / "new")
    done("claims", "traces.jsonl", *FAKE, "-o", CLAIMS)
    data = dataset(desk.folder / "many.jsonl", 90)
    stages = stages_file(desk.folder, {"model": "fake/overlap", "mode": "decision"}, "fake/overlap")
    done("cascade", "fit", data, "--judge", stages, "--alpha", ".3", "-o", CASCADE, *RUN[2:])
    shutil.rmtree(desk.folder / "new")
    done("run", data, *FAKE, "--mode", "decision", *RUN[2:])
    keep_run(desk.folder, "confidence")
    done("calibrate", "runs/confidence", "--probabilities", "--method", "logistic", "-o", "calibration.json")
    with BatchServer() as server:
        model = ("--model", "openai/m", "--base-url", server.url, "--cache", "batch-cache")
        done("batch", "export", "traces.jsonl", "--out", BATCH, *model)
        done("batch", "submit", BATCH)
        done("batch", "fetch", BATCH)


def keep_run(folder: Path, name: str) -> None:
    """Move the one run of the folder `new` to the runs that are kept."""
    (run,) = (path for path in (folder / "new").iterdir() if path.is_dir())
    (folder / "runs").mkdir(exist_ok=True)
    run.rename(folder / "runs" / name)
    shutil.rmtree(folder / "new")
