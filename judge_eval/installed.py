"""What is installed: this package's version, and whether another project's files lie over it."""

from importlib.metadata import version
from pathlib import Path

from judge_eval.errors import DISTRIBUTION, ConfigError

NAMESAKE = "judge-eval"
"""Another project on PyPI, with the same import name and the same command."""


def own_version() -> str:
    """Return the version of this package, as `0.1.0`."""
    return version(DISTRIBUTION)


def check_alone(folder: Path | None = None) -> None:
    """Make sure that the other project of the same import name is not installed over this one."""
    folder = folder or Path(__file__).parent.parent
    name = NAMESAKE.replace("-", "_")
    if any(folder.glob(f"{name}-*.dist-info")):
        raise ConfigError(
            f"{folder} also holds {NAMESAKE!r}, another project with the import name and the command of "
            f"{DISTRIBUTION}: files of the two lie mixed; run `pip uninstall -y {NAMESAKE} {DISTRIBUTION}`, "
            f"then install {DISTRIBUTION} again"
        )
