"""Putting the runs of all shards together into the run that one machine would have given."""

import heapq
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from judge_eval.errors import RunError
from judge_eval.files import write_atomically
from judge_eval.runs.columns.verdict_table import ScoreColumns, ScoredTraces
from judge_eval.runs.folder.describing import differences
from judge_eval.runs.folder.journal import MANIFEST, ResultsFile, finished_manifest, os_errors, read_result
from judge_eval.runs.folder.records import RESULTS, Manifest, Shard
from judge_eval.runs.folder.run import Run, load_manifest
from judge_eval.runs.judging.session import folder_name
from judge_eval.runs.scoring.aggregate import figures
from judge_eval.runs.scoring.counting import MOST_NAMED, OutcomeCounts, total
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.runs.scoring.scorer import Scorer
from judge_eval.spelling import option


def merge(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    label: str | None = None,
    href: str | None = None,
    tags: Sequence[str] | None = None,
    partial: bool = False,
) -> Run:
    """Merge the runs of all shards of a dataset, or (`partial`) of some, to be merged with this run later."""
    # The results are those of the shards, byte for byte, in the order of the whole dataset; the aggregates
    # are computed again over all of them. One result is held in memory at a time, with about 60 bytes a trace
    # and 8 for each of its metrics; some hundred more for each trace with failed verdicts.
    # The folders are the shards' runs, or what was merged of some of them, in any order. Label and address
    # default to those that all shards have, tags to all tags of the shards.
    runs = [(Path(folder), load_manifest(Path(folder))) for folder in folders]
    runs = _fitting(runs, partial)
    first = runs[0][1]
    shard = _together([m.dataset.shard for _, m in runs if m.dataset.shard])
    manifest = first.replace(
        id=str(uuid.uuid4()),
        label=label if label is not None else _agreed([m.label for _, m in runs]),
        baseline=_agreed([m.baseline for _, m in runs]),
        href=href if href is not None else _agreed([m.href for _, m in runs]),
        tags=tuple(dict.fromkeys(tag for _, m in runs for tag in m.tags) if tags is None else tags),
        status="done" if all(m.is_whole for _, m in runs) else "incomplete",
        created=min(m.created for _, m in runs),
        finished=max(m.finished for _, m in runs if m.finished is not None),
        dataset=first.dataset.replace(shard=shard),
        tally=total([m.tally for _, m in runs]),
    )
    folder = Path(out) / folder_name(manifest)
    with os_errors("cannot be written", folder):
        folder.mkdir(parents=True)
        try:
            scored, named = _write(runs, shard, folder / RESULTS)
            scorer = Scorer(first.metrics, scale_of(Run(first, ())))
            manifest = manifest.replace(
                tally=manifest.tally.replace(**named), **figures(scored, scorer, first.intervals)
            )
            manifest = finished_manifest(manifest, folder)
            # The manifest comes last: a folder without one is not a run, if a merge was interrupted.
            write_atomically(folder / MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(folder)
            raise
    return Run(manifest, ResultsFile(folder / RESULTS, manifest), folder)


def _fitting(runs: Sequence[tuple[Path, Manifest]], partial: bool) -> list[tuple[Path, Manifest]]:
    """Check that the runs are all the shards of one dataset, and return them by the shards' index."""
    if not runs:
        raise RunError("no runs to merge; name the folder of each shard's run")
    whole = [folder for folder, manifest in runs if manifest.dataset.shard is None]
    if whole:
        raise RunError(
            f"{_names(whole)}: judged the whole dataset, not a shard of it ({option('shard')}), or holds "
            "all shards already"
        )
    first_folder, first = runs[0]
    faults = []
    for folder, manifest in runs[1:]:
        plain = manifest.replace(dataset=manifest.dataset.replace(shard=first.dataset.shard))
        difference = differences(first, plain)
        if manifest.intervals.replace(by=()) != first.intervals.replace(by=()):
            difference = f"{difference}; the intervals differ" if difference else "the intervals differ"
        if difference:
            faults.append(f"{folder} is not of the same run as {first_folder}: {difference}")
    counts = {manifest.dataset.shard.count for _, manifest in runs if manifest.dataset.shard}
    if len(counts) > 1:
        faults.append(f"the runs are shards of {' and of '.join(map(str, sorted(counts)))}")
    by_index: dict[int, list[tuple[Path, Manifest]]] = {}
    for folder, manifest in runs:
        assert manifest.dataset.shard is not None
        for index in manifest.dataset.shard.indices:
            by_index.setdefault(index, []).append((folder, manifest))
        if manifest.status not in ("done", "incomplete"):
            faults.append(f"{folder} did not finish (it is {manifest.status}): run it again with {option('resume')}")
    count = max(counts)
    for index, same in sorted(by_index.items()):
        if len(same) > 1:
            faults.append(f"shard {index}/{count} is given twice: {_names([folder for folder, _ in same])}")
    missing = [f"{index}/{count}" for index in range(1, count + 1) if index not in by_index]
    if missing and not partial:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        without = option("partial", True)
        faults.append(f"missing: shard {', '.join(missing[:5])}{more} ({without} merges without)")
    if faults:
        raise RunError(f"cannot merge: {'; '.join(faults)}")
    ordered = [by_index[index][0] for index in sorted(by_index)]
    return [run for place, run in enumerate(ordered) if run not in ordered[:place]]


def _together(shards: Sequence[Shard]) -> Shard | None:
    """Return the shard that several shards make together; None if they are complete."""
    indices = tuple(sorted(index for shard in shards for index in shard.indices))
    if len(indices) == shards[0].count:
        return None
    return Shard(
        index=indices[0],
        count=shards[0].count,
        traces=sum(shard.traces for shard in shards),
        chunks=sum(shard.chunks for shard in shards),
        parts=indices,
    )


def _names(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders))


def _agreed(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


def _write(
    runs: Sequence[tuple[Path, Manifest]], shard: Shard | None, path: Path
) -> tuple[ScoredTraces, dict[str, Any]]:
    manifest, before = runs[0][1], -1
    columns = ScoreColumns(manifest.metrics, manifest.intervals.cluster)
    beyond = {name for _, shard_manifest in runs for name in shard_manifest.tally.beyond}
    first, failed = list[str](), OutcomeCounts(manifest.imported)
    with path.open("wb") as file:
        for position, line, number, source in heapq.merge(*map(_lines, runs), key=itemgetter(0)):
            if position == before:
                raise RunError(f"cannot merge: trace {position} of the dataset is in the shards twice")
            if shard is None and position != before + 1:
                raise RunError(f"cannot merge: trace {before + 1} of the dataset is missing in the shards")
            before = position
            result = read_result(line, source, number, checked=True)
            columns.add(result)
            if len(first) < MOST_NAMED and result.trace_id in beyond:
                first.append(result.trace_id)
            if result.failed:
                failed.add(result)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    wanted = (shard or manifest.dataset).traces
    if len(columns) != wanted:
        raise RunError(f"cannot merge: the shards hold {len(columns)} traces, the dataset {wanted}")
    return columns.done(), {"beyond": tuple(first), "example": failed.example}


def _lines(run: tuple[Path, Manifest]) -> Iterator[tuple[int, bytes, int, Path]]:
    """Yield position and line of every result of a run, with the line's number and its file."""
    path = run[0] / RESULTS
    for position, line, number in ResultsFile(path, run[1]).lines():
        yield position, line, number, path
