"""What people read of agreement: a judge with labels, judges with each other, rankings of systems."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from judge_eval.runs.folder.validation import FloorComparison
from judge_eval.safe_text import counted, number
from judge_eval.stats.figure import Figure
from judge_eval.study.agree import Agreement, Reliability
from judge_eval.study.agree_claims import ClaimAgreement
from judge_eval.study.people import PeopleAgreement
from judge_eval.study.systems import Rankings
from judge_eval.views.blocks import Cell, Sentence, TableBlock, TableColumns, View, columns_of, make_section, make_table
from judge_eval.views.note_sentences import IN_WORDS, note_lines, ties_sentence
from judge_eval.views.slices import slice_sections
from judge_eval.views.tones import Tone

_NAMES: Final = {
    "kappa": "Cohen's kappa",
    "kappa_linear": "kappa, linear weights",
    "kappa_quadratic": "kappa, quadratic weights",
    "ac1": "Gwet's AC1",
    "bias": "bias (judge − human)",
}
FEW: Final = 10
"""With fewer traces the sentences say nothing of a judge."""
_DEGREES: Final = ((0.2, "slightly"), (0.4, "fairly"), (0.6, "moderately"), (0.8, "substantially"))
_FIRST: Final = ("kappa", "accuracy", "precision", "recall", "specificity", "bias")
_FIRST_GRADED: Final = ("kappa", "precision", "recall", "kappa_quadratic", "accuracy", "bias")
_MEANINGS: Final[Mapping[str, str]] = {
    "kappa": "agreement beyond chance: 0 is chance, 1 is full agreement",
    "kappa_quadratic": "the same for all grades; large differences weigh more",
    "accuracy": "share of chunks with the same grade",
    "precision": "share of the judge's relevant chunks that the labels call relevant",
    "recall": "share of the labels' relevant chunks that the judge finds",
    "specificity": "share of the labels' irrelevant chunks that the judge calls irrelevant",
    "bias": "mean grade of the judge minus that of the labels: above 0 it is too lenient",
}
_MEANINGS_OF_JUDGES: Final[Mapping[str, str]] = {
    "precision": "share of the first's relevant chunks that the other calls relevant",
    "recall": "share of the other's relevant chunks that the first finds",
    "specificity": "share of the other's irrelevant chunks that the first calls irrelevant",
    "bias": "mean grade of the first minus that of the other",
}
_MEANINGS_OF_PROBABILITIES: Final[Mapping[str, str]] = {
    "ece": "expected calibration error: mean gap between stated probability and observed share, by bins",
    "brier": "mean squared difference of probability and label: 0 is best, a constant 0.5 scores 0.25",
    "log_loss": "mean negative log-likelihood of the labels: 0 is best, a constant 0.5 scores 0.69",
    "bias": "mean probability minus the share that is relevant: above 0 it is overconfident",
}


def figure_name(name: str) -> str:
    """Spell the name of a figure of agreement: `kappa_ge2` is `Cohen's kappa at grade ≥ 2`."""
    stem, _, grade = name.partition("_ge")
    return _NAMES.get(stem, stem) + (f" at grade ≥ {grade}" if grade else "")


def agreement_sentences(result: Agreement) -> dict[str, str]:
    """Say how far the judge can be trusted, what that rests on, and how reliable its probabilities are."""
    kappa, another = result.figures[f"kappa_ge{result.relevant}"], result.another
    units = result.traces if kappa.traces is None else kappa.traces
    trust = trust_sentence(result.figures, result.relevant, units, another=another)
    ranked = None if result.auc is None else result.auc.interval
    if no_better(kappa, 0.0) and result.auc is not None and ranked is not None and ranked[0] > 0.5:
        ranks = f"its probabilities rank relevant chunks higher (AUC {estimated(result.auc)})"
        trust = f"{trust.removesuffix('.')}; {ranks}, so find a threshold with `calibrate`."
    floor = {} if result.floor is None else {"floor_sentence": floor_sentence(result.floor)}
    if floor and _below_floor(result) and not no_better(kappa, 0.0):
        trust, floor = f"{floor['floor_sentence']} {trust}", {}
    unlabelled = 0 if another else result.unlabelled
    sides = {"failed": result.failed, "unlabelled": unlabelled}
    evidence = evidence_sentence(kappa, result.n, result.traces, result.labels, **sides, another=another)
    certainty = certainty_sentence(result.reliability, another=another)
    return {"trust": trust, **floor, "evidence": evidence, "certainty": certainty}


def _below_floor(result: Agreement) -> bool:
    return result.floor is not None and no_better(result.floor.difference, 0.0)


def agreement_data(result: Agreement) -> dict[str, Any]:
    """Return the agreement with its sentences, as values that JSON can hold."""
    return {**result.model_dump(mode="json", context=IN_WORDS), **agreement_sentences(result)}


def agreement_view(result: Agreement, *, whole: bool = False) -> View:
    """Build what people read of a judge's agreement with labels."""
    # `whole` adds every figure, the table of grades and the traces that differ most.
    first = None if whole else first_figures(list(result.figures), result.relevant, another=result.another)
    sentences, notes = agreement_sentences(result), list(_notes(result))
    tone = "bad" if _below_floor(result) else _figure_tone(result.figures[f"kappa_ge{result.relevant}"])
    beside = [sentences["floor_sentence"]] if "floor_sentence" in sentences else []
    figures = _figures_table(result.figures, first)
    certainty = [sentences["certainty"], *_reliability(result.reliability, whole)]
    sections = [
        make_section("runs", f"{result.judge} against {result.labels}"),
        make_section("trust", Sentence(sentences["trust"], tone), *beside, sentences["evidence"], figures),
    ]
    if result.people:
        people = [*map(people_sentence, result.people)]
        if (alpha := result.people_alpha) is not None:
            on = counted(alpha.n, "chunk")
            people.append(f"all people together: Krippendorff's alpha (ordinal) {alpha.text} on {on}")
        sections.append(make_section("people", *people))
    slices = slice_sections(result.slices)
    if not whole:
        return View("agreement", (*sections, make_section("certainty", *certainty, *notes), *slices))
    sections += [make_section("certainty", *certainty), make_section("grades", _confusion(result), *notes)]
    if result.worst:
        head = "The traces with the largest differences (`show RUN TRACE` shows one):"
        sections.append(make_section("worst", head, _worst(result)))
    return View("agreement", (*sections, *slices))


