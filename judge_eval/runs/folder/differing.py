"""How the manifests of two runs differ, in words."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from judge_eval.digest import short
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.records import Manifest


def differences(old: Manifest, new: Manifest, *, metrics: bool = True) -> str:
    """Name what makes two manifests those of different runs; empty where nothing does.

    Args:
        old: The one that is there.
        new: The one it is held against.
        metrics: Whether other metrics make another run.
    """
    sentences = []
    if old.dataset.digest and new.dataset.digest and old.dataset.digest != new.dataset.digest:
        sentences.append(
            f"the data differ (digest {short(old.dataset.digest)}, {old.dataset.traces} traces there; "
            f"{short(new.dataset.digest)}, {new.dataset.traces} traces here)"
        )
    if str(old.dataset.shard) != str(new.dataset.shard):
        there, here = old.dataset.shard or "the whole", new.dataset.shard or "the whole"
        sentences.append(f"the shards differ ({there} there; {here} here)")
    sentences += judge_differences(old, new)
    if metrics and old.metrics != new.metrics:
        there, here = ", ".join(old.metrics), ", ".join(new.metrics)
        sentences.append(f"the metrics differ ({there} there; {here} here): use `score` once it has finished")
    return "; ".join(sentences)


def judge_differences(old: Manifest, new: Manifest) -> list[str]:
    """Name what differs in who judged and how, in sentences; empty where both judged alike."""
    if old.imported != new.imported:
        return [f"the judges differ ({judged_by(old)} there; {judged_by(new)} here)"]
    judges = as_told_now(old.judge), as_told_now(new.judge)
    return _compare("judge", *judges) + _compare("model", old.backend, new.backend)


def as_told_now(judge: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Complete what an older version told of a judge: verdicts without sound evidence were always flagged."""
    told = dict(judge)
    if told.get("mode") in ("pointwise", "listwise"):
        told.setdefault("evidence", "flag")
    if isinstance(pointwise := told.get("pointwise"), dict):
        told["pointwise"] = as_told_now(pointwise)
    if isinstance(members := told.get("members"), list):
        told["members"] = [as_told_now(one) if isinstance(one, dict) else one for one in members]
    return told


def _compare(what: str, old: dict[str, JsonValue], new: dict[str, JsonValue]) -> list[str]:
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [
        f"the {what} differs in {key} ({_brief(old.get(key))} there; {_brief(new.get(key))} here)"
        for key in keys
    ]


def _brief(value: JsonValue | None) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{k}={short(str(v)) if k == 'digest' else v}" for k, v in value.items())
        return f"{{{inner}}}"
    return "none" if value is None else repr(value)
