"""Records and chunks under our names, where people have said what theirs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge_eval.data.files.values import Mapped, decode_list, is_missing
from judge_eval.data.options import ReadOptions
from judge_eval.data.shapes.shape import Shape, keys_of
from judge_eval.errors import DataError, nearest


class Naming:
    """What the user called our fields: `--map`, in records and inside chunks.

    Args:
        options: How the file is read.
        name: What to call it in messages.
    """

    def __init__(self, options: ReadOptions, name: str) -> None:
        self._name, self._separator = name, options.list_sep
        self.fields, self._in_chunks = options.fields, options.in_chunks
        self._unseen = dict(self._in_chunks)
        self._near: dict[str, None] = {}

    def check(self, sample: Sequence[Mapping[str, Any]]) -> None:
        """See that the first records hold what is mapped.

        Raises:
            DataError: They do not; the message names the nearest keys.
        """
        for ours, theirs in self.fields.items():
            if not sample or any(dig(record, theirs) is not None for record in sample):
                continue
            keys = sorted({key for record in sample for key in keys_of(record)})
            if theirs not in keys:
                raise DataError(_lacking(ours, theirs, "the first records hold", keys), file=self._name)

    @property
    def chunk_keys(self) -> set[str]:
        """The keys that are mapped inside chunks."""
        return set(self._in_chunks.values())

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has the question and the chunks that are mapped, both of them."""
        wanted = [self.fields.get(ours) for ours in ("query", "chunks")]
        return all(theirs is not None and dig(record, theirs) is not None for theirs in wanted)

    def record(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put what is mapped under our names."""
        if not self.fields:
            return record
        taken = set(self.fields.values())
        out = {key: value for key, value in record.items() if key not in taken}
        for ours, theirs in self.fields.items():
            value = dig(record, theirs)
            if not is_missing(value):
                out[ours] = value
        return Mapped(out, self.fields)

    def prepared(self, record: Mapping[str, Any], shape: Shape) -> Mapping[str, Any]:
        """Put what is mapped under our names, and decode the lists that stand in texts.

        Raises:
            DataError: A text stands where a list belongs.
        """
        record = self.record(record)
        mapped = {"chunks"} if "chunks" in self.fields else set()
        lists = (shape.lists - {"chunks"}) | mapped if mapped else shape.lists
        spelled = [key for key in lists if isinstance(record.get(key), str)]
        if not spelled:
            return record
        decoded = {key: decode_list(record[key], key, self._separator) for key in spelled}
        out = {**record, **decoded}
        return Mapped(out, self.fields) if self.fields else out

    def chunk(self, item: Any, where: str) -> Any:
        """Put what is mapped inside chunks under our names.

        Raises:
            DataError: The chunk has no text there.
        """
        if not self._in_chunks or not isinstance(item, Mapping):
            return item
        taken = set(self._in_chunks.values())
        out = {key: value for key, value in item.items() if key not in taken}
        for ours, theirs in self._in_chunks.items():
            value = dig(item, theirs)
            if value is not None:
                self._unseen.pop(ours, None)
                out[ours] = value
            elif ours == "text":
                raise DataError(
                    _lacking("chunks.text", theirs, "it holds", sorted(keys_of(item))), field=where
                )
        self._near |= dict.fromkeys(sorted(keys_of(item))) if self._unseen else {}
        return out

    def finish(self) -> None:
        """See that what is mapped inside chunks was found in one of them.

        Raises:
            DataError: It was not.
        """
        for ours, theirs in self._unseen.items():
            if self._near:
                fault = _lacking(f"chunks.{ours}", theirs, "the chunks hold", list(self._near))
                raise DataError(fault, file=self._name)


def _lacking(ours: str, theirs: str, who: str, keys: Sequence[str]) -> str:
    near = nearest(theirs, keys)
    return f"--map {ours}={theirs}: {who} no {theirs!r}; " + (
        f"the nearest: {near}" if near else "no keys at all"
    )


def dig(record: Mapping[str, Any], path: str) -> Any:
    """Return what stands under a key, or under keys and places joined by dots; None where nothing does."""
    if path in record:
        return record[path]
    value: Any = record
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 8 and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
