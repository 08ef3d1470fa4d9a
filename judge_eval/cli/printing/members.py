"""How far the members of a panel agree, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge_eval.runs.folder.run import Run


def show_members(run: Run) -> None:
    """Print how far the members agree, where the run has several."""
    from judge_eval.alignment.members import member_agreement
    from judge_eval.cli.printing.output import figure, say, say_table

    panel = member_agreement(run)
    if panel is None:
        return
    rows = []
    for m in panel.members:
        relevant = "" if m.relevant is None else f"{m.relevant:.4f}"
        rows.append([m.name, str(m.n), str(m.failed or ""), relevant, str(m.dissents)])
    say()
    say_table(["member", "verdicts", "failed", "relevant", "outvoted"], rows, right=(1, 2, 3, 4))
    kappas = ", ".join(
        f"{pair} {'undefined' if k is None else format(k, '.3f')}"
        for pair, k in list(panel.kappas.items())[:6]
    )
    flips = f"flips: {figure(panel.flips)} of {panel.chunks} chunks"
    say(f"{flips}; ordinal alpha {figure(panel.alpha)}; kappa {kappas}")