def raters_view(who: str, figures: Mapping[str, Figure]) -> View:
    """Build what people read of how far several raters, called `who`, agree."""
    alpha = figures["alpha_ordinal"]
    evidence = f"The evidence: {alpha.n:,} chunks of {alpha.traces or 0:,} traces."
    sentence = Sentence(_raters_sentence(figures, f"the {who}"), _figure_tone(alpha))
    return View("raters", (make_section("trust", sentence, evidence, _figures_table(figures)),))


def rankings_view(rankings: Rankings) -> View:
    """Build what people read of how judge and labels rank systems."""
    of = f"{len(rankings.systems)} systems on {rankings.traces} labelled traces"
    first = [ranking_sentence(rankings.judge, rankings.human), f"The evidence: {rankings.metric} of {of}."]
    if rankings.ties:
        first.append(f"{ties_sentence(rankings.ties)}; traces with such a chunk do not count")
    ranked = sorted(zip(rankings.systems, rankings.human, rankings.judge, strict=True), key=lambda row: -row[1])
    systems = make_table("systems", ["system", *columns_of("number", "by labels", "by the judge")], ranked)
    no_interval = (
        "note: these correlations are of the means over these traces: they are biased downwards by chance, more if the "
        "systems are close; more traces raise them; there is no interval, because no tested method is valid"
    )
    trust = make_section("trust", *first, _figures_table(rankings.figures))
    return View("rankings", (trust, make_section("systems", systems, no_interval)))


def no_better(figure: Figure, than: float) -> bool:
    """Tell whether an interval of 10 traces or more shows a figure not to be above a value."""
    return figure.interval is not None and (figure.traces or 0) >= FEW and figure.interval[0] <= than


def floor_sentence(comparison: FloorComparison) -> str:
    """Say in one sentence whether a judge is better than a floor."""
    judge, floor, difference = comparison.judge, comparison.floor, comparison.difference
    if judge.value is None or floor.value is None or difference.value is None:
        return f"Nothing can be said of the floor {comparison.model}: the labels are all of one kind."
    figures = f"its AUC {judge.value:.2f} minus that of {comparison.model}, {floor.value:.2f}, is"
    if difference.interval is None or (difference.traces or 0) < FEW:
        few = counted(difference.traces or 0, "trace")
        return (
            "It is not known yet whether the judge is better than the floor: "
            f"{figures} {difference.value:.2f}, based on only {few}."
        )
    verdict = (
        "no better than the floor as far as these labels show" if no_better(difference, 0) else "better than the floor"
    )
    return f"The judge is {verdict}: {figures} {estimated(difference)}."


