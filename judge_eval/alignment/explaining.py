"""What each number of a correction means, in a sentence."""

from __future__ import annotations

from judge_eval.alignment.correct import Corrected, Rate
from judge_eval.runs.folder.wording import interval, number

_SLIGHT = 0.0005
"""A difference that four decimals hardly show."""


def worth(effective_n: float | None) -> str:
    """Say what the labels are worth together with the judge; empty where no error could be estimated."""
    return "" if effective_n is None else f"{effective_n:.0f} labels"


def explain_mean(m: Corrected) -> list[str]:
    """Explain a corrected mean: a sentence a number."""
    span = f" (95% interval {interval(m.interval)})" if m.interval else ""
    said = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        "from their labels and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: the mean of the {m.n_labelled:,} labelled traces, without "
        "the judge",
        f"weight of the judge {m.power:.2f}: how far its verdicts move the estimate, from 0 (the labels "
        "alone count) to 1 (its verdicts count in full)",
    ]
    if m.effective_n is not None:
        said.append(
            f"worth {worth(m.effective_n)}: as sure as {m.effective_n:.0f} traces labelled by people without "
            f"a judge; {m.n_labelled:,} were labelled, so the judge {_gained(m.effective_n, m.n_labelled)}"
        )
    return said


def explain_rate(rate: Rate) -> list[str]:
    """Explain the share of relevant chunks: a sentence a number."""
    found, passed = (f"{100 * share:.0f}" for share in (rate.sensitivity, rate.specificity))
    span = f" (95% interval {interval(rate.interval)})" if rate.interval else ""
    return [
        "corrected: not possible, since the judge is no better than chance"
        if rate.value is None
        else f"corrected {number(rate.value)}{span}: with the judge's errors taken out",
        f"judge alone {number(rate.judge_only)}: the share of chunks that it calls relevant",
        f"sensitivity {number(rate.sensitivity)}: of 100 relevant chunks it finds {found}",
        f"specificity {number(rate.specificity)}: of 100 others it passes over {passed}",
    ]


def _off(judge: float, corrected: float) -> str:
    gap = judge - corrected
    if abs(gap) < _SLIGHT:
        return "as good as the corrected one"
    return f"{abs(gap):.4f} {'above' if gap > 0 else 'below'} the corrected one"


def _gained(effective: float, labelled: int) -> str:
    gain = round(effective - labelled)
    return f"saved the labelling of {gain} more" if gain > 0 else "saved no labelling"
