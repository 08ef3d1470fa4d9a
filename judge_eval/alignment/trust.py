"""What figures of agreement come to, in two sentences: how far to trust the judge, and on what evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Protocol

FEW = 10
"""Traces under which nothing is said of a judge."""
WIDE = 0.2
"""The width from which an interval of kappa is called wide."""
_DEGREES = ((0.2, "slightly"), (0.4, "fairly"), (0.6, "moderately"), (0.8, "substantially"))
_FIRST = ("kappa", "accuracy", "precision", "recall", "specificity", "bias")
MEANINGS: Mapping[str, str] = {
    "kappa": "agreement beyond chance: 0 is chance, 1 is full agreement",
    "kappa_quadratic": "the same of all grades, far misses weighing more than near ones",
    "accuracy": "share of chunks with the same grade",
    "precision": "share of the judge's relevant chunks that the labels call relevant",
    "recall": "share of the labels' relevant chunks that the judge finds",
    "specificity": "share of the chunks irrelevant by the labels that the judge passes over",
    "bias": "mean grade of the judge minus that of the labels: above 0 it is too kind",
}
"""What the figures say that are shown first, by name without a grade."""
OF_PROBABILITIES: Mapping[str, str] = {
    "ece": "expected calibration error: mean gap of what is said and what is found, by bins",
    "brier": "mean squared difference of probability and label: 0 is best, always saying 0.5 has 0.25",
    "log_loss": "mean surprise at the labels: 0 is best, always saying 0.5 has 0.69",
    "bias": "mean probability minus the share that is relevant: above 0 it promises too much",
}
"""What the figures of probabilities say, by name."""


class Measured(Protocol):
    """A figure of agreement; see `Figure`."""

    @property
    def value(self) -> float | None:
        """None where it is undefined."""
        ...

    @property
    def interval(self) -> tuple[float, float] | None:
        """95%."""
        ...

    @property
    def traces(self) -> int | None:
        """How many traces it rests on."""
        ...


def first_figures(names: Sequence[str], relevant: int, *, another: bool = False) -> dict[str, str]:
    """Choose the six figures that say most, and say what they mean.

    Args:
        names: The figures there are.
        relevant: The least grade that counts as relevant.
        another: Whether another judge's verdicts stand in the place of labels.

    Returns:
        By figure its meaning.
    """
    top = max((int(name.rpartition("_ge")[2]) for name in names if "_ge" in name), default=1)
    binary = top == 1
    wanted = _FIRST if binary else ("kappa", "precision", "recall", "kappa_quadratic", "accuracy", "bias")
    chosen = {}
    for name in wanted:
        at = f"{name}_ge{relevant}"
        whole = name in ("kappa_quadratic", "accuracy", "bias") or (binary and name == "kappa")
        chosen[name if whole or at not in names else at] = MEANINGS[name]
    if another:
        chosen = {name: _of_another(meaning) for name, meaning in chosen.items()}
    return {name: meaning for name, meaning in chosen.items() if name in names}


def _of_another(meaning: str) -> str:
    """Say what a figure means where another judge stands in the place of labels."""
    said = meaning.replace("the labels'", "the other's").replace("the labels call", "the other calls")
    said = said.replace("of the labels: above 0 it is too kind", "of the other").replace(
        "by the labels", "by the other"
    )
    return said.replace("the judge", "the first")


def how_far(figures: Mapping[str, Measured], relevant: int, traces: int, *, another: bool = False) -> str:
    """Say in one sentence how far a judge can be trusted.

    Args:
        figures: By name.
        relevant: The least grade that counts as relevant.
        traces: How many traces they rest on.
        another: Whether another judge's verdicts stand in the place of labels.
    """
    kappa = figures.get(f"kappa_ge{relevant}") or figures["kappa"]
    who, whom = ("The two judges", "each other") if another else ("The judge", "people")
    if kappa.value is None:
        return (
            f"How far to trust {'them' if another else 'the judge'} cannot be told: where all grades are the "
            "same on one side, agreement cannot be told from chance."
        )
    said = _spelled(kappa)
    if kappa.interval is None or traces < FEW:
        rests = f"{said} rests on {_count(traces, 'trace')} alone"
        return f"How far to trust {'them' if another else 'the judge'} cannot be told yet: {rests}."
    low, high = kappa.interval
    verb = "agree" if another else "agrees"
    if high <= 0:
        return f"{who} {verb} with {whom} less than chance would: {said}; something is the wrong way round."
    if low <= 0:
        who = who[0].lower() + who[1:]
        return f"Nothing shows yet that {who} {verb} with {whom} more than chance would: {said}."
    if another:
        told = "which of them is right, this does not tell"
        return f"The two judges agree {_degrees(low, high)} on what is relevant, {said}; {told}."
    precision, recall = (_share(figures, name, relevant) for name in ("precision", "recall"))
    shares = "it calls nothing relevant"
    if precision is not None:
        shares = f"{precision} of what it calls relevant is relevant"
    if recall is not None:
        shares += f", and it finds {recall} of the relevant chunks"
    return (
        f"The judge can be trusted as far as this: it agrees with people {_degrees(low, high)} on what is "
        f"relevant, {said}; {shares}."
    )


def on_what(
    kappa: Measured,
    chunks: int,
    traces: int,
    source: str,
    *,
    failed: int = 0,
    unlabelled: int = 0,
    another: bool = False,
) -> str:
    """Say in one sentence what the figures rest on, and what would make them firmer.

    Args:
        kappa: The figure that matters most.
        chunks: With both a verdict and a label.
        traces: Those they come from.
        source: Where the labels come from.
        failed: Labelled chunks without a verdict.
        unlabelled: Verdicts without a label.
        another: Whether another judge's verdicts stand in the place of labels.
    """
    what = f"{_count(chunks, 'chunk')} of {_count(traces, 'trace')}"
    said = f"The evidence: {what} " + ("that both judged" if another else f"with labels from {source}")
    if unlabelled:
        said += f", which stand for the other {unlabelled:,} chunks only if they were drawn at random"
    if failed:
        said += f"; {_count(failed, 'chunk')} without a verdict {'is' if failed == 1 else 'are'} left out"
    if another:
        return said + "; labels by people would tell."
    if traces < FEW:
        return said + "; label 100 traces or more."
    if kappa.interval is not None and kappa.interval[1] - kappa.interval[0] > WIDE:
        return said + f"; about {4 * traces:,} traces would halve the interval."
    return said + "."


class Probabilities(Protocol):
    """Probabilities beside labels; see `Reliability`."""

    @property
    def traces(self) -> int:
        """How many traces they rest on."""
        ...

    @property
    def figures(self) -> Mapping[str, Measured]:
        """`ece` and `bias` among them."""
        ...


def at_their_word(told: Probabilities | None, *, another: bool = False) -> str:
    """Say in one sentence how far a judge's probabilities can be taken at their word.

    Args:
        told: What was measured; None where no verdict has a probability.
        another: Whether another judge's verdicts stand in the place of labels.
    """
    if told is None:
        return (
            "How far its probabilities can be taken at their word cannot be told: no verdict has one (judge "
            "with --confidence, where the server tells them)."
        )
    error, bias = told.figures["ece"], told.figures["bias"]
    if error.value is None or error.interval is None or told.traces < FEW:
        rests = f"this rests on {_count(told.traces, 'trace')} alone"
        return f"How far its probabilities can be taken at their word cannot be told yet: {rests}."
    whose = "the other judge's verdicts" if another else "the labels"
    low, high = error.interval
    said = (
        f"Its probabilities miss {whose} by {error.value:.2f} on average (expected calibration error, 95% "
        f"interval {low:.2f} to {high:.2f})"
    )
    if low <= 0:
        return f"{said}, which may be chance alone."
    if bias.interval is None or bias.interval[0] <= 0 <= bias.interval[1]:
        return f"{said}."
    return f"{said}; they promise too {'much' if bias.interval[0] > 0 else 'little'}."


def raters_agree(figures: Mapping[str, Measured], who: str) -> str:
    """Say in one sentence how far several judges agree, by Krippendorff's ordinal alpha."""
    alpha = figures["alpha_ordinal"]
    if alpha.value is None:
        return f"How far {who} agree cannot be told: all grades are the same."
    said = _spelled(alpha, "Krippendorff's alpha")
    if alpha.interval is None or alpha.interval[0] <= 0:
        return f"Nothing shows yet that {who} agree more than chance would: {said}."
    return f"{who[0].upper()}{who[1:]} agree {_degrees(*alpha.interval)}, {said}."


