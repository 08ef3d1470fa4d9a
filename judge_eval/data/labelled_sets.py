"""Public sets that people labelled, recognised by the files in a folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from judge_eval.data.collection import JUDGED, Parts, corpus_file, find_parts
from judge_eval.data.collection import traces as collection_traces
from judge_eval.data.options import ReadOptions
from judge_eval.data.reading import open_dataset
from judge_eval.errors import DataError
from judge_eval.schema import Trace

COLLECTION: Final = "queries, qrels and a corpus (TREC DL, LLMJudge, BEIR)"
TOPICS: Final = "topics/*.tsv, qrels/*.tsv and a corpus (NoMIRACL, a folder for each language)"
RECORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "HotpotQA": ("hotpot*.json*", "distractor.json*"),
    "ClapNQ": ("*answerable.jsonl*",),
    "WiCE": ("claim/test.jsonl", "entailment_retrieval/claim/test.jsonl", "data/entailment_retrieval/claim/test.jsonl"),
    "AttributionBench": ("test_all*.jsonl", "attribution*.jsonl"),
    "TREC RAG nuggets": ("*nugget*.jsonl*", "*assignment*.jsonl*"),
}
"""The files of sets that are records; of the patterns the first that matches counts."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Questions with chunks that people labelled."""

    name: str
    traces: list[Trace]
    runs: Path | None = None
    """The folder of the runs of systems, where there may be one."""


def read_sets(path: Path, reader: ReadOptions) -> list[LabelledSet]:
    """Read a file of any known format, the set in a folder, or those in its subfolders.

    Raises:
        DataError: There is no known set, or none with labels, or a file cannot be read.
    """
    if not path.is_dir():
        sets = [LabelledSet(path.name, list(open_dataset(path, reader)))]
    else:
        inside = sorted(path.glob("*/"))
        sets = list(_set_in(path, reader)) or [each for place in inside for each in _set_in(place, reader)]
    if not sets:
        records = (f"{' or '.join(patterns)} ({name})" for name, patterns in RECORDS.items())
        known = "; ".join((COLLECTION, TOPICS, *records))
        raise DataError(f"not the folder of a known set; a set has these files: {known}", file=str(path))
    for each in sets:
        if all(chunk.label is None for trace in each.traces for chunk in trace.chunks):
            raise DataError("no chunk has a label", file=str(path if len(sets) == 1 else path / each.name))
    return sets


def _set_in(folder: Path, reader: ReadOptions) -> Iterator[LabelledSet]:
    name, parts = folder.resolve().name, find_parts(folder, None, None)
    assert parts is not None  # a folder
    if parts.queries and parts.qrels and parts.corpus:
        judged = list(open_dataset(folder, replace(reader, format=JUDGED)))
        yield LabelledSet(name, judged, folder / "runs")
        return
    topics = next(filter(None, (sorted(folder.glob(f"topics/{split}.*.tsv")) for split in ("test", "dev"))), [])
    if topics and (corpus := corpus_file(folder)):
        pairs = (Parts(folder, None, path, folder / "qrels" / path.name, corpus) for path in topics)
        yield LabelledSet(name, [trace for pair in pairs for trace in _judged(pair, name)])
        return
    for patterns in RECORDS.values():
        if files := next(filter(None, (sorted(folder.glob(pattern)) for pattern in patterns)), []):
            yield LabelledSet(name, [trace for path in files for trace in open_dataset(path, reader)])
            return


def _judged(parts: Parts, language: str) -> Iterator[Trace]:
    for data in collection_traces(parts, True, None, None):
        if isinstance(data, DataError):
            raise data
        yield Trace.parse({**data, "metadata": {"language": language}})
