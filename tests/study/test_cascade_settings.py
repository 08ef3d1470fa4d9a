"""Every setting of a cascade is in its digest and its fit, or cannot change what a judge sees."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, Options
from judge_eval.cli.flags.judging import CascadeFlags, JudgingFlags
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError
from judge_eval.judge_file import JudgeSpec, ModelSpec, read_judge
from judge_eval.judges import Cascade, Guarantee
from judge_eval.judges.cascade import cascade_of
from judge_eval.runs.options import Selection

DIGEST, CHECKED, REFUSED = "in the digest", "compared with the fit", "refused of a cascade"
NAMES, DATA = "names a file or a judge that is read", "says which data: the fit is for data like these"
CALLS, LATER = "cannot change a verdict", "computed from verdicts"
FORM = "left out of requests as the server itself would have it; the manifest tells what"

SPEC = {
    "model": REFUSED, "prompt": DIGEST, "mode": DIGEST, "judge": REFUSED, "layout": DIGEST,
    "relevant": DIGEST, "evidence": DIGEST, "blank": DIGEST,
    "confidence": CALLS, "repeat": REFUSED, "vote": REFUSED,
    "quorum": REFUSED, "threshold": DIGEST, "explain_positives": DIGEST, "base_url": CHECKED,
    "key_env": CALLS, "params": CHECKED, "cheap": DIGEST, "strong": DIGEST, "member": REFUSED,
    "fitted": DIGEST, "unsupported": FORM, "file": NAMES,
}  # fmt: skip
"""Settings of a judge file."""
MODEL = {
    "model": CHECKED, "prompt": DIGEST, "mode": DIGEST, "base_url": CHECKED, "key_env": CALLS,
    "params": CHECKED, "unsupported": FORM,
}  # fmt: skip
"""Settings of one stage."""
FLAGS = {
    "model": CHECKED, "prompt": DIGEST, "mode": DIGEST, "member": REFUSED,
    "repeat": REFUSED, "vote": REFUSED, "evidence": DIGEST, "blank": DIGEST,
    "confidence": CALLS,
    "judge": NAMES, "cascade": CHECKED, "strong_model": CHECKED, "cascade_threshold": DIGEST,
}  # fmt: skip
"""Flags of judging."""
CALLING = {
    "base_url": CHECKED, "params": CHECKED, "members": CHECKED, "fleet": CALLS, "key_env": CALLS,
    "key_command": CALLS, "unsupported": FORM, "concurrency": CALLS,
    "timeout": CALLS, "max_reply": CALLS, "rpm": CALLS, "tpm": CALLS,
    "attempts": CALLS, "max_calls": CALLS, "max_tokens": CALLS, "max_cost": CALLS, "offline": CALLS,
    "record": CALLS, "replay": CALLS, "warm_prefix": CALLS, "otel": CALLS,
}  # fmt: skip
"""How models are called."""
READING = {
    "depth": DIGEST, "format": DATA, "map": DATA, "corpus": DATA, "list_sep": DATA, "records": DATA,
    "group_by": DATA, "origin": DATA, "relevant": LATER, "yes_ids": DATA, "keep_words": DATA,
}  # fmt: skip
SELECTING = {
    "limit": DATA, "seed": DATA, "shard": DATA, "on_invalid": DATA, "name": DATA, "reader": DATA,
    "claims": REFUSED,
}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (JudgeSpec.model_fields, SPEC),
        (ModelSpec.model_fields, MODEL),
        ([field.name for field in fields(JudgingFlags)], FLAGS),
        ([field.name for field in fields(Options)], CALLING),
        ([field.name for field in fields(ReadOptions)], READING),
        ([field.name for field in fields(Selection)], SELECTING),
    ],
)
def test_every_setting_has_its_place(names: Any, settings: dict[str, str]) -> None:
    """A new setting fails this test until somebody says whether it changes what a judge sees."""
    assert set(names) == set(settings)
    assert {field.name for field in fields(CascadeFlags)} <= set(FLAGS)


PLAIN: dict[str, Any] = {"threshold": 0.9}
OTHERS: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "relevance/binary"},
    "strong mode": {"mode": "listwise"},
    "cheap mode": {"cheap_mode": "listwise"},
    "cheap prompt": {"cheap_prompt": "relevance/decision"},
    "layout": {"layout": "input"},
    "relevant": {"relevant": 3, "prompt": "support/graded"},
    "evidence": {"evidence": "required", "explain_positives": True},
    "blank": {"blank": "irrelevant"},
    "threshold": {"threshold": 0.8},
    "explain_positives": {"explain_positives": True},
}


@pytest.mark.parametrize("setting", OTHERS)
def test_what_a_judge_sees_is_in_the_digest(setting: str) -> None:
    """Another value changes what the cascade says of itself, from which its run's digest is made."""
    plain = cascade_of("decisions/a", "openai/b", **PLAIN)
    if setting == "cheap mode":
        plain = cascade_of("openai/a", "openai/b", **PLAIN)
    cheap = "openai/a" if setting == "cheap mode" else "decisions/a"
    other = cascade_of(cheap, "openai/b", **{**PLAIN, **OTHERS[setting]})
    assert other.describe() != plain.describe()