def estimated(figure: Figure) -> str:
    """Spell a figure with its interval, two decimals each."""
    if figure.interval is None:
        return f"{figure.value:.2f}"
    low, high = figure.interval
    return f"{figure.value:.2f} (95% interval {low:.2f} to {high:.2f})"


def _figures_table(figures: Mapping[str, Figure], meanings: Mapping[str, str] | None = None) -> TableBlock:
    """List figures; with their meanings, and those alone that have one, if meanings are given."""
    columns: TableColumns = ["figure", ("value", "number"), ("95% interval", "interval")]
    more: TableColumns = columns_of("count", "n", "traces") if meanings is None else ["meaning"]
    rows = []
    for name in figures if meanings is None else meanings:
        figure = figures[name]
        value = "undefined" if figure.value is None else figure.value
        rest = (figure.n, figure.traces or None) if meanings is None else (meanings[name],)
        rows.append((name, value, figure, *rest))
    return make_table("figures", [*columns, *more], rows)


def _figure_tone(figure: Figure) -> Tone:
    if figure.interval is None:
        return "doubtful"
    low = figure.interval[0]
    return "good" if low > 0.4 else "bad" if low <= 0 else "doubtful"  # agreement is at least moderate above 0.4


def people_sentence(pair: PeopleAgreement) -> str:
    """Say how well two people agree."""
    both = f"{counted(pair.n, 'chunk')} that both labelled; they differ on {pair.differ:,}"
    return f"{' and '.join(pair.people)}: kappa {pair.kappa.text} on {both}"


def _notes(result: Agreement) -> Iterator[Sentence | str]:
    yield from note_lines(result.notes)
    if result.floor is not None and result.floor.without:
        yield f"note: the floor says nothing of {counted(result.floor.without, 'labelled chunk')}"
    if result.failed:
        yield Sentence(f"left out: {counted(result.failed, 'labelled chunk')} without a verdict", "doubtful")
    if result.elsewhere:
        yield Sentence(f"{result.elsewhere} labels are for chunks that are not in this run", "doubtful")


def _reliability(reliability: Reliability | None, whole: bool) -> Iterator[TableBlock | str]:
    if reliability is None:
        return
    yield _figures_table(reliability.figures, None if whole else _MEANINGS_OF_PROBABILITIES)
    if without := reliability.without:
        yield f"note: {without} labelled chunks have a verdict without a probability and are left out here"
    if whole:
        numbers = columns_of("number", "mean", "relevant by labels")
        columns: TableColumns = ["probabilities", *numbers, ("95% interval", "interval"), ("n", "count")]
        rows = (
            (f"{b.low:.3f} to {b.high:.3f}", b.probability, b.rate, b.rate, b.rate.n, b.rate.traces)
            for b in reliability.bins
        )
        yield make_table("bins", [*columns, ("traces", "count")], rows)


def _confusion(result: Agreement) -> TableBlock:
    by_grade = zip(result.grades, result.confusion, strict=True)
    rows: list[tuple[Cell, ...]] = [(str(grade), *row) for grade, row in by_grade]
    return make_table("grades", ["judge \\ label", *columns_of("count", *map(str, result.grades))], rows)


def _worst(result: Agreement) -> TableBlock:
    rows = ((d.trace_id, f"{d.unequal} of {d.n}", d.distance, d.bias) for d in result.worst[:10])
    return make_table("worst", ["trace", "differ", ("distance", "number"), ("bias", "signed")], rows)


def first_figures(names: Sequence[str], relevant: int, *, another: bool = False) -> dict[str, str]:
    """Choose the six of the figures `names` that say most, each with its meaning."""
    binary = not any("_ge" in name and int(name.rpartition("_ge")[2]) > 1 for name in names)
    meanings = {**_MEANINGS, **_MEANINGS_OF_JUDGES} if another else _MEANINGS
    chosen = {}
    for name in _FIRST if binary else _FIRST_GRADED:
        at = f"{name}_ge{relevant}"
        whole = name in ("kappa_quadratic", "accuracy", "bias") or (binary and name == "kappa")
        chosen[name if whole or at not in names else at] = meanings[name]
    return {name: meaning for name, meaning in chosen.items() if name in names}


