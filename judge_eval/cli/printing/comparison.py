"""What people read of a comparison on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from judge_eval.cli.printing.door import BAD, DOUBTFUL, GOOD
from judge_eval.cli.printing.output import say, say_table
from judge_eval.comparison.findings import CHANGE_WORDS
from judge_eval.runs.folder.judgedclaims import vital_word
from judge_eval.shown import shortened

if TYPE_CHECKING:
    from judge_eval.comparison.findings import Way
    from judge_eval.comparison.record import Comparison


_STYLES: Final[dict[Way, str]] = {"better": GOOD, "worse": BAD, "unsure": ""}


def show_comparison(comparison: Comparison, most: int = 10) -> None:
    """Print what is shown, the differences, what makes them doubtful, and the traces that moved most.

    Args:
        comparison: The comparison.
        most: How many changed traces to list of each candidate.
    """
    names = [run.name for run in comparison.runs]
    say(f"{', '.join(names[1:])} against {names[0]} (baseline)", "bold")
    for told in comparison.sentences:
        say(told, "bold")
    for warning in comparison.warnings:
        say(f"warning: {warning}", DOUBTFUL)
    for note in comparison.notes:
        say(f"note: {note}")
    several = len(names) > 2
    rows: list[list[str | Text]] = []
    for d in comparison.differences:
        span = "" if d.interval is None else f"[{d.interval[0]:+.4f}, {d.interval[1]:+.4f}]"
        effect = "" if d.dz is None else f"{d.dz:+.2f}"
        moved = Text(f"{d.difference:+.4f}", style=_STYLES[d.way])
        row: list[str | Text] = [d.metric, f"{d.baseline_mean:.4f}", f"{d.candidate_mean:.4f}", moved, span]
        row += [f"{d.p_holm:.3g}", effect, f"{d.wins}/{d.ties}/{d.losses}", str(d.n)]
        rows.append([names[d.candidate], *row] if several else row)
    columns = ["metric", "baseline", "candidate", "difference", "95% interval", "p (Holm)", "dz"]
    columns += ["win/tie/loss", "n"]
    shift = 1 if several else 0
    if several:
        columns.insert(0, "run")
    say()
    say_table(columns, rows, right=[k + shift for k in (1, 2, 3, 5, 6, 7, 8)])
    say()
    for d in comparison.differences:
        who = f"{names[d.candidate]}: " if several else ""
        say(who + d.sentence)
    if comparison.pairs:
        pairs = [
            [p.metric, f"{names[p.second]} - {names[p.first]}", f"{p.difference:+.4f}", f"{p.p:.3g}"]
            for p in comparison.pairs
        ]
        say()
        say_table(["metric", "all pairs", "difference", "p (Tukey)"], pairs, right=(2, 3))
    _claims(comparison, most)
    _changes(comparison, names, most)


def _claims(comparison: Comparison, most: int) -> None:
    """List the claims that were lost and won."""
    for moved, told in zip(comparison.claims, comparison.claims_told, strict=True):
        say()
        say(told)
        rows: list[list[str | Text]] = [
            [
                Text(c.kind, style=BAD if c.kind == "lost" else GOOD),
                vital_word(c.vital),
                c.before,
                c.after,
                shortened(c.text, 80),
                c.trace_id,
            ]
            for c in moved.changes[:most]
        ]
        if rows:
            say_table(["what", "kind", "before", "after", "claim", "trace"], rows)
        if (left := moved.lost + moved.won - len(rows)) > 0:
            say(f"... and {left:,} more")


def _changes(comparison: Comparison, names: list[str], most: int) -> None:
    metrics = list(dict.fromkeys(d.metric for d in comparison.differences))[:3]
    for place in range(1, len(names)):
        counts = comparison.changed[place - 1]
        say()
        if not counts:
            say(f"{names[place]}: no trace changed")
            continue
        total = sum(counts.values())
        kinds = ", ".join(f"{CHANGE_WORDS[kind]}: {n}" for kind, n in sorted(counts.items()))
        say(f"{names[place]}: {total} traces changed ({kinds})")
        rows = []
        for t in [t for t in comparison.traces if t.candidate == place][:most]:
            signed = [_signed(t.differences.get(name)) for name in metrics]
            query = t.query if len(t.query) <= 50 else t.query[:47] + "..."
            rows.append([t.trace_id, t.what, t.before, t.after, *signed, query])
        columns = ["trace", "what", "before", "after", *metrics, "query"]
        say_table(columns, rows, right=range(4, 4 + len(metrics)))
        if total > most:
            say(f"... and {total - most} more (--json names them)")


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}"
