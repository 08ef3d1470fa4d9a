"""The calls of a run as they were made, brought back without asking the judge again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from judge_eval.backends.base import Identity
from judge_eval.backends.nobody import Nobody
from judge_eval.backends.storing.cached import Cached
from judge_eval.backends.storing.store import Store
from judge_eval.errors import JudgeEvalError
from judge_eval.judges import Judge, Listwise, Pointwise
from judge_eval.prompts import PromptForm, load_form
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.wire import Completion, Message, Request


@dataclass(frozen=True, slots=True)
class Recalled:
    """One request of a trace's inquiry as it was put, and its reply where that is at hand."""

    messages: tuple[Message, ...]
    reply: str | None


@dataclass(slots=True)
class Memory:
    """Renders a run's prompts again and looks its replies up in the cache.

    Args:
        manifest: Of the run.
        store: Where completions are kept; None where no cache is at hand.
    """

    manifest: Manifest
    store: Store | None = None
    problem: str = field(init=False, default="")
    """Why prompts cannot be rendered; empty where they can."""
    reply_problem: str = field(init=False, default="")
    """Why replies cannot be looked up; empty where they can."""
    _judge: Judge | None = field(init=False, default=None)
    _cached: Cached | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            self._judge = _judge_of(self.manifest)
        except JudgeEvalError as error:
            self.problem = str(error)
        except (KeyError, TypeError, ValueError):
            self.problem = "the run does not say in full how it was judged"
        identity = _identity_of(self.manifest)
        if self.store is None:
            self.reply_problem = "no cache was at hand when this page was made"
        elif self.manifest.imported:
            self.reply_problem = "the verdicts were imported: no judge was asked"
        elif identity is None:
            self.reply_problem = "this judge's replies are never stored"
        else:
            nobody = Nobody(identity, "the cache", "a page asks no judge")
            self._cached = Cached(nobody, self.store, offline=True)

    def calls(self, result: TraceResult) -> dict[str, Recalled]:
        """Return the requests of a trace's inquiry, as far as they can be followed, by key in hex.

        The inquiry is driven with the replies the cache holds; a repair that was never stored under a key
        of its own cannot be followed, and what it asked is not shown.
        """
        if self._judge is None:
            return {}
        recalled: dict[str, Recalled] = {}
        inquiry = self._judge.inquire(result.trace)
        try:
            wave = next(inquiry)
            while True:
                replies = self._look_up(list(wave))
                for request, reply in zip(wave, replies, strict=True):
                    key = (request.origin or request).digest.hex()
                    recalled.setdefault(key, Recalled(request.messages, reply.text if reply else None))
                if any(reply is None for reply in replies):
                    return recalled
                wave = inquiry.send([reply for reply in replies if reply is not None])
        except StopIteration:
            return recalled
        except (JudgeEvalError, TypeError, ValueError):  # a run from elsewhere may say odd things
            return recalled

    def _look_up(self, wave: list[Request]) -> list[Completion | None]:
        if self._cached is None:
            return [None] * len(wave)
        try:
            return self._cached.peek(wave)
        except JudgeEvalError as error:
            self._cached, self.reply_problem = None, str(error)
            return [None] * len(wave)


def _identity_of(manifest: Manifest) -> Identity | None:
    backend = manifest.backend
    params = backend.get("params")
    if backend.get("provider") in (None, "custom") or not isinstance(params, dict):
        return None
    pairs = tuple(sorted((name, str(value)) for name, value in params.items()))
    return Identity(
        str(backend["provider"]), str(backend.get("model", "")), str(backend.get("base_url", "")), pairs
    )


def _judge_of(manifest: Manifest) -> Judge:
    """Make the run's judge again.

    Raises:
        JudgeEvalError: It cannot be made from what the manifest says, or its prompt has changed since.
    """
    if manifest.imported:
        raise JudgeEvalError("the verdicts were imported: no judge was asked")
    how: dict[str, Any] = dict(manifest.judge)
    prompt, mode = how.get("prompt"), how.get("mode")
    if not isinstance(prompt, dict) or mode not in ("pointwise", "listwise"):
        raise JudgeEvalError("this judge's prompts are not ones that can be rendered again")
    numbers = [how.get(name) for name in ("max_tokens", "sample", "window")]
    if not all(number is None or type(number) is int for number in numbers):
        raise JudgeEvalError("the run does not say in full how it was judged")
    form = _form_of(prompt)
    relevant = int(how["scale"]["relevant"])
    common: dict[str, Any] = {"max_tokens": how.get("max_tokens"), "sample": how.get("sample", 0)}
    if mode == "pointwise":
        return Pointwise(form, relevant=relevant, **common)
    return Listwise(form, relevant=relevant, window=how.get("window", 20), **common)


def _form_of(prompt: dict[str, Any]) -> PromptForm:
    ref = f"{prompt.get('id')}@{prompt.get('version')}"
    form = load_form(ref)
    if form.digest.hex() != prompt.get("digest"):
        raise JudgeEvalError(f"the prompt {ref} is not the one this run used: its digest differs")
    return form
