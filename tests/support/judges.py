"""Offline judges that find what they are told to find, and one that stops."""

from judge_eval import FakeBackend
from judge_eval.errors import FatalCallError, RefusedError
from judge_eval.wire import Completion, Request
from tests.support.replies import one
from tests.support.runs import traces

TWO = traces(2)
ALL = FakeBackend.table({}, default={"grade": 1, "evidence": "Text"})


def only(*chunk_ids: str, failed: tuple[str, ...] = ()) -> FakeBackend:
    """A judge that finds these chunks relevant, and fails at others."""
    table: dict[object, object] = {name: {"grade": 1, "evidence": "Text"} for name in chunk_ids}
    table |= {name: RefusedError("no") for name in failed}
    return FakeBackend.table(table, default=0)  # type: ignore[arg-type]


class Stops:
    """A judge that ends the run after so many calls, as a key that expires does."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, request: Request) -> Completion | Exception:
        """Answer, or end the run."""
        self.left -= 1
        return FatalCallError("the key expired") if self.left < 0 else one(True, request.passages[0].text)
