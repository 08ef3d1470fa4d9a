"""`init`: a first configuration and a first dataset."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.printing.output import tell
from judge_eval.errors import ConfigError

CONFIG = "judge_eval.toml"
DATA = "traces.jsonl"


@verb
def init(folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path()) -> None:
    """Write a commented configuration and a tiny dataset; overwrite nothing.

    Examples:
    judge-eval init
    judge-eval init new-folder
    """
    starter = resources.files("judge_eval.cli") / "starter"
    files = {folder / name: (starter / name).read_text(encoding="utf-8") for name in (CONFIG, DATA)}
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} already exists; nothing was written: move it or name another folder")
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
