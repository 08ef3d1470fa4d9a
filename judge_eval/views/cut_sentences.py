"""What is said of a comparison of runs whose documents are cut differently."""

from collections.abc import Sequence

import numpy as np

from judge_eval.compare.changes import words_metric
from judge_eval.compare.comparison import Comparison, CutsFound, Difference
from judge_eval.metrics import parse_metric
from judge_eval.runs.folder.validation import VALIDATION
from judge_eval.spelling import option
from judge_eval.views.note_sentences import notes_of_runs

FALSE_SUPPORT = 0.02
"""If more than this share of them was found relevant: differences between cuts are then biased by .01 to .06."""
UNQUOTED = 0.5
"""A greater share of supporting verdicts without a quote is said; differences of five cuts were then up to .1 off."""
OVERLAP = 0.05
"""A greater share of repeated words is said."""


def comparison_notes(c: Comparison) -> tuple[str, ...]:
    """Say what differs as it should, and what the cuts mean for the comparison."""
    several, notes = len(c.runs) > 2, [*notes_of_runs(c, c.notes)]
    for cuts in c.cuts:
        names = c.baseline.name, c.runs[cuts.candidate].name
        notes += [f"{names[1]}: " * several + note for note in cuts_notes(cuts, names)]
    for d in c.differences:
        its = c.cuts_of(d.candidate)
        if its is not None and d.metric == its.headline and (end := no_longer(its, d)) is not None:
            notes.append(end)
    return tuple(notes)


def no_longer(cuts: CutsFound, d: Difference) -> str | None:
    """Say from how many words on a difference that is shown is shown no longer; None if it stays, or is not shown."""
    metric = words_metric(d.metric)
    if not d.clear or metric is None or metric.words is None:
        return None
    for point in cuts.curve:
        if point.words > metric.words and point.interval is not None and point.interval[0] <= 0 <= point.interval[1]:
            return f"from {point.words:,} words on the difference is no longer shown (intervals of single points)"
    return None


def cut_differently(cuts: CutsFound) -> str:
    """Say that the documents are cut differently, and how."""
    first, second = (f"{words:.0f}" for words in cuts.median_words)
    share = f"{100 * (cuts.share or 0):.{0 if cuts.share == 1 else 1}f}%"
    return (
        f"the documents are cut differently (median {first} and {second} words; {share} of the text that both "
        "retrieved lies in other chunks)"
    )


def evidence_words(cuts: CutsFound, d: Difference) -> str:
    """Say both means of a metric in words: with the evidence of both runs, and alone."""
    words = f" with the evidence of both ({d.candidate_mean:.3f} from {d.baseline_mean:.3f}"
    alone = cuts.alone.get(d.metric)
    return words + (")" if alone is None else f"; alone {alone[1]:.3f} from {alone[0]:.3f})")


def same_text_words(cuts: CutsFound, n: int) -> str:
    """Say that all lists show the same text, if they do."""
    if cuts.same_text < n:
        return ""
    return "; the text is the same, word by word" + (", only cut otherwise" if cuts.differ else "")


def cuts_notes(cuts: CutsFound, names: tuple[str, str]) -> list[str]:
    """Say what the cuts mean for the comparison, of runs with these names."""
    if not cuts.differ:
        if cuts.reached is not None:
            return _overlaps(cuts, names)
        first, second = (f"{words:.0f}" for words in cuts.median_words)
        return [
            f"the documents may be cut differently (median {first} and {second} words), and the runs share too little "
            f"text to tell; if they are, compare by {option('metrics', 'HitRate@Bw')}, B words"
        ]
    notes = []
    if cuts.by_chunks:
        counting = ", ".join(cuts.by_chunks)
        several = len(cuts.by_chunks) > 1
        notes.append(
            f"{counting} {'count' if several else 'counts'} chunks and {'rise' if several else 'rises'} with their "
            "length: not compared"
        )
    if cuts.headline is None:
        return [*notes, *_overlaps(cuts, names)]
    if cuts.reached is not None and cuts.budget:
        shorter = int(np.argmin(cuts.reached))
        notes.append(
            f"{names[shorter]} has {cuts.reached[shorter]:,} words in 90% of the questions, so nothing is said beyond "
            f"{cuts.budget:,}; retrieve deeper to ask for more"
        )
    if cuts.validated is None:
        notes.append(f"{VALIDATION} beside the runs is not a table of validate-judge")
    if cuts.false_support is not None and cuts.false_support[0] > FALSE_SUPPORT * cuts.false_support[1]:
        wrong, every = cuts.false_support
        where = f"on {', '.join(cuts.validated)} " if cuts.validated else ""
        notes.append(
            f"{where}the judge found {wrong:,} of {every:,} chunks relevant that people found irrelevant: false "
            "support pulls the difference towards 0 and, if short chunks get more chances, towards short chunks, "
            "the more so the more words are read; the interval does not cover that, so name a small number of words"
        )
    notes += [
        f"{share:.0%} of the supporting verdicts of {name} quote no words, so that their whole chunks are evidence: "
        "the difference may be .1 off"
        for name, share in zip(names, cuts.unquoted or (), strict=False)
        if share > UNQUOTED
    ]
    if not parse_metric(cuts.headline).spec.claims:
        notes.append(f"{option('mode', 'claims')} would say how much of the reference is found")
    return [*notes, *_overlaps(cuts, names)]


def not_said(cuts: CutsFound) -> str:
    """Say why nothing is said of which run is better."""
    if not cuts.quoted:
        why = "a judge quotes no words, so that evidence cannot be placed (differences would be up to .4 off)"
    else:
        why = "too few words were retrieved"
    return f"{cut_differently(cuts)}: which run is better is not said, since {why}"


def _overlaps(cuts: CutsFound, names: Sequence[str]) -> list[str]:
    shares = zip(names, cuts.repeated or (), strict=False)
    return [
        f"{share:.0%} of the words of {name} repeat words further up in the list (overlapping chunks)"
        for name, share in shares
        if share > OVERLAP
    ]
