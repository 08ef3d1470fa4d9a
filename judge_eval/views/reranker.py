"""What people read of rerankers."""

from collections.abc import Iterator

from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.reranker import reranker_gain
from judge_eval.safe_text import counted, signed_pair
from judge_eval.views.blocks import Section, Sentence, TableColumns, make_table


def reranker_sections(run: Run) -> Iterator[Section]:
    """Say what the reranker changed; nothing if no trace says how its chunks were reranked."""
    gain = reranker_gain(run)
    if gain is None:
        return
    text = f"it dropped {gain.n_dropped:,} of {counted(gain.relevant, 'relevant chunk')}"
    for first in gain.metrics[:1]:
        moved = signed_pair(first.difference.value or 0.0, first.difference.interval)
        text = f"the reranker moves {first.metric} from {first.before:.3f} to {first.after:.3f}, {moved}; {text}"
    named = ", ".join(f"{trace}: {chunk}" for trace, chunk in gain.dropped[:3])
    columns: TableColumns = ["metric", ("retrieved", "number"), ("reranked", "number")]
    columns += [("difference", "signed"), ("95% interval", "signed interval")]
    rows = ((m.metric, m.before, m.after, m.difference.value, m.difference.interval) for m in gain.metrics)
    text += f" ({named})" if named else ""
    text += f" and {gain.open:,} without a verdict" if gain.open else ""
    text += f"; {counted(gain.traces, 'trace')}"
    text += f", {gain.failed:,} with failed verdicts, whose possible values the interval covers" if gain.failed else ""
    yield Section("reranker", (Sentence(text), make_table("reranker", columns, rows)))
