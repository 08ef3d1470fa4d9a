"""Whether the files of a run are what they were when it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import islice, zip_longest
from pathlib import Path
from typing import cast

from judge_eval.digest import digest_json
from judge_eval.errors import RunError
from judge_eval.files import open_plain
from judge_eval.runs.folder.files import whole_lines
from judge_eval.runs.folder.records import Manifest, ResultsDigest

BLOCKS = 256
"""The most blocks of lines that are told apart."""
ADVICE = (
    "it was changed or damaged: take the run again from where it came, or judge it again "
    "(`runs verify` says what was changed)"
)

_FIGURES = {"metrics", "intervals", "aggregates", "tally"}
_ORIGIN = {"dataset", "judge", "backend"}


def with_digests(manifest: Manifest, lines: Iterable[bytes], count: int) -> Manifest:
    """Return the manifest of a run that has ended, with the digest of its results.

    Args:
        manifest: As it will be written but for the digest.
        lines: The results as they were written, in order.
        count: How many lines there are.
    """
    size = block_size(count)
    whole, block = hashlib.sha256(), hashlib.sha256()
    blocks: list[str] = []
    written = number = 0
    for number, line in enumerate(lines, 1):
        whole.update(line)
        block.update(line)
        written += len(line)
        if number % size == 0:
            blocks.append(block.hexdigest()[:16])
            block = hashlib.sha256()
    if number % size:
        blocks.append(block.hexdigest()[:16])
    results = ResultsDigest(
        lines=number,
        bytes=written,
        sha256=whole.hexdigest(),
        blocks=tuple(blocks),
        figures=figures_of(manifest),
        origin=origin_of(manifest),
    )
    return manifest.model_copy(update={"results": results})


def sealed_file(manifest: Manifest, path: Path, count: int) -> Manifest:
    """Return the manifest with the digest of the results that a file holds; see `with_digests`.

    Raises:
        RunError: The file cannot be read.
    """
    return with_digests(manifest, (line for _, line in whole_lines(path)), count)


def block_size(count: int) -> int:
    """Return how many lines make a block of a file of so many."""
    return max(1, -(-count // BLOCKS))


def figures_of(manifest: Manifest) -> str:
    """Digest a manifest's metrics, means, intervals and counts."""
    return _digest(manifest, _FIGURES)


def origin_of(manifest: Manifest) -> str:
    """Digest what a manifest says of judge, model and data; people may change what neither digest holds."""
    return _digest(manifest, _ORIGIN)


def _digest(manifest: Manifest, fields: set[str]) -> str:
    # What is as a new run has it is left out: a field that a later version adds changes no digest.
    return digest_json(json.loads(manifest.model_dump_json(include=fields, exclude_defaults=True)))


def blocks_of(lines: Iterable[bytes], size: int) -> Iterator[str]:
    """Yield what stands for each block of so many lines in a `ResultsDigest`."""
    rest = iter(lines)
    while block := list(islice(rest, size)):
        yield hashlib.sha256(b"".join(block)).hexdigest()[:16]


def changed_lines(path: Path, expected: ResultsDigest) -> Iterator[tuple[int, int]]:
    """Yield the first and last lines of each stretch that is not what was written, as exactly as is known.

    Raises:
        RunError: The file cannot be read.
    """
    size = block_size(expected.lines)
    count, first = 0, None

    def lines() -> Iterator[bytes]:
        nonlocal count
        for _, line in whole_lines(path):
            count += 1
            yield line

    pairs = zip_longest(expected.blocks, blocks_of(lines(), size))
    place = 0
    for place, (written, read) in enumerate(pairs, 1):
        if written != read:
            first = place if first is None else first
        elif first is not None:
            yield (first - 1) * size + 1, (place - 1) * size
            first = None
    if first is not None:
        yield (first - 1) * size + 1, min(place * size, max(count, expected.lines))


def fits(manifest: Manifest, sha256: str, traces: int) -> bool:
    """Tell whether results are those of a manifest; without a digest in it the count of an ended run tells.

    Args:
        manifest: Of the run.
        sha256: Of the results' file.
        traces: How many results it holds.
    """
    if manifest.seal is not None:
        return (manifest.seal.sha256, manifest.seal.lines) == (sha256, traces)
    return manifest.counted in (None, traces)


class ResultsCheck:
    """The results of a run as they are read, checked at the end against what its manifest says of them.

    Args:
        path: Of the results.
        expected: What they must be; None where that is not known.
        count: How many there must be; None where that is not known.
    """

    def __init__(self, path: Path, expected: ResultsDigest | None, count: int | None = None) -> None:
        self.path, self.expected, self.count = path, expected, count
        self._hash = hashlib.sha256()
        self._lines = self._bytes = 0

    def add(self, line: bytes) -> None:
        """Take in a line."""
        self._lines += 1
        self._bytes += len(line)
        if self.expected is not None:
            self._hash.update(line)

    def conclude(self, traces: int | None = None) -> None:
        """See that what was read is what was written.

        Args:
            traces: How many different traces the lines are about; as many as there are lines where None.

        Raises:
            RunError: It is not.
        """
        expected = self.expected
        if expected is not None:
            if self._lines != expected.lines:
                self._refuse(f"holds {self._lines:,} results, and its manifest counts {expected.lines:,}")
            # The last line may have no end, and is passed over then: the size tells.
            same = self._bytes == expected.bytes == self.path.lstat().st_size
            if not same or self._hash.hexdigest() != expected.sha256:
                first, last = next(changed_lines(self.path, expected), (None, None))
                within = f" (within the lines to {last:,})" if first != last else ""
                self._refuse(f"is not what was written when the run ended{within}", first)
        else:
            held = self._lines if traces is None else traces
            if self.count not in (None, held):
                self._refuse(f"holds {held:,} results, and its manifest counts {self.count:,}")

    def _refuse(self, what: str, line: int | None = None) -> None:
        raise RunError(f"{what}; {ADVICE}", file=self.path, line=line)


def sha256_of(path: Path) -> str:
    """Digest a file.

    Raises:
        OSError: It is a link, or cannot be read.
    """
    with open_plain(path) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def check_length(path: Path, manifest: Manifest) -> None:
    """See that the results of a run are as long as its manifest says, without reading them.

    Raises:
        RunError: They are not, or are not there.
    """
    if manifest.seal is not None:
        try:
            size = path.lstat().st_size
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}; {ADVICE}", file=path) from None
        if size != manifest.seal.bytes:
            check_results(path, manifest)


def check_results(path: Path, manifest: Manifest) -> None:
    """See that the results of a run are those that its manifest tells of; about a second a gigabyte.

    Raises:
        RunError: They are not, or cannot be read.
    """
    check = ResultsCheck(path, manifest.seal, manifest.counted)
    for _, line in whole_lines(path):
        check.add(line)
    check.conclude()
