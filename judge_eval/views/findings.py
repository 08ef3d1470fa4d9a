"""What a comparison shows of each candidate, in sentences."""

from collections.abc import Iterator, Sequence

import numpy as np

from judge_eval.compare.changes import words_metric
from judge_eval.compare.comparison import (
    Attribution,
    ClaimsMoved,
    Comparison,
    CutsFound,
    Difference,
    Opening,
    WordingSplit,
)
from judge_eval.metrics import parse_metric
from judge_eval.note import Note
from judge_eval.runs.folder.validation import VALIDATION
from judge_eval.safe_text import counted, signed_pair
from judge_eval.spelling import option
from judge_eval.views.note_sentences import notes_of_runs


def headlines(c: Comparison) -> list[str]:
    """Say what is to be said first, a sentence a candidate, each under its name if there are several."""
    names = [run.name for run in c.runs]
    several = len(names) > 2
    sentences = [
        f"{names[cuts.candidate]}: " * several + _not_said(cuts)
        for cuts in c.cuts
        if cuts.differ and cuts.headline is None
    ]
    for opening in c.openings:
        name = names[opening.candidate]
        if (split := c.attribution(opening.metric, opening.candidate)) is not None:
            sentences.append(f"{name}: " * several + attribution_sentence(split))
        sentences.append(opening_sentence(c, opening, name, several=several))
    sentences += notes_of_runs(c, without_opening(c))
    leads = {opening.metric for opening in c.openings}
    lost = [each for each in c.wordings if each.metric in leads and each.other + each.every > 0]
    return sentences + [_wording_sentence(each, names) for each in lost]


def without_opening(c: Comparison) -> list[Note]:
    """Return why candidates have no opening sentence: the warnings that no trace has a value in both runs."""
    opened = {opening.candidate for opening in c.openings}
    return [note for note in c.warnings if note.kind == "no value" and note.candidate not in opened]


def opening_sentence(c: Comparison, opening: Opening, who: str, *, several: bool = False) -> str:
    """Say whether a candidate is better or worse; `who` is its name, said in each sentence if there are several."""
    cuts = c.cuts_of(opening.candidate)
    begin = f"{_cut_differently(cuts)}: " if cuts is not None and cuts.differ else ""
    if opening.finding in ("worse", "better"):
        begin += f"{who} {'scores' if opening.another_judge else 'is'} {opening.finding}: "
    elif several:
        begin += f"{who}: "
    return begin + _shown(c, opening)


def _shown(c: Comparison, opening: Opening) -> str:
    """Say how much a metric differs, and in how many questions."""
    d = next(each for each in c.of(opening.candidate) if each.metric == opening.metric)
    cuts = c.cuts_of(opening.candidate)
    words = None if cuts is None or d.metric not in cuts.alone else cuts
    seen = counted(d.n, "question")
    if opening.finding == "same":
        end = "" if words is None else _same_text_words(words, c.paired[opening.candidate - 1])
        return f"no difference: {d.metric} is the same on {'all ' if d.n > 1 else ''}{seen}{end}"
    size = f"{d.metric} {signed_pair(d.difference, d.interval)}" + ("" if words is None else _evidence_words(words, d))
    undecided = d.n - d.wins - d.ties - d.losses
    unknown = f"; failed verdicts leave {undecided} open" if undecided else ""
    unknown += f"; {d.n_excluded} others have no value" if d.n_excluded else ""
    if opening.finding == "unclear":
        least = "" if d.detectable is None else f"; differences under {d.detectable:.3f} cannot be seen with {seen}"
        if d.too_few:
            least = "; they are too few to show any"
        counts = f"{d.losses} of {seen} lost ({d.wins} won{unknown})"
        if d.clear_in_number:
            counts += ", but in size losses and gains differ by no more than chance explains"
        return f"no difference is shown: {size}; {counts}{least}"
    if opening.finding == "worse":
        counts = f"{d.losses} of {seen} lost ({d.wins} won{unknown})"
    else:
        counts = f"{d.wins} of {seen} won ({d.losses} lost{unknown})"
    among = f", adjusted for {len(c.differences)} comparisons" if len(c.differences) > 1 else ""
    doubt = f"; not confirmed, p={d.p_holm:.3g}{among}" if d.p_holm > 0.05 else ""
    return f"{size}; {counts}{_first_relevant(opening)}{doubt}"