def trust_sentence(figures: Mapping[str, Figure], relevant: int, traces: int, *, another: bool = False) -> str:
    """Say in one sentence how far a judge can be trusted; see `first_figures` for the arguments."""
    kappa = figures.get(f"kappa_ge{relevant}") or figures["kappa"]
    who, whom = ("The two judges", "each other") if another else ("The judge", "people")
    if kappa.value is None:
        return (
            "It is not known how far to trust "
            f"{'them' if another else 'the judge'}: one side gives all chunks the same grade, so agreement "
            "cannot be distinguished from chance."
        )
    estimate = f"Cohen's kappa {estimated(kappa)}"
    if kappa.interval is None or traces < FEW:
        basis = f"{estimate} is based on only {counted(traces, 'trace')}"
        return f"It is not known yet how far to trust {'them' if another else 'the judge'}: {basis}."
    low, high = kappa.interval
    verb = "agree" if another else "agrees"
    if high <= 0:
        return f"{who} {verb} with {whom} less than by chance: {estimate}; check whether a scale is inverted."
    if low <= 0:
        if another:
            return f"There is no evidence yet that the two judges agree more than by chance: {estimate}."
        return f"The judge is no better than chance as far as these labels show: {estimate}."
    if another:
        limitation = "this does not show which of them is right"
        return f"The two judges agree {_degree(low)} on what is relevant, {estimate}; {limitation}."
    figures_of = [figures.get(f"{name}_ge{relevant}") for name in ("precision", "recall")]
    precision, recall = (None if f is None or f.value is None else f"{f.value:.0%}" for f in figures_of)
    shares = "it calls nothing relevant"
    if precision is not None:
        shares = f"{precision} of what it calls relevant is relevant"
    if recall is not None:
        shares += f", and it finds {recall} of the relevant chunks"
    return f"The judge agrees with people {_degree(low)} on what is relevant, {estimate}; {shares}."


def evidence_sentence(
    kappa: Figure, chunks: int, traces: int, source: str, *, failed: int = 0, unlabelled: int = 0, another: bool = False
) -> str:
    """Say in one sentence what the figures rest on, and what would make them firmer."""
    # `chunks` have both a verdict and a label, `failed` only a label, `unlabelled` only a verdict.
    what = f"{counted(chunks, 'chunk')} of {counted(traces, 'trace')}"
    evidence = f"The evidence: {what} " + ("that both judged" if another else f"with labels from {source}")
    if unlabelled:
        evidence += f", which represent the other {unlabelled:,} chunks only if they were drawn at random"
    if failed:
        evidence += f"; {counted(failed, 'chunk')} without a verdict {'is' if failed == 1 else 'are'} left out"
    if another:
        return evidence + "; only labels by people show which judge is right."
    if traces < FEW:
        return evidence + "; label 100 traces or more."
    if kappa.value is not None and kappa.interval is not None:
        low, high = kappa.interval
        if high - low > 0.2 or _degree(low) != _degree(kappa.value):
            # Without a disagreement the width falls with the number of traces, else with its square root.
            times = 2 if kappa.value == 1 else 4
            more = f"{times * traces:,} traces ({counted(times * chunks, 'label')})"
            return evidence + f"; about {more} would halve the interval."
    return evidence + "."


def certainty_sentence(probabilities: Reliability | None, *, another: bool = False) -> str:
    """Say in one sentence how reliable a judge's probabilities are; None if no verdict has one."""
    if probabilities is None:
        return (
            "It is not known how reliable its probabilities are: no verdict has one (the judge returns them "
            "with the option `confidence`, if the server does)."
        )
    error, bias = probabilities.figures["ece"], probabilities.figures["bias"]
    if error.value is None or error.interval is None or probabilities.traces < FEW:
        basis = f"there are only {counted(probabilities.traces, 'trace')}"
        return f"It is not known yet how reliable its probabilities are: {basis}."
    whose = "the other judge's verdicts" if another else "the labels"
    low, high = error.interval
    gap = (
        f"Its probabilities differ from {whose} by {error.value:.2f} on average (expected calibration error, "
        f"95% interval {low:.2f} to {high:.2f})"
    )
    if low <= 0:
        return f"{gap}, which may be due to chance."
    if bias.interval is None or bias.interval[0] <= 0 <= bias.interval[1]:
        return f"{gap}."
    return f"{gap}; they are too {'high' if bias.interval[0] > 0 else 'low'}."


