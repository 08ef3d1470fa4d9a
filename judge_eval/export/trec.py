"""A run as TREC files, so that trec_eval's readers compute the same numbers."""

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from judge_eval.errors import DataError
from judge_eval.export.format import Format
from judge_eval.pools.pool import Pool
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.views.note_sentences import note_sentence

ABSENT = "not-retrieved-"
"""What stands in the judgments for relevant chunks that are known to exist but were not retrieved."""


def run_lines(run: Run) -> Iterator[str]:
    """Yield `query Q0 chunk rank score judge_eval`, a line a chunk; white space in an id is written as `%20`."""
    # Readers sort by the score and break ties by the id, whatever the rank says. So the score written is the
    # number of chunks from this one to the end of the list: strictly decreasing, however the retriever
    # scored. Two ids that are equal once white space is escaped are an error.
    safe_trace = _escaper("trace ids of the run")
    for result in run.results:
        query, safe = safe_trace(result.trace_id), _escaper(f"chunk ids of trace {result.trace_id!r}")
        count = len(result.trace.chunks)
        for rank, chunk in enumerate(result.trace.chunks, 1):
            yield f"{query} Q0 {safe(chunk.id)} {rank} {count - rank + 1} judge_eval\n"


def qrels_lines(run: Run) -> Iterator[str]:
    """Yield `query 0 chunk grade`, a line a verdict; ids are escaped as in `run_lines`."""
    # A trace that nothing answers, or with a failed verdict, is left out: trec_eval would take the gap for a
    # judgment, and leaves a query without judgments out of its means, as ours do. Where more relevant chunks are known
    # to exist (`relevant_total`) than were found, lines with ids that nobody retrieved make up the number, with the
    # least grade that counts as relevant; where the total is not known, the retrieved chunks are all there
    # is. On a graded scale the readers must be told what is relevant (`-l 2`, `AP(rel=2)`).
    least = scale_of(run).relevant
    safe_trace = _escaper("trace ids of the run")
    for result in run.results:
        query, safe = safe_trace(result.trace_id), _escaper(f"chunk ids of trace {result.trace_id!r}")
        if result.failed or result.trace.answerable is False:
            continue
        relevant = 0
        for outcome in result.outcomes:
            if outcome.kind == "verdict":
                relevant += outcome.relevant
                yield f"{query} 0 {safe(outcome.chunk_id)} {outcome.grade}\n"
        missing = (result.trace.relevant_total or 0) - relevant
        for number in range(1, missing + 1):
            yield f"{query} 0 {safe(f'{ABSENT}{number}')} {least}\n"
        if not result.outcomes and missing <= 0:
            # A query without a line is left out of the means of trec_eval's readers.
            yield f"{query} 0 {safe(f'{ABSENT}1')} 0\n"


def pool_lines(pool: Pool) -> Iterator[str]:
    """Yield `query systems chunk grade`, a line a chunk of the pool, -1 without a verdict; ids as in `run_lines`."""
    # The second field is TREC's iteration, which no reader uses: it says which systems have the chunk within the pool's
    # depth, by their numbers in `pool_provenance`, as 1+3; 0 if none has.
    ranked_by = pool.found(pool.depth)
    safe_trace = _escaper("questions of the pool")
    pooled = pool.pooled
    for row, (question, _) in enumerate(pool.questions):
        query, safe = safe_trace(question), _escaper(f"chunk ids of question {question!r}")
        for at in pool.span(row):
            if pooled[at]:
                who = "+".join(str(system + 1) for system in ranked_by[at].nonzero()[0].tolist()) or "0"
                yield f"{query} {who} {safe(pool.chunk_ids[at])} {pool.grades[at]}\n"


def pool_provenance(pool: Pool, text: str) -> str:
    """Return what stands beside a pool's judgments, whose `text` is given: readers of TREC files take no comments."""
    data = {
        "sha256": sha256(text.encode()).hexdigest(),
        "scale": pool.scale.model_dump(mode="json"),
        "depth": pool.depth,
        "systems": [{"number": n, **each.model_dump(mode="json")} for n, each in enumerate(pool.systems, 1)],
        "conflicts": {"settled by": pool.settling, "count": pool.n_conflicts},
        "judged": int((pool.grades >= 0).sum()),
        "doubts": [note_sentence(doubt) for doubt in pool.doubts],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def provenance_beside(path: Path) -> Path:
    """Return where `pool_provenance` of a file of judgments stands: `pool.qrels.json` beside `pool.qrels`."""
    return path.with_name(f"{path.name}.json")


def _escaper(what: str) -> Callable[[str], str]:
    keys: dict[str, str] = {}

    def escape(key: str) -> str:
        safe = key
        if not key.isprintable() or any(c.isspace() for c in key):
            safe = "".join(_percent(c) if c.isspace() or not c.isprintable() else c for c in key)
        if safe.startswith("#"):
            safe = "%23" + safe[1:]
        if keys.setdefault(safe, key) != key:
            raise DataError(f"{what}: {key!r} and {keys[safe]!r} are the same in a TREC file; rename one")
        return safe or "%"

    return escape


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


EXPORTS = (Format("trec-run", run_lines, (".run", ".trec")), Format("trec-qrels", qrels_lines, (".qrels",)))
