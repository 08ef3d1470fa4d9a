"""What a comparison shows of each candidate, in sentences."""

from collections.abc import Iterator, Sequence

from judge_eval.compare.changes import words_metric
from judge_eval.compare.comparison import Attribution, ClaimsMoved, Comparison, Opening, WordingSplit
from judge_eval.note import Note
from judge_eval.safe_text import counted, signed_pair
from judge_eval.views.cut_sentences import cut_differently, evidence_words, not_said, same_text_words
from judge_eval.views.note_sentences import notes_of_runs


def headlines(c: Comparison) -> list[str]:
    """Say what is to be said first, a sentence a candidate, each under its name if there are several."""
    names = [run.name for run in c.runs]
    several = len(names) > 2
    sentences = [
        f"{names[cuts.candidate]}: " * several + not_said(cuts)
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
    return sentences + [wording_sentence(each, names) for each in lost]


def without_opening(c: Comparison) -> list[Note]:
    """Return why candidates have no opening sentence: the warnings that no trace has a value in both runs."""
    opened = {opening.candidate for opening in c.openings}
    return [note for note in c.warnings if note.kind == "no value" and note.candidate not in opened]


def opening_sentence(c: Comparison, opening: Opening, who: str, *, several: bool = False) -> str:
    """Say whether a candidate is better or worse; `who` is its name, said in each sentence if there are several."""
    cuts = c.cuts_of(opening.candidate)
    begin = f"{cut_differently(cuts)}: " if cuts is not None and cuts.differ else ""
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
        end = "" if words is None else same_text_words(words, c.paired[opening.candidate - 1])
        return f"no difference: {d.metric} is the same on {'all ' if d.n > 1 else ''}{seen}{end}"
    size = f"{d.metric} {signed_pair(d.difference, d.interval)}" + ("" if words is None else evidence_words(words, d))
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
        traces = "1 trace" if moved.not_judged == 1 else f"{moved.not_judged:,} traces"
        notes.append(f"{traces} not judged by claims in one run")
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


def wording_sentence(split: WordingSplit, names: Sequence[str]) -> str:
    """Say what a split means; `names` are those of the runs, the baseline's first."""
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