def _raters_sentence(figures: Mapping[str, Figure], who: str) -> str:
    alpha = figures["alpha_ordinal"]
    if alpha.value is None:
        return f"It is not known how far {who} agree: all grades are the same."
    estimate = f"Krippendorff's alpha {estimated(alpha)}"
    if alpha.interval is None or alpha.interval[0] <= 0:
        return f"There is no evidence yet that {who} agree more than by chance: {estimate}."
    return f"{who[0].upper()}{who[1:]} agree {_degree(alpha.interval[0])}, {estimate}."


def ranking_sentence(judge: Sequence[float], human: Sequence[float]) -> str:
    """Say in one sentence how far a judge puts systems into the order of the labels, by the means of each."""
    pairs = list(combinations(range(len(judge)), 2))
    alike = sum((judge[i] - judge[j]) * (human[i] - human[j]) > 0 for i, j in pairs)
    tied = sum(human[i] == human[j] for i, j in pairs)
    rest = f", {tied} of them are equal by labels" if tied else ""
    of = f"{alike} of {counted(len(pairs), 'pair')} of systems"
    return f"The judge orders {of} as the labels do{rest}."


def _degree(low: float) -> str:
    """Say what the low end of an interval of kappa is called, by the words of Landis and Koch (1977)."""
    return next((f"at least {word}" for most, word in _DEGREES if low <= most), "almost perfectly")


_LEVELS = ("none", "partial", "full")
_OF_CELLS = {
    "kappa": "agreement beyond chance on three levels: none (or contradicts), partial, full",
    "kappa_quadratic": "the same; large differences weigh more",
    "kappa_ge1": "on any support",
    "kappa_ge2": "on full support",
    "accuracy": "share of cells with the same level",
    "precision_ge1": "share of the judge's supporting cells that people call supporting",
    "recall_ge1": "share of people's supporting cells that the judge finds",
}
_OF_TOGETHER = {
    "kappa": "agreement beyond chance on whether all chunks cover a claim together",
    "accuracy": "share of these claims with the same answer",
    "precision_ge1": "share of claims that the judge calls covered and people too",
    "recall_ge1": "share of claims that people call covered and the judge too",
}


def claim_agreement_view(result: ClaimAgreement) -> View:
    """Build what people read: figures of cells, the table of levels, together, and recall."""
    by_level = zip(_LEVELS, result.confusion, strict=True)
    rows: list[tuple[Cell, ...]] = [(f"judge: {name}", *row) for name, row in by_level]
    people = columns_of("count", *(f"people: {name}" for name in _LEVELS))
    evidence = f"The evidence: {counted(result.cells, 'cell')} of {counted(result.traces, 'trace')}."
    cells: list[Sentence | TableBlock | str] = [
        Sentence(evidence, _figure_tone(result.figures["kappa"])),
        _figures_table(result.figures, _OF_CELLS),
        make_table("levels", ["level", *people], rows),
    ]
    if result.failed:
        cells.append(Sentence(f"{counted(result.failed, 'labelled cell')} without a verdict: in no figure", "doubtful"))
    if result.elsewhere:
        cells.append(f"{result.elsewhere} labels are of traces, chunks or claims that the run does not hold")
    sections = [make_section("runs", f"{result.judge} against {result.labels}"), make_section("cells", *cells)]
    if result.together:
        claims = counted(result.together["kappa"].n, "claim")
        head = f"Together: {claims} of which both say whether all chunks cover it."
        sections.append(make_section("together", head, _figures_table(result.together, _OF_TOGETHER)))
    if (recall := result.recall) is not None:
        order = "undefined" if recall.spearman is None else number(recall.spearman)
        sentence = (
            f"Recall of claims over {recall.difference.n} traces: {number(recall.judge)} by the judge, "
            f"{number(recall.people)} by people; difference {recall.difference.text}; Spearman {order}."
        )
        sections.append(make_section("recall", sentence))
    return View("claim-agreement", tuple(sections))
