"""A run in a line: what was judged, and what failed."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from judge_eval.digest import short
from judge_eval.runs.folder.records import Manifest, Tally


def describe(m: Manifest) -> str:
    """Say in one line what was judged, by whom and how."""
    return f"{m.dataset.name}: {m.tally.traces} traces, {judged_by(m)}"


def judged_by(m: Manifest) -> str:
    """Say who judged and how, or where the verdicts were imported from."""
    if m.imported:
        source = imported_from(m)
        file, sha256 = source.get("file"), short(str(source.get("sha256")))
        return f"verdicts imported from {file} (sha256 {sha256})"
    return f"judged by {models_of(m)} with {_judge_in_words(m.judge)}"


def models_of(m: Manifest) -> str:
    """Name the model that judged, or the models of a panel or cascade."""
    model = str(m.backend.get("model"))
    return model if m.backend.get("provider") == "panel" else f"{m.backend.get('provider')}/{model}"


def prompt_of(m: Manifest) -> str | None:
    """Name the prompt, or say which panel or cascade judged; None where that is not known."""
    known = any(name in m.judge for name in ("prompt", "members", "threshold"))
    return _judge_in_words(m.judge) if known else None


def _judge_in_words(judge: Mapping[str, JsonValue]) -> str:
    prompt, members = judge.get("prompt"), judge.get("members")
    cheap, strong = judge.get("cheap"), judge.get("strong")
    if isinstance(prompt, dict):
        return f"{prompt.get('id', 'a prompt of its own')}@{prompt.get('version', '?')}"
    if isinstance(members, list):
        return f"a panel of {len(members)} ({judge.get('vote')})"
    if isinstance(cheap, dict) and isinstance(strong, dict):
        threshold = judge.get("threshold")
        where = f"below {threshold:.2f}" if isinstance(threshold, float) else "for every chunk"
        positives = " and for relevant ones" if judge.get("explain_positives") else ""
        first, then = _judge_in_words(cheap), _judge_in_words(strong)
        return f"a cascade ({first} first, {then} {where}{positives})"
    return "a judge of its own"


def cascaded(m: Manifest) -> list[str]:
    """Say how much each judge of a cascade decided, and what its threshold rests on; else nothing."""
    if m.judge.get("mode") != "cascade":
        return []
    cheap, strong = m.tally.stages.get("cheap", 0), m.tally.stages.get("strong", 0)
    failed = m.tally.failed_verdicts
    asked = cheap + strong + failed
    said = []
    if asked:
        without = f", {failed} of these without a verdict" if failed else ""
        share = (strong + failed) / asked
        said.append(
            f"cascade: {cheap} verdicts by the cheap judge, {strong + failed} of {asked} chunks "
            f"({share:.1%}) escalated{without}"
        )
    rests = m.judge.get("guarantee")
    fitted, scored = _relevant_from(m.judge.get("strong")), _relevant_from(m.judge)
    if isinstance(rests, dict) and fitted is not None and fitted != scored:
        said.append(
            f"the threshold was fitted to what is relevant from grade {fitted}; scored as relevant from "
            f"{scored}, nothing bounds how often the cheap judge errs"
        )
    elif isinstance(rests, dict):
        whose = "the strong judge's" if rests.get("target") == "strong" else "people's"
        one, of = (" (one of each cluster)", " of a random cluster") if rests.get("cluster") else ("", "")
        said.append(
            f"on data like the {rests.get('traces')} traces it was fitted on{one}, the answer for a random "
            f"chunk of a random trace{of} is other than {whose} in at most {_percent(rests.get('bound'))} "
            f"({_percent(rests.get('level'))} sure; cascade file {short(str(rests.get('digest')))})"
        )
    elif m.judge.get("threshold") is None:
        said.append("everything is escalated: no threshold is known to keep the risk within its limit")
    else:
        said.append("the threshold was named, not fitted: nothing bounds how often the cheap judge errs")
    return said


def _relevant_from(judge: JsonValue | Mapping[str, JsonValue]) -> JsonValue:
    scale = judge.get("scale") if isinstance(judge, Mapping) else None
    return scale.get("relevant") if isinstance(scale, dict) else None


def _percent(share: JsonValue) -> str:
    return f"{100 * share:.4g}%" if isinstance(share, int | float) else "?"


def imported_from(m: Manifest) -> Mapping[str, JsonValue]:
    """Return what a manifest says of the file its verdicts were imported from; nothing of other runs."""
    source = m.judge.get("imported") if m.imported else None
    return source if isinstance(source, dict) else {}


def remarks(m: Manifest) -> list[str]:
    """Say what a reader of the numbers should know of the data: repeats, verdicts of no chunk, no claims."""
    said = []
    unmatched = imported_from(m).get("unmatched")
    if isinstance(unmatched, int) and unmatched > 0:
        are = "1 verdict of the file is" if unmatched == 1 else f"{unmatched} verdicts of the file are"
        said.append(f"{are} of chunks that the data do not hold; nothing was made of them")
    if isinstance(applied := m.judge.get("calibration"), dict):
        what = [f"relevant from {applied['threshold']}"] if "threshold" in applied else []
        what += ["probabilities"] if "method" in applied else []
        labels = f"{applied.get('traces')} labelled traces of run {applied.get('run')}"
        said.append(f"calibrated: {' and '.join(what)} by {labels}")
    if m.tally.repeated:
        read = "1 chunk reads" if m.tally.repeated == 1 else f"{m.tally.repeated} chunks read"
        said.append(
            f"{read} like an earlier one of the same trace, and every rank counts; AP(dedup=text) and "
            "P(dedup=text) count a text once"
        )
    return said + without_claims({name: a.n_undefined for name, a in m.aggregates.items()}, "the mean")


def without_claims(undefined: Mapping[str, int], what: str) -> list[str]:
    """Say how many traces have nothing to measure, and so no part in something; metrics alike as one.

    Args:
        undefined: By metric how many traces.
        what: In what they have no part.
    """
    said = []
    for count in sorted(set(undefined.values()) - {0}):
        names = ", ".join(name for name, traces in undefined.items() if traces == count)
        have = "1 trace has" if count == 1 else f"{count} traces have"
        said.append(f"{have} no claim that {names} could measure, and no part in {what}")
    return said


def unsupported(t: Tally) -> str:
    """Say how many relevant verdicts rest on no sound evidence; empty where none does, or nobody counted."""
    if not t.unsupported:
        return ""
    if t.unsupported == 1:
        return "1 relevant verdict rests on no quote found in its chunk; the means count it"
    return f"{t.unsupported} relevant verdicts rest on no quote found in their chunks; the means count them"


def doubts(t: Tally) -> list[str]:
    """Say what makes a run's means doubtful beside failed verdicts; empty where nothing does."""
    return [text for text in (unsupported(t), _beyond_total(t)) if text]


def _beyond_total(t: Tally) -> str:
    if not t.beyond_total:
        return ""
    names = ", ".join(t.beyond) + (", ..." if t.beyond_total > len(t.beyond) else "")
    traces = "1 trace has" if t.beyond_total == 1 else f"{t.beyond_total} traces have"
    return f"{traces} more relevant verdicts than relevant_total says ({names}); those found are counted"


def failures(t: Tally) -> str:
    """Say how many verdicts failed and why."""
    whys = ", ".join(f"{why} {count}" for why, count in t.failures.items())
    verdicts = f"{t.failed_verdicts} verdict{'s' if t.failed_verdicts != 1 else ''}"
    traces = f"{t.failed_traces} trace{'s' if t.failed_traces != 1 else ''}"
    return f"{verdicts} failed in {traces} ({whys}); the means leave these traces out"
