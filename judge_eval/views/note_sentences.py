"""What is said of a result beside its figures, by the kind of the note."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from pydantic import JsonValue

from judge_eval.compare.comparison import Comparison
from judge_eval.confidence import WITH_CONFIDENCE
from judge_eval.data.labels import DECIDE
from judge_eval.digest import short
from judge_eval.note import MOST_NAMED, Note, NoteKind
from judge_eval.registry import stages_of
from judge_eval.runs.folder.describing import difference_in_words
from judge_eval.runs.folder.records import Tally
from judge_eval.safe_text import counted
from judge_eval.schema import Stage
from judge_eval.stats.correction import Doubt
from judge_eval.stats.figure import named_fields
from judge_eval.study.refusals import REFUSALS


def note_sentence(note: Note | Doubt) -> str:
    """Say what a reader should know of a result."""
    if isinstance(note, Doubt):
        note = Note(**named_fields(note))
    sentence, names = _SENTENCES[note.kind], note.names or ("",)
    if not isinstance(sentence, str):
        return sentence(note)
    some, listed = _some(note.count, note.names), ", ".join(names)
    return sentence.format(
        count=_Count(note.count),
        other=note.other,
        least=note.least,
        value=note.value,
        names=listed,
        first=names[0],
        last=names[-1],
        some=some,
    )


def note_lines(notes: Iterable[Note]) -> list[str]:
    """Say what a reader should know of a result, a line a note."""
    return [f"note: {note_sentence(note)}" for note in notes]


def notes_of_runs(c: Comparison, notes: Iterable[Note]) -> tuple[str, ...]:
    """Say what a reader should know of a comparison; the same of several candidates once, after their names."""
    about: dict[str, list[str]] = {}
    for note in notes:
        whose = [] if note.candidate is None else [c.runs[note.candidate].name]
        about.setdefault(note_sentence(note), []).extend(whose)
    several = len(c.runs) > 2
    return tuple(f"{', '.join(names)}: {text}" if several and names else text for text, names in about.items())


def ties_sentence(count: int) -> str:
    """Say what becomes of chunks on which people are split."""
    return note_sentence(Note(kind="ties", count=count))


def cascaded(judge: Mapping[str, JsonValue], tally: Tally) -> list[str]:
    """Say how much each judge of a cascade decided, and what its threshold rests on; else nothing."""
    stages = stages_of(judge)
    if not stages:
        return []
    deciding = [*stages.values()][-1]
    cheap, strong = (tally.stages.get(cast(Stage, name), 0) for name in stages)
    failed = tally.open_verdicts
    asked = cheap + strong + failed
    sentences = []
    if asked:
        without = f", {failed} of these without a verdict" if failed else ""
        share = (strong + failed) / asked
        sentences.append(
            f"cascade: {counted(cheap, 'verdict')} by the cheap judge, {strong + failed} of "
            f"{counted(asked, 'chunk')} ({share:.1%}) escalated{without}"
        )
    rests = judge.get("guarantee")
    fitted, scored = _relevant_from(deciding), _relevant_from(judge)
    if "what_if" in judge:
        sentences.append(
            "it judged only what had no verdict: nothing bounds how often the verdicts of these lists are wrong"
        )
    elif isinstance(rests, dict) and fitted is not None and fitted != scored:
        sentences.append(
            f"the threshold was fitted to what is relevant from grade {fitted}; scored as relevant from "
            f"{scored}, nothing bounds how often the cheap judge errs"
        )
    elif isinstance(rests, dict):
        whose = "the strong judge's" if rests.get("target") == "strong" else "people's"
        if rests.get("target") == "strong" and deciding.get("reads") == "trace":
            whose += " (which reads whole traces)"
        each, of = (" (one of each cluster)", " of a random cluster") if rests.get("cluster") else ("", "")
        sentences.append(
            f"on data like the {rests.get('traces')} traces it was fitted on{each}, the answer for a random "
            f"chunk of a random trace{of} is other than {whose} in at most {_percent(rests.get('bound'))} "
            f"({_percent(rests.get('level'))} sure; cascade file {short(str(rests.get('digest')))})"
        )
    elif judge.get("threshold") is None:
        sentences.append("everything is escalated: no threshold is known to keep the risk within its limit")
    else:
        sentences.append("the threshold was named, not fitted: nothing bounds how often the cheap judge errs")
    return sentences


def _relevant_from(judge: JsonValue | Mapping[str, JsonValue]) -> JsonValue:
    scale = judge.get("scale") if isinstance(judge, Mapping) else None
    return scale.get("relevant") if isinstance(scale, dict) else None


def _percent(share: JsonValue) -> str:
    return f"{100 * share:.4g}%" if isinstance(share, int | float) else "?"


def _some(count: int, names: Sequence[str]) -> str:
    """Say how many traces there are, and name those that are given."""
    return f"{counted(count, 'trace')} ({', '.join(names)}{', ...' if count > len(names) else ''})"


class _Count(int):
    """A count that stands with its noun in a sentence: `{count:trace}`, `{count:trace has|traces have}`."""

    def __format__(self, nouns: str) -> str:
        return counted(int(self), *nouns.split("|")) if nouns else str(int(self))


def _another_judge(note: Note) -> str:
    assert note.differs is not None
    return "".join(f"{name}: " for name in note.names) + difference_in_words(note.differs)


def _cascade(note: Note) -> str:
    assert note.judge is not None
    assert note.tally is not None
    threshold = note.judge.get("threshold")
    level = f"threshold {threshold:.2f}" if isinstance(threshold, float) else "no threshold"
    return f"{note.names[0]}: {'; '.join([level, *cascaded(note.judge, note.tally)])}"


def _unanswerable(note: Note) -> str:
    flags = f"; the runs' flags differ for {note.other:,} of them" if note.other else ""
    are = counted(note.count, "unanswerable question is", "unanswerable questions are")
    return f"{are} not compared{flags}"


def _unpaired(note: Note) -> str:
    first = min(note.count, MOST_NAMED)
    sides = (note.count, note.names[:first], "baseline"), (note.other, note.names[first:], "candidate")
    alone = [f"{_some(count, names)} only in the {what}" for count, names, what in sides if count]
    return f"the dataset differs: {', '.join(alone)}"


_SENTENCES: Final[dict[NoteKind, str | Callable[[Note], str]]] = {
    "another judge": _another_judge,
    "cascade": _cascade,
    "failed verdicts": "{names} has {count:failed verdict}; intervals cover all values that they could make",
    "no value": "no trace has a value of {names} in both runs",
    "other chunks": "the retrieved chunks differ (dataset {first} there, {last} here)",
    "other chunks or claims": "the retrieved chunks, or the claims, differ (dataset {first} there, {last} here)",
    "other claims": "the claims differ in {some}: the judged claims are not the same there",
    "other questions": ("the dataset differs: {some} have a different question under the same id and are not compared"),
    "other retriever": (
        "{count:question} searched the same query and got other chunks: the retriever changed too, so the loss is not "
        "split by wording"
    ),
    "unanswerable": _unanswerable,
    "unfinished": "{first} is not finished ({last})",
    "unpaired": _unpaired,
    "not compared": "{count:trace has|traces have} no claim that {names} could measure, and no part in the comparison",
    "not in the mean": "{count:trace has|traces have} no claim that {names} could measure, and no part in the mean",
    "joined by text": "in {count:question} one id has different texts; there chunks are joined by text",
    "left out": "{count:question is|questions are} not in all runs and left out",
    "unsliced": "there are no slices by {names}: no trace states one, or all traces are alike",
    "judge made binary": "the judge's grades were converted to binary: relevant from {count}",
    "judgments below 0": "{count} judgments below 0 are not labels: in the pool, but not judged",
    "labels made binary": "the labels were converted to binary: relevant from {count}",
    "ties": f"{{count:chunk}} left out: as many people find them relevant as not; {DECIDE}",
    "binary judge": lambda _: (
        "the judge is binary, so its threshold cannot be changed; a graded prompt has several, and so have "
        f"probabilities ({WITH_CONFIDENCE})"
    ),
    "clusters": "traces of one cluster are not split; the counts of traces are counts of clusters",
    "by probability": "--probabilities maps the probabilities to relevance",
    "expected grades": "the map uses expected grades from the server's probabilities",
    "no gain": "there is no evidence yet that the map is better than the judge's own probabilities",
    "no probability": "{count} verdicts on labelled chunks have no probability and were left out",
    "not probable": "the cheap judge returned no probability for {count} of the drawn chunks; they are escalated",
    "unjudged": "the cheap judge gave no verdict on {count} of the drawn chunks; they are escalated",
    "unsupported": (
        "the strong judge gave no supported verdict on {count} of the drawn chunks; each counts as a difference"
    ),
    "whole traces": (
        "the strong judge reads whole traces, in the fit and in use: one escalated chunk costs a whole trace, and the "
        "bound is about its answers to whole traces"
    ),
    "empty traces": "{count} traces without chunks are counted; their value needs no label",
    "every look": "the intervals hold at every look: labelling may stop at any, for whatever reason",
    "failed traces": "{count} traces have failed verdicts; the judge's value of them is the expected one",
    "metrics of claims": "{count} metrics of claims are left out: labels grade chunks",
    "no expected value": "{names}: {count} traces without an expected value are left out",
    "partly labelled": (
        "{names}: {count} traces are only partly labelled and count as unlabelled; labels of single chunks are used "
        "for P, DCG, AP and RR"
    ),
    "in words": "{names}",
    "split labels": (
        "people are split on {count:chunk}, which count once as irrelevant and once as relevant: the value lies "
        f"halfway, and the interval holds both intervals; {DECIDE}"
    ),
    "unlabelled chunks": (
        "{count} of {other} chunks of the sample have no label: the labelled ones are taken for a random part of it"
    ),
    **REFUSALS,
    "no better than chance": "sensitivity + specificity is not above 1: the judge is no better than chance",
    "low youden": "sensitivity + specificity - 1 is only {value:.2g}: small errors in it move this a lot",
    "clipped": "the estimate was {value:.4g} before clipping: the labelled chunks may differ from the others",
    "few labels": (
        "only {count} labelled traces: below {least} the interval is a little too short where most values are near an "
        "end"
    ),
    "few labelled clusters": (
        "only {count} labelled traces in {other} clusters: below {least} the interval is a little too short where most "
        "values are near an end"
    ),
    "few labelled chunks": "chunks of only {count} traces are labelled: below {least} the interval may be short",
    "failed cases": "{count} cases have no verdict and are in no rate",
    "inverted": "random chunks are graded above gold ones: the prompt is inverted",
    "no conversation": "not probed, because no trace has a conversation: {names}",
    "no reference read": "not probed, because the judge does not read a reference: {names}",
    "token without probability": (
        "verdicts are single tokens; the server gives no log-probabilities, so the token is the verdict"
    ),
    "graded token": (
        "verdicts are single tokens: a chunk is relevant from grade {names}, which says little until labels set a "
        "threshold (`calibrate`)"
    ),
    "yes or no token": (
        "verdicts are single tokens: a chunk is relevant from P(true) = 0.5, which means nothing until labels set a "
        "threshold (`calibrate`); without log-probabilities the token is the verdict"
    ),
    "uncalibrated model": (
        "{first} counts a chunk as relevant from a {last} of 0.5, which nobody has calibrated; labels (`calibrate`) or "
        "a cascade (`cascade fit`) tell what its probabilities are worth"
    ),
    "not distinguished": "gold chunks are not graded above random ones: the judge does not distinguish them",
}
"""What is said of each kind, or what says it."""
IN_WORDS: Final = {"note": note_sentence}
"""The context in which a record becomes JSON with the sentences of its notes."""
