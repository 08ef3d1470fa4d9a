"""Whether the files of a run are what they were when it ended."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from itertools import islice, zip_longest
from pathlib import Path
from typing import cast

from judge_eval.digest import digest_json
from judge_eval.errors import RunError
from judge_eval.files import open_plain
from judge_eval.runs.folder.records import Manifest, ResultsDigest
from judge_eval.runs.folder.run_files import whole_lines

BLOCKS = 256
"""The most blocks of lines that are told apart."""
ADVICE = (
    "it was changed or damaged: copy the run again from its source, or judge it again "
    "(`runs verify` says what was changed)"
)

_SEAL = "seal"
_FIGURES = {"metrics", "intervals", "aggregates", "reranking", "tally"}
_ORIGIN = {"dataset", "judge", "backend"}


def with_digests(manifest: Manifest, lines: Iterable[bytes], count: int) -> Manifest:
    """Return the manifest of a run that has ended, with the digest of its `count` lines of results."""
    whole, written, number = hashlib.sha256(), 0, 0

    def read() -> Iterator[bytes]:
        nonlocal written, number
        for line in lines:
            number += 1
            whole.update(line)
            written += len(line)
            yield line

    blocks = tuple(blocks_of(read(), block_size(count)))
    results = ResultsDigest(
        lines=number,
        bytes=written,
        sha256=whole.hexdigest(),
        blocks=blocks,
        figures=figures_of(manifest),
        origin=origin_of(manifest),
    )
    return manifest.but(results=results)


def with_parts(digest: ResultsDigest, parts: Mapping[str, str]) -> ResultsDigest:
    """Return the digest of a run's files with those of its Parquet files, and a seal over both."""
    named = {name: each for name, each in parts.items() if name != _SEAL}
    text = digest.but(parts=named).model_dump_json()
    return digest.but(parts={**named, _SEAL: digest_json(json.loads(text))})


def are_parts_sealed(digest: ResultsDigest) -> bool:
    """Return whether the digests of Parquet files have a seal that fits."""
    return _SEAL in digest.parts and with_parts(digest, digest.parts) == digest


def sealed_file(manifest: Manifest, path: Path, count: int) -> Manifest:
    """Return the manifest with the digest of the results in a file; see `with_digests`."""
    return with_digests(manifest, (line for _, line in whole_lines(path)), count)


def block_size(count: int) -> int:
    """Return how many lines make a block of a file with `count` lines."""
    return max(1, -(-count // BLOCKS))


def figures_of(manifest: Manifest) -> str:
    """Digest a manifest's metrics, means, intervals and counts."""
    return _digest(manifest, _FIGURES)


def origin_of(manifest: Manifest) -> str:
    """Digest a manifest's judge, model and data; the fields that neither digest covers may be edited."""
    return _digest(manifest, _ORIGIN)


def _digest(manifest: Manifest, fields: set[str]) -> str:
    # What is as a new run has it is left out: a field that a later version adds changes no digest.
    return digest_json(json.loads(manifest.model_dump_json(include=fields, exclude_defaults=True)))


def blocks_of(lines: Iterable[bytes], size: int) -> Iterator[str]:
    """Yield the digest of each block of `size` lines, as in a `ResultsDigest`."""
    rest = iter(lines)
    while block := list(islice(rest, size)):
        yield hashlib.sha256(b"".join(block)).hexdigest()[:16]


def changed_lines(path: Path, expected: ResultsDigest) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each changed stretch, as exactly as known."""
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
    """Return whether results match a manifest: by digest, else by the count of a run that has ended."""
    if manifest.seal is not None:
        return (manifest.seal.sha256, manifest.seal.lines) == (sha256, traces)
    return manifest.counted in (None, traces)


class ResultsCheck:
    """Checks the results of a run, while they are read, against their digest and number, if known."""

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
        """Check what was read, with the number of different traces in it; None: one for each line."""
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
            results = self._lines if traces is None else traces
            if self.count not in (None, results):
                self._refuse(f"holds {results:,} results, and its manifest counts {self.count:,}")

    def _refuse(self, what: str, line: int | None = None) -> None:
        raise RunError(f"{what}; {ADVICE}", file=self.path, line=line)


def sha256_of(path: Path) -> str:
    """Digest a file, which must not be a link."""
    with open_plain(path) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def check_length(path: Path, manifest: Manifest) -> None:
    """Check that the results of a run have the size in its manifest, without reading them."""
    if manifest.seal is not None:
        try:
            size = path.lstat().st_size
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}; {ADVICE}", file=path) from None
        if size != manifest.seal.bytes:
            check_results(path, manifest.seal, manifest.counted)


def check_results(path: Path, expected: ResultsDigest | None, count: int | None = None) -> None:
    """Check a results file against its digest or its number of results; about a second a gigabyte."""
    check = ResultsCheck(path, expected, count)
    for _, line in whole_lines(path):
        check.add(line)
    check.conclude()
