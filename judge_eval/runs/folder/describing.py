"""Who judged a run, and how the manifests of two runs differ, in words."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from judge_eval.digest import digest_json, short
from judge_eval.judges.judge import judge_in_words
from judge_eval.record import Record
from judge_eval.registry import stages_of
from judge_eval.runs.folder.records import ClaimsOrigin, Manifest

KEPT_BESIDE: Final = ("what_if",)
"""What a judge's record says of verdicts that it did not give."""


def judged_by(m: Manifest) -> str:
    """Say who judged and how, or where the verdicts were imported from."""
    if m.imported:
        source = imported_from(m)
        if made := made_of(m):
            return f"the verdicts of {source.get('file')} put into new lists ({made.get('recipe')})"
        file, sha256 = source.get("file"), short(str(source.get("sha256")))
        return f"verdicts imported from {file} (sha256 {sha256})"
    judged = f"judged by {models_of(m)} with {_judge(m)}"
    if made := made_of(m):
        return f"{judged}; the other verdicts are of {made.get('of')}, put into new lists ({made.get('recipe')})"
    return judged


def made_of(m: Manifest) -> Mapping[str, JsonValue]:
    """Return of which runs a what-if made a run, and how; empty for another run."""
    made = (imported_from(m) if m.imported else m.judge).get("what_if")
    return made if isinstance(made, dict) else {}


def models_of(m: Manifest) -> str:
    """Name the model that judged, or the models of a panel or cascade."""
    models = (f"{model.get('provider')}/{model.get('model')}" for model in backends_by_route(m.backend).values())
    return ", ".join(model.removesuffix("/") for model in models)  # a backend of one's own may name no model


def backends_by_route(backend: Mapping[str, JsonValue]) -> dict[str, Mapping[str, JsonValue]]:
    """Return who answered, by route, from a manifest's `backend`; a single model has the route ""."""
    several = backend.get("members")
    records = several if isinstance(several, dict) else {"": dict(backend)}
    return {route: record for route, record in records.items() if isinstance(record, dict)}


def prompt_of(m: Manifest) -> str | None:
    """Name the prompt, or say which panel or cascade judged; None where that is not known."""
    return judge_in_words(m.judge)


def imported_from(m: Manifest) -> Mapping[str, JsonValue]:
    """Return what a manifest says of the file its verdicts were imported from; nothing of other runs."""
    source = m.judge.get("imported") if m.imported else None
    return source if isinstance(source, dict) else {}


def differences(old: Manifest, new: Manifest, *, metrics: bool = True) -> str:
    """Name what makes two manifests those of different runs (also other `metrics`); empty if nothing."""
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
    sentences += map(difference_in_words, judge_differences(old, new, served=False))
    if metrics and old.metrics != new.metrics:
        there, here = ", ".join(old.metrics), ", ".join(new.metrics)
        sentences.append(f"the metrics differ ({there} there; {here} here): use `score` once it has finished")
    return "; ".join(sentences)


class JudgeDifference(Record):
    """One thing in which two runs differ in who judged, or how."""

    what: str
    """`judge` or `model`, of which a field differs; `judges`: all of it; `served`: what servers called the model."""
    field: str = ""
    there: str
    here: str


def difference_in_words(d: JudgeDifference) -> str:
    """Name what differs in who judged, with what it is in both."""
    if d.what == "served":
        return f"servers called the model {d.there} there, {d.here} here"
    what = f"the {d.what} differs in {d.field}" if d.field else f"the {d.what} differ"
    return f"{what} ({d.there} there; {d.here} here)"


def judge_differences(old: Manifest, new: Manifest, *, served: bool = True) -> list[JudgeDifference]:
    """Name what differs in who judged and how; empty where both judged alike.

    With `served` also what servers called the models, which a name such as an alias does not tell.
    """
    old, new = as_judged(old), as_judged(new)
    imported = old.imported != new.imported or (old.imported and judged_by(old) != judged_by(new))
    if imported or bool(stages_of(old.judge)) is not bool(stages_of(new.judge)):
        return [JudgeDifference(what="judges", there=judged_by(old), here=judged_by(new))]
    differences = field_differences("judge", who_judged(old.judge), who_judged(new.judge))
    differences += field_differences("model", old.backend, new.backend)
    if served and not differences and (names := _served(old, new)):
        differences.append(JudgeDifference(what="served", there=names[0], here=names[1]))
    return differences


def _served(old: Manifest, new: Manifest) -> tuple[str, str] | None:
    """Return what servers called the models of two runs; None where that is alike or not known."""
    there, here = old.tally.served, new.tally.served
    models = {str(each.get("model")) for each in backends_by_route(old.backend).values()}
    # A stage that was never asked has no name: one changed if there are more names than models.
    differ = there and here and there != here and len({*there, *here}) > len(models)
    return (", ".join(there), ", ".join(here)) if differ else None


def digest_of_judge(m: Manifest) -> str:
    """Digest who judged and how: model, prompt, mode, scale, parameters and what servers called the model."""
    m = as_judged(m)
    imported = judged_by(m) if m.imported else None
    return digest_json([imported, who_judged(m.judge), m.backend, list(m.tally.served)])


def judges_in_words(old: Manifest, new: Manifest) -> str:
    """Say which judge took whose place, by what they differ in: the model, the prompt, else their settings."""
    old, new = as_judged(old), as_judged(new)
    models, prompts = (models_of(old), models_of(new)), (_judge(old), _judge(new))
    if old.imported or new.imported:
        prompts = "", ""
        models = models if models[0] != models[1] else (judged_by(old), judged_by(new))
    changed = [f"{before} to {after}" for before, after in (models, prompts) if before != after]
    if not changed and (names := _served(old, new)):
        return f"{names[0]} to {names[1]}"
    return ", ".join(changed) or f"{models[1]} with other settings"


def _judge(m: Manifest) -> str:
    return judge_in_words(m.judge) or "a custom judge"


def as_judged(m: Manifest) -> Manifest:
    """Return the manifest with who gave the verdicts that a run of new lists was made of."""
    source = imported_from(m)
    run = source.get("run") if "what_if" in source else None
    judge, backend = (run.get("judge"), run.get("backend")) if isinstance(run, dict) else (None, None)
    return m.replace(judge=judge, backend=backend) if isinstance(judge, dict) and isinstance(backend, dict) else m


def who_judged(judge: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the record of a judge without its notes on the data, which say nothing of who judged."""
    record = {name: value for name, value in judge.items() if name not in KEPT_BESIDE}
    if isinstance(source := record.get("imported"), dict):
        record["imported"] = {name: value for name, value in source.items() if name != "unmatched"}
    return record


def field_differences(
    what: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], *, under: str = ""
) -> list[JudgeDifference]:
    """Name each field in which two records differ; `under` precedes those of inner judges."""
    out: list[JudgeDifference] = []
    for key in sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        there, here = old.get(key), new.get(key)
        if isinstance(there, dict) and isinstance(here, dict) and "mode" in there:
            out += field_differences(what, there, here, under=f"{under}{key}.")
        else:
            out.append(JudgeDifference(what=what, field=f"{under}{key}", there=_brief(there), here=_brief(here)))
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
