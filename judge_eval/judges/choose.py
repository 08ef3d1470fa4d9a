"""From a prompt and a way of asking to a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from judge_eval.judges.base import Judge
from judge_eval.judges.listwise import Listwise
from judge_eval.judges.panel import Panel
from judge_eval.judges.pointwise import Pointwise
from judge_eval.judges.votes import Vote
from judge_eval.prompts import PromptForm, form_of_version, prompt_versions
from judge_eval.ranges import check_ranges
from judge_eval.schema import EvidencePolicy


def make_judge(
    prompt: str | Path,
    mode: Literal["pointwise", "listwise"] = "pointwise",
    relevant: int | None = None,
    sample: int = 0,
    evidence: EvidencePolicy | None = None,
) -> Judge:
    """Make the judge for a prompt; in listwise mode `support/binary` means `listwise/support/binary`."""
    if mode == "pointwise":
        return Pointwise(prompt, relevant=relevant, sample=sample, evidence=evidence)
    if isinstance(prompt, str) and not prompt.startswith("listwise/"):
        prompt = f"listwise/{prompt}"
    return Listwise(prompt, relevant=relevant, sample=sample, evidence=evidence)


def repeated(
    prompt: str | Path,
    mode: Literal["pointwise", "listwise"] = "pointwise",
    relevant: int | None = None,
    repeat: int = 1,
    vote: Vote = "majority",
    evidence: EvidencePolicy | None = None,
) -> Judge:
    """Make the judge for a prompt, or a panel of samples of it where it is to be asked several times.

    Raises:
        ConfigError: `repeat` or `relevant` is out of its range.
    """
    check_ranges({"repeat": repeat, "relevant": relevant})
    if repeat == 1:
        return make_judge(prompt, mode, relevant, evidence=evidence)
    return Panel.of_samples(lambda k: make_judge(prompt, mode, relevant, k, evidence), repeat, vote=vote)


def as_begun(judge: Judge, record: Mapping[str, Any]) -> Judge:
    """Return a judge with the prompt versions that it began with, where no version was asked for.

    Args:
        judge: As it would begin now.
        record: What `describe` returned when the run began.

    Returns:
        The judge itself where its versions are the same or were asked for, and one of your own.
    """
    if isinstance(judge, Panel):
        before = record.get("members")
        told = {one.get("name"): one for one in before or () if isinstance(one, Mapping)}
        members = [replace(m, judge=as_begun(m.judge, told.get(m.name, {}))) for m in judge.members]
        return Panel(members, vote=judge.vote, quorum=judge.quorum)
    if type(judge) is Pointwise:
        form = _form_as_begun(judge.form, record)
        return judge if form is judge.form else judge.with_form(form)
    if type(judge) is Listwise:
        form = _form_as_begun(judge.form, record)
        one_by_one = _form_as_begun(judge.pointwise.form, _table(record, "pointwise"))
        same = form is judge.form and one_by_one is judge.pointwise.form
        return judge if same else judge.with_form(form, one_by_one)
    return judge


def _form_as_begun(form: PromptForm, record: Mapping[str, Any]) -> PromptForm:
    before, name = _table(record, "prompt"), form.prompt.id
    version = before.get("version")
    if form.pinned or before.get("id") != name or version == form.prompt.version:
        return form
    return form_of_version(name, version, pinned=False) if version in prompt_versions(name) else form


def _table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}
