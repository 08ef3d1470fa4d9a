"""Where numbers come from: what made a run, and how two runs differ in it."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import version

from pydantic import JsonValue

from judge_eval.backends.base import Identity
from judge_eval.digest import short
from judge_eval.runs.records import Manifest


def backend_record(identity: Identity | None) -> dict[str, JsonValue]:
    """Write down who answers; a scripted backend has no identity."""
    if identity is None:
        return {"provider": "custom", "model": "", "base_url": "", "params": {}}
    return {
        "provider": identity.provider,
        "model": identity.model,
        "base_url": identity.base_url,
        "params": dict(identity.params),
    }


def environment() -> dict[str, JsonValue]:
    """Write down the versions of this package and of Python, and the git revision of the working folder."""
    found: dict[str, JsonValue] = {
        "judge_eval": version("judge-eval"),
        "python": platform.python_version(),
    }
    git = shutil.which("git")
    if git:
        try:
            told = subprocess.run(  # noqa: S603  a fixed command
                [git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return found
        if told.returncode == 0:
            found["git"] = told.stdout.strip()
    return found


def differences(old: Manifest, new: Manifest) -> str:
    """Name what makes two manifests those of different runs; empty where nothing does."""
    told = []
    if old.dataset.digest and new.dataset.digest and old.dataset.digest != new.dataset.digest:
        told.append(
            f"the data differ (digest {short(old.dataset.digest)}, {old.dataset.traces} traces there; "
            f"{short(new.dataset.digest)}, {new.dataset.traces} traces here)"
        )
    if str(old.dataset.shard) != str(new.dataset.shard):
        there, here = old.dataset.shard or "the whole", new.dataset.shard or "the whole"
        told.append(f"the shards differ ({there} there; {here} here)")
    told += _compare("judge", old.judge, new.judge)
    told += _compare("model", old.backend, new.backend)
    if old.metrics != new.metrics:
        there, here = ", ".join(old.metrics), ", ".join(new.metrics)
        told.append(f"the metrics differ ({there} there; {here} here): finish it as it is, then use `score`")
    return "; ".join(told)


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
