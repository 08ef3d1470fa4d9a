"""What a format of exports is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from judge_eval.export.scores import Service
from judge_eval.files import replacing
from judge_eval.runs.folder.run import Run


@dataclass(frozen=True)
class Format:
    """A format that a run is written in; what a module of this folder has as `EXPORTS` can be written.

    Args:
        name: What people name it by.
        make: Returns the text in parts, or writes to the path if `writes`.
        suffixes: Those of files that are in this format unless another one is named.
        writes: Whether `make` is given the path too and writes the file itself.
        service: What the scores can be sent to.
    """

    name: str
    make: Callable[..., Iterable[str] | None]
    suffixes: tuple[str, ...] = ()
    writes: bool = False
    service: Service | None = None

    def write(self, run: Run, path: Path) -> None:
        """Write a run to a file."""
        if self.writes:
            self.make(run, path)
        else:
            stream(self.make(run) or (), path)


def service_format(name: str, service: Service) -> Format:
    """Return the format of the bodies that a service takes."""
    return Format(name, lambda run: service.scores(run).json(), service=service)


def stream(parts: Iterable[str], path: Path) -> None:
    """Write text part by part; the file appears only when all is written."""
    with replacing(path) as file:
        file.writelines(part.encode("utf-8", "backslashreplace") for part in parts)
