"""How the manifests of two runs differ, in words."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from judge_eval.digest import short
from judge_eval.runs.folder.describing import judged_by
from judge_eval.runs.folder.records import ClaimsOrigin, Manifest


def differences(old: Manifest, new: Manifest, *, metrics: bool = True) -> str:
    """Name what makes two manifests those of different runs; empty where nothing does.

    Args:
        old: The one that is there.
        new: The one it is held against.
        metrics: Whether other metrics make another run.
    """
    sentences = []
    claims = _claims(old.dataset.claims), _claims(new.dataset.claims)
    if old.dataset.digest != new.dataset.digest and claims[0] != claims[1]:
        sentences.append(f"the claims differ ({claims[0]} there; {claims[1]} here)")
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
    if {old.judge.get("mode"), new.judge.get("mode")} > {"cascade"}:
        return [f"the judges differ ({judged_by(old)} there; {judged_by(new)} here)"]
    return field_differences("judge", *judges) + field_differences("model", old.backend, new.backend)


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


def field_differences(
    what: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], *, under: str = ""
) -> list[str]:
    """Name each field in which two records of a judge or of a model differ, in sentences.

    Args:
        what: What the records are of.
        old: The one that is there.
        new: The one it is held against.
        under: What fields of a judge inside a judge are called by, with a dot at the end.
    """
    out: list[str] = []
    for key in sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        there, here = old.get(key), new.get(key)
        if isinstance(there, dict) and isinstance(here, dict) and "mode" in there:
            out += field_differences(what, there, here, under=f"{under}{key}.")
        else:
            out.append(f"the {what} differs in {under}{key} ({_brief(there)} there; {_brief(here)} here)")
    return out


def _brief(value: JsonValue | None) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{k}={_within(k, v)}" for k, v in value.items())
        return f"{{{inner}}}"
    return "none" if value is None else repr(value)


def _within(key: str, value: JsonValue) -> str:
    if key == "digest":
        return short(str(value))
    return _brief(value) if isinstance(value, dict) else str(value)


def _claims(origin: ClaimsOrigin | None) -> str:
    return "of no file" if origin is None else f"of {origin.name}, digest {short(origin.digest)}"