def _first_relevant(opening: Opening) -> str:
    """Say where the first relevant chunk went, in the questions that lost or won."""
    if not opening.first_known:
        return ""
    a, b = opening.first_before, opening.first_after
    if a is None:
        where = "is missing in both" if b is None else f"was missing and is at rank {b}"
    elif b is None:
        where = f"was at rank {a} and is missing"
    else:
        where = f"stayed at rank {a}" if a == b else f"moved from rank {a} to {b}"
    which = "lost" if opening.finding == "worse" else "won"
    return f"; in the {which} ones the first relevant chunk {where} (median)"


def attribution_sentence(a: Attribution) -> str:
    """Say whose change a difference is."""
    size, span = signed_pair(abs(a.difference), None).split(" ")[0][1:], ""
    if a.interval is not None and not a.interval[0] <= 0 <= a.interval[1]:
        what = f"{a.metric} {'fell' if a.difference < 0 else 'rose'} by {size}"
        span = " " + signed_pair(0, a.interval).partition(" ")[2]
    else:
        what = f"no difference in {a.metric} is shown: {signed_pair(a.difference, a.interval)}"
    shared = f"{a.shared:.0%} of the chunks have both verdicts"
    if a.retrieval.wide or a.judge.wide:
        shared += "; `compare --judge-again` asks about the others"
    sides = (a.judge, f"by the judge ({a.judges})"), (a.retrieval, "by retrieval")
    parts = [f"{signed_pair(part.value, part.interval)} {who}" for part, who in sides if a.is_known(part)]
    if len(parts) == len(sides):
        return f"{what}{span}: {', '.join(parts)}; {shared}"
    unknown = [
        f"{who} {signed_pair(0, part.interval).partition(' ')[2]}"
        for part, who in reversed(sides)
        if not a.is_known(part)
    ]
    parts.append(f"it cannot be told {'how much ' if parts else 'whether '}{' or '.join(unknown)}")
    return f"{what}{span}: {', '.join(parts)}, since only {shared}"


def claims_sentences(c: Comparison) -> list[str]:
    """Say what was won and lost of the claims, a sentence a candidate, each under its name if there are several."""
    several = len(c.runs) > 2
    return [f"{c.runs[moved.candidate].name}, " * several + moved_claims_sentence(moved) for moved in c.claims]


def moved_claims_sentence(moved: ClaimsMoved) -> str:
    """Say what was won and lost: counts, and the share covered with its interval."""
    both = moved.lost + moved.won + moved.covered + moved.missed
    within = "" if moved.words is None else f" read within {moved.words:,} words, with the evidence of both"
    sentence = (
        f"claims{within}: {moved.lost:,} lost ({moved.lost_vital:,} vital), {moved.won:,} won ({moved.won_vital:,} "
        f"vital), of {both:,} known in both"
    )
    if moved.share is not None:
        size = signed_pair(moved.share.difference, moved.share.interval)
        sentence += f"; share covered {moved.share.before:.3f} before, {moved.share.after:.3f} after, {size}"
    notes = [f"{moved.unknown:,} unknown in one run"] if moved.unknown else []
    notes += [f"{moved.unpaired:,} in only one run"] if moved.unpaired else []
    if moved.not_judged:
        notes.append(f"{counted(moved.not_judged, 'trace')} not judged by claims in one run")
    return "; ".join([sentence, *notes])


def together_sentences(comparison: Comparison) -> Iterator[str]:
    """Say of each candidate of other cuts what both lists read together, and what the candidate adds."""
    for moved in comparison.claims:
        if moved.words is not None:
            counts = moved.covered, moved.lost, moved.won, moved.missed
            yield _together(comparison, moved.candidate, "claim", moved.words, counts)
    for d in comparison.differences:
        metric = words_metric(d.metric)
        if metric is not None and metric.words is not None and not metric.spec.claims and not d.n_open:
            both = round(d.baseline_mean * d.n) - d.losses
            counts = both, d.losses, d.wins, d.n - both - d.losses - d.wins
            yield _together(comparison, d.candidate, "question", metric.words, counts)