def systems_agree(judge: Sequence[float], human: Sequence[float]) -> str:
    """Say in one sentence how far a judge puts systems into the order that labels put them into.

    Args:
        judge: The mean of each system by the judge.
        human: The mean of each by labels.
    """
    pairs = list(combinations(range(len(judge)), 2))
    alike = sum((judge[i] - judge[j]) * (human[i] - human[j]) > 0 for i, j in pairs)
    tied = sum(human[i] == human[j] for i, j in pairs)
    rest = f", {tied} being equal by labels" if tied else ""
    of = f"{alike} of {_count(len(pairs), 'pair')} of systems"
    return f"The judge puts {of} into the order of the labels{rest}."


def _degrees(low: float, high: float) -> str:
    """Say what an interval of kappa is called, by the words of Landis and Koch (1977)."""
    last = "almost perfectly"
    words = [next((word for most, word in _DEGREES if end <= most), last) for end in (low, high)]
    return " to ".join(dict.fromkeys(words))


def _spelled(figure: Measured, name: str = "Cohen's kappa") -> str:
    if figure.interval is None:
        return f"{name} {figure.value:.2f}"
    return f"{name} {figure.value:.2f} (95% interval {figure.interval[0]:.2f} to {figure.interval[1]:.2f})"


def _share(figures: Mapping[str, Measured], name: str, relevant: int) -> str | None:
    figure = figures.get(f"{name}_ge{relevant}")
    return None if figure is None or figure.value is None else f"{figure.value:.0%}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
