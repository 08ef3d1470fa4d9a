"""With which probability a reader abstains with each chunk alone, as a run of that reader says."""

from collections.abc import Mapping

from judge_eval.confidence import WITH_CONFIDENCE
from judge_eval.digest import digest_parts
from judge_eval.errors import DataError
from judge_eval.runs.folder.graded import ABSTAINS
from judge_eval.runs.folder.run import Run
from judge_eval.schema import Chunk, Trace


def chances_to_abstain(reader: Run) -> dict[bytes, float]:
    """Return 1 - the probability that the reader answers, by question and chunk.

    Raises:
        DataError: The run asked something else, or no verdict has a probability.
    """
    prompt = reader.manifest.judge.get("prompt")
    name = str(prompt.get("id")) if isinstance(prompt, dict) else "no prompt"
    if not name.startswith("reader/"):
        raise DataError(f"run {reader.name} asked by {name}; a reader is asked by reader/binary")
    chances = {
        _key(result.trace, chunk): 1 - outcome.confidence
        for result in reader.results
        for chunk, outcome in zip(result.trace.chunks, result.outcomes, strict=True)
        if outcome.kind == "verdict" and outcome.confidence is not None
    }
    if not chances:
        raise DataError(f"no verdict of run {reader.name} has a probability; ask the reader with {WITH_CONFIDENCE}")
    return chances


def read_by(trace: Trace, chances: Mapping[bytes, float]) -> Trace:
    """Return the trace with these probabilities in its chunks' metadata, None where the reader gave none."""
    chunks = (
        chunk.but(metadata={**chunk.metadata, ABSTAINS: chances.get(_key(trace, chunk))}) for chunk in trace.chunks
    )
    return trace.but(chunks=tuple(chunks))


def _key(trace: Trace, chunk: Chunk) -> bytes:
    return digest_parts([trace.query, chunk.title or "", chunk.text])
