"""Ids that are unique in a dataset, whether they were given or made from what a record says."""

from __future__ import annotations

from judge_eval.data.remarks import OnRemark, Place
from judge_eval.errors import DataError
from judge_eval.schema import Trace, made_id

EQUAL = "reads like an earlier one; its id was given a number"


class TraceIds:
    """The ids of the traces that were read so far, each with its place.

    Args:
        place: What stands before the numbers of places: `on line` of a file, `in row` of what is in memory.
        on_remark: Whom to tell of traces that are equal.
    """

    def __init__(self, place: Place, on_remark: OnRemark) -> None:
        self._place, self._on_remark = place, on_remark
        self._first: dict[str, int | None] = {}
        self._equal: dict[str, int] = {}

    def admit(self, trace: Trace, number: int | None) -> Trace:
        """Take a trace in; one that has no id of its own and equals an earlier one is numbered.

        Args:
            trace: The trace.
            number: The line or row where it stands.

        Raises:
            DataError: It was given an id that stands earlier too; both places are named.
        """
        if trace.id in self._first:
            if trace.id != made_id(trace):
                before = self._first[trace.id]
                first = "earlier" if before is None else f"{self._place} {before}"
                raise DataError(
                    f"the trace id {trace.id!r} stands twice, here and {first}; ids are unique", field="id"
                )
            count = self._equal.get(trace.id, 1) + 1
            while f"{trace.id}-{count}" in self._first:
                count += 1
            self._equal[trace.id] = count
            digest = trace.digest
            trace = trace.model_copy(update={"id": f"{trace.id}-{count}"})
            trace.__dict__["digest"] = digest
            if self._on_remark is not None:
                self._on_remark(EQUAL, number)
        self._first[trace.id] = number
        return trace