def _together(comparison: Comparison, candidate: int, what: str, words: int, counts: tuple[int, int, int, int]) -> str:
    """Write how many of something both lists, the first alone, the other alone and neither read."""
    both, lost, won, _ = counts
    first, other = comparison.baseline.name, comparison.runs[candidate].name
    return (
        f"within {words:,} words {first} reads evidence of {both + lost:,} of {counted(sum(counts), what)} and {other} "
        f"of {both + won:,}; together they read {both + lost + won:,}: {other} adds {won:,}"
    )


def _wording_sentence(split: WordingSplit, names: Sequence[str]) -> str:
    parts = []
    for each in split.against:
        gained = counted(each.questions_more, "question")
        net = f"net {each.net:+.3f}" + (f" [{each.interval[0]:+.3f}, {each.interval[1]:+.3f}]" if each.interval else "")
        gain = "gains" if each.questions_more == 1 else "gain"
        lose = "loses" if each.questions_less == 1 else "lose"
        lost = f"{each.questions_less:,} {lose} ({each.less:.3f})"
        parts.append(f"with {names[each.candidate]} {gained} {gain} ({each.more:.3f}) and {lost}, {net}")
    wordings = "both wordings" if len(parts) == 1 else f"all {len(parts) + 1} wordings"
    return (
        f"{split.metric} is {split.mean:.3f}. Of the {1 - split.mean:.3f} lost at most {split.other:.3f}"
        f"{_ends(split.other_interval)} is the wording's: {'; '.join(parts)}; {split.every:.3f}"
        f"{_ends(split.every_interval)} is lost with {wordings}"
    )


def _ends(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"


def comparison_notes(c: Comparison) -> tuple[str, ...]:
    """Say what differs as it should, and what the cuts mean for the comparison."""
    several, notes = len(c.runs) > 2, [*notes_of_runs(c, c.notes)]
    for cuts in c.cuts:
        names = c.baseline.name, c.runs[cuts.candidate].name
        notes += [f"{names[1]}: " * several + note for note in cuts_notes(cuts, names)]
    for d in c.differences:
        its = c.cuts_of(d.candidate)
        if its is not None and d.metric == its.headline and (end := _no_longer(its, d)) is not None:
            notes.append(end)
    return tuple(notes)


def _no_longer(cuts: CutsFound, d: Difference) -> str | None:
    """Say from how many words on a difference that is shown is shown no longer; None if it stays, or is not shown."""
    metric = words_metric(d.metric)
    if not d.clear or metric is None or metric.words is None:
        return None
    for point in cuts.curve:
        if point.words > metric.words and point.interval is not None and point.interval[0] <= 0 <= point.interval[1]:
            return f"from {point.words:,} words on the difference is no longer shown (intervals of single points)"
    return None


def _cut_differently(cuts: CutsFound) -> str:
    first, second = (f"{words:.0f}" for words in cuts.median_words)
    share = f"{100 * (cuts.share or 0):.{0 if cuts.share == 1 else 1}f}%"
    return (
        f"the documents are cut differently (median {first} and {second} words; {share} of the text that both "
        "retrieved lies in other chunks)"
    )


def _evidence_words(cuts: CutsFound, d: Difference) -> str:
    words = f" with the evidence of both ({d.candidate_mean:.3f} from {d.baseline_mean:.3f}"
    alone = cuts.alone.get(d.metric)
    return words + (")" if alone is None else f"; alone {alone[1]:.3f} from {alone[0]:.3f})")


def _same_text_words(cuts: CutsFound, n: int) -> str:
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
    # Differences between cuts are then biased by .01 to .06.
    if cuts.false_support is not None and cuts.false_support[0] > 0.02 * cuts.false_support[1]:
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
        if share > 0.5  # differences of five cuts were then up to .1 off
    ]
    if not parse_metric(cuts.headline).spec.claims:
        notes.append(f"{option('mode', 'claims')} would say how much of the reference is found")
    return [*notes, *_overlaps(cuts, names)]


def _not_said(cuts: CutsFound) -> str:
    if not cuts.quoted:
        why = "a judge quotes no words, so that evidence cannot be placed (differences would be up to .4 off)"
    else:
        why = "too few words were retrieved"
    return f"{_cut_differently(cuts)}: which run is better is not said, since {why}"


def _overlaps(cuts: CutsFound, names: Sequence[str]) -> list[str]:
    shares = zip(names, cuts.repeated or (), strict=False)
    return [
        f"{share:.0%} of the words of {name} repeat words further up in the list (overlapping chunks)"
        for name, share in shares
        if share > 0.05
    ]