@pytest.mark.parametrize(
    ("cheap_layout", "strong_mode", "reads"),
    [("question", "pointwise", None), ("question", "listwise", "trace"), ("input", "decision", "trace"),
     ("request", "decision", None)],
)  # fmt: skip
def test_a_strong_judge_of_several_chunks_reads_whole_traces(
    cheap_layout: Any, strong_mode: str, reads: str | None
) -> None:
    """Of a decision model the layout decides; what it reads is in the record."""
    strong = "decisions/b" if strong_mode == "decision" else "openai/b"
    cascade = cascade_of("decisions/a", strong, threshold=0.9, mode=strong_mode, layout=cheap_layout)
    assert cascade.describe()["strong"].get("reads") == reads


@pytest.mark.parametrize("mode", ["claims", "claims-list", "claims-decision"])
def test_claims_are_refused(mode: str) -> None:
    """A cascade does not judge by claims, neither in the fit nor in use."""
    strong = "decisions/b" if mode == "claims-decision" else "openai/b"
    with pytest.raises(ConfigError, match="does not judge by claims"):
        cascade_of("decisions/a", strong, threshold=0.9, mode=mode)


@pytest.mark.parametrize("line", ["repeat = 3", 'vote = "mean"', "quorum = 2"])
def test_a_judge_file_cannot_repeat_a_cascade(tmp_path: Path, line: str) -> None:
    """What would be left out without a word is refused."""
    file = tmp_path / "judge.toml"
    file.write_text(f'threshold = 0.9\n{line}\n[cheap]\nmodel = "decisions/a"\n[strong]\nmodel = "openai/b"\n')
    with pytest.raises(ConfigError, match=f"{line.partition(' ')[0]}: a cascade is of two judges asked once"):
        read_judge(file)


RESTS = Guarantee("ab" * 32, "strong", alpha=0.05, level=0.95, bound=0.04, traces=200, coverage=0.6)
TRACE = {"id": "t", "query": "q", "reference": "r", "chunks": ["one", "two", "three"]}


def test_the_depth_is_that_of_the_fit() -> None:
    """Other lists than those of the fit are refused, whole traces as well as shorter ones."""
    judge = cascade_of("decisions/a", "openai/b", threshold=0.9)
    for fitted, read in ((2, None), (2, 1), (None, 2)):
        guarded = replace(judge, guarantee=replace(RESTS, depth=fitted))
        with Evaluator({"cheap": "fake/overlap", "strong": "fake/overlap"}, judge=guarded) as evaluator:
            with pytest.raises(ConfigError, match="the cascade was fitted to"):
                evaluator.plan([TRACE], reader=ReadOptions(depth=read))
            evaluator.plan([TRACE], reader=ReadOptions(depth=fitted))
    assert replace(RESTS, depth=2).record()["depth"] == 2
    assert "depth" not in RESTS.record()


def test_positives_are_explained_as_in_the_fit() -> None:
    """A threshold that was fitted with positives escalated holds only so, and then for labels too."""
    judge = cascade_of("decisions/a", "openai/b", threshold=0.9)
    with pytest.raises(ConfigError, match="fitted with positives explained"):
        replace(judge, guarantee=replace(RESTS, explain_positives=True))
    explained = replace(RESTS, explain_positives=True, target="people")
    used = replace(judge, explain_positives=True, guarantee=explained)
    assert isinstance(used, Cascade)
    assert used.describe()["guarantee"]["explain_positives"] is True
    with pytest.raises(ConfigError, match="fitted to labels does not hold"):
        replace(judge, explain_positives=True, guarantee=replace(RESTS, target="people"))
