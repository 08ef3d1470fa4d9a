"""What is installed: this package's version, the packages of its extras, and whether another project lies over it."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from judge_eval.errors import DISTRIBUTION, ConfigError, needs_extra

NAMESAKE = "judge-eval"
"""Another project on PyPI, with the same import name and the same command."""


def own_version() -> str:
    """Return the version of this package, as `0.1.0`."""
    return version(DISTRIBUTION)


def import_extra(sentence: str, extra: str, *modules: str) -> tuple[Any, ...]:
    """Import modules that an extra brings; without them the error begins with a sentence on what needs them."""
    try:
        return tuple(map(import_module, modules))
    except ImportError:
        raise needs_extra(sentence, extra) from None


def check_alone(folder: Path | None = None) -> None:
    """Make sure that the other project of the same import name is not installed over this one."""
    folder = folder or Path(__file__).parent.parent
    name = NAMESAKE.replace("-", "_")
    if any(folder.glob(f"{name}-*.dist-info")):
        raise ConfigError(
            f"{folder} also holds {NAMESAKE!r}, another project with the import name and the command of "
            f"{DISTRIBUTION}: files of the two are mixed; run `pip uninstall -y {NAMESAKE} {DISTRIBUTION}`, "
            f"then install {DISTRIBUTION} again"
        )
