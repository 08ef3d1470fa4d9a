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
    prompt = m.judge.get("prompt")
    members = m.judge.get("members")
    if isinstance(prompt, dict):
        ref = f"{prompt.get('id', 'a prompt of its own')}@{prompt.get('version', '?')}"
    elif isinstance(members, list):
        ref = f"a panel of {len(members)} ({m.judge.get('vote')})"
    else:
        ref = "a judge of its own"
    who = m.backend.get("model")
    if m.backend.get("provider") != "panel":
        who = f"{m.backend.get('provider')}/{who}"
    return f"judged by {who} with {ref}"


def imported_from(m: Manifest) -> Mapping[str, JsonValue]:
    """Return what a manifest says of the file its verdicts were imported from; nothing of other runs."""
    source = m.judge.get("imported") if m.imported else None
    return source if isinstance(source, dict) else {}


def remarks(m: Manifest) -> list[str]:
    """Say what a reader of the numbers should know of the data: texts that repeat, verdicts of no chunk."""
    said = []
    unmatched = imported_from(m).get("unmatched")
    if isinstance(unmatched, int) and unmatched > 0:
        are = "1 verdict of the file is" if unmatched == 1 else f"{unmatched} verdicts of the file are"
        said.append(f"{are} of chunks that the data do not hold; nothing was made of them")
    if m.tally.repeated:
        read = "1 chunk reads" if m.tally.repeated == 1 else f"{m.tally.repeated} chunks read"
        said.append(
            f"{read} like an earlier one of the same trace, and every rank counts; AP(dedup=text) and "
            "P(dedup=text) count a text once"
        )
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
