"""The calls of a run as they were made, brought back without asking the judge again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from judge_eval.backends.base import Identity
from judge_eval.backends.nobody import Nobody
from judge_eval.backends.storing.cached import Cached
from judge_eval.backends.storing.store import Store
from judge_eval.errors import JudgeEvalError
from judge_eval.judges import Cascade, Claims, Decision, Judge, Listwise, Member, Panel, Pointwise
from judge_eval.judges.base import Inquiry
from judge_eval.judges.cascade import CHEAP, STRONG
from judge_eval.judges.choose import MODES
from judge_eval.judges.decision import MOST_QUESTIONS
from judge_eval.prompts import DecisionForm, DecisionLayout, PromptForm, load_form
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Call, EvidencePolicy
from judge_eval.wire import Completion, Request


@dataclass(frozen=True, slots=True)
class Recalled:
    """One request of a trace's inquiry as it was put, and its reply where that is at hand."""

    request: Request
    reply: Completion | None

    def answers(self, call: Call) -> bool:
        """Tell whether the reply is the one that a call took: its model, its end and its tokens."""
        reply = self.reply
        return reply is not None and (call.model, call.finish, call.input_tokens, call.output_tokens) == (
            reply.model,
            reply.finish,
            reply.usage.input_tokens,
            reply.usage.output_tokens,
        )


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
    _cached: dict[str, Cached] = field(init=False, default_factory=dict)
    """By route, whose answers are looked up."""

    def __post_init__(self) -> None:
        try:
            if self.manifest.imported:
                raise JudgeEvalError("the verdicts were imported: no judge was asked")
            self._judge = _judge_of(self.manifest.judge)
        except JudgeEvalError as error:
            self.problem = str(error)
        except (KeyError, TypeError, ValueError):
            self.problem = "the run does not say in full how it was judged"
        identities = _identities_of(self.manifest)
        if self.store is None:
            self.reply_problem = "no cache was at hand when this page was made"
        elif self.manifest.imported:
            self.reply_problem = "the verdicts were imported: no judge was asked"
        elif not identities:
            self.reply_problem = "this judge's replies are never stored"
        else:
            for route, identity in identities.items():
                nobody = Nobody(identity, "the cache", "a page asks no judge")
                self._cached[route] = Cached(nobody, self.store, offline=True)

    def calls(self, result: TraceResult) -> list[Recalled | None]:
        """Return what each call of a trace asked, in their order; None where that cannot be followed.

        The inquiry is driven with the replies the cache holds; a repair that was never stored under a key
        of its own cannot be followed, and what it asked is not shown. Two models may have been asked one
        thing: whose reply a call took is told by its model and its tokens, and not shown where they differ.
        """
        followed = self._followed(result)
        out: list[Recalled | None] = []
        for call in result.calls:
            same = followed.get(call.key, [])
            found = next((one for one in same if one.answers(call)), None)
            if found is None and len(same) > 1:
                found = Recalled(same[0].request, None)
            elif found is not None and len(same) > 1:
                same.remove(found)
            out.append(found or (same[0] if same else None))
        return out

    def _followed(self, result: TraceResult) -> dict[str, list[Recalled]]:
        """Drive a trace's inquiry as far as replies go, and return its requests by key in hex."""
        if self._judge is None:
            return {}
        recalled: dict[tuple[str, str], Recalled] = {}
        self._drive(self._judge.inquire(result.trace), recalled)
        if result.claims is not None and result.trace.claims is None:  # its split may not be at hand
            split = result.trace.model_copy(update={"claims": result.claims.claims})
            self._drive(self._judge.inquire(split), recalled)
        by_key: dict[str, list[Recalled]] = {}
        for (key, _), one in recalled.items():
            by_key.setdefault(key, []).append(one)
        return by_key

    def _drive(self, inquiry: Inquiry, recalled: dict[tuple[str, str], Recalled]) -> None:
        """Drive an inquiry as far as replies go, and note its requests."""
        try:
            wave = next(inquiry)
            while True:
                replies = self._look_up(list(wave))
                for request, reply in zip(wave, replies, strict=True):
                    digest = (request.origin or request).digest.hex()
                    recalled.setdefault((digest, request.route), Recalled(request, reply))
                if any(reply is None for reply in replies):
                    break
                wave = inquiry.send([reply for reply in replies if reply is not None])
        except StopIteration:
            pass
        except (JudgeEvalError, TypeError, ValueError):  # a run from elsewhere may say odd things
            pass

    def _look_up(self, wave: list[Request]) -> list[Completion | None]:
        replies: list[Completion | None] = [None] * len(wave)
        for route in {request.route for request in wave} & self._cached.keys():
            places = [place for place, request in enumerate(wave) if request.route == route]
            try:
                found = self._cached[route].peek([wave[place] for place in places])
            except JudgeEvalError as error:
                self._cached, self.reply_problem = {}, str(error)
                return replies
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply
        return replies


def _identities_of(manifest: Manifest) -> dict[str, Identity]:
    """Tell by route who answered; a judge whose replies are never stored is not among them."""
    members = manifest.backend.get("members")
    records = members if isinstance(members, dict) else {"": manifest.backend}
    found = {route: _identity_of(record) for route, record in records.items() if isinstance(record, Mapping)}
    return {route: identity for route, identity in found.items() if identity is not None}


def _identity_of(record: Mapping[str, Any]) -> Identity | None:
    params = record.get("params")
    if record.get("provider") in (None, "custom") or not isinstance(params, dict):
        return None
    pairs = tuple(sorted((name, str(value)) for name, value in params.items()))
    return Identity(
        str(record["provider"]), str(record.get("model", "")), str(record.get("base_url", "")), pairs
    )


def _judge_of(record: Mapping[str, Any]) -> Judge:
    """Make the run's judge again.

    Raises:
        JudgeEvalError: It cannot be made from what the manifest says, or its prompt has changed since.
    """
    how: dict[str, Any] = dict(record)
    prompt, mode = how.get("prompt"), how.get("mode")
    if mode == "cascade":
        cheap, strong = how[CHEAP], how[STRONG]
        return Cascade(
            _judge_of(cheap),
            _judge_of(strong),
            how["threshold"],
            how["explain_positives"],
            (str(cheap["route"]), str(strong["route"])),
        )
    if mode == "panel":
        members = [Member(str(m["name"]), _judge_of(m), str(m["route"])) for m in how["members"]]
        return Panel(members, vote=how["vote"], quorum=how["quorum"])
    if not isinstance(prompt, dict) or mode not in MODES:
        raise JudgeEvalError("this judge's prompts are not ones that can be rendered again")
    numbers = [how.get(name) for name in ("max_tokens", "sample", "window", "most")]
    sound = how.get("evidence") in (None, *get_args(EvidencePolicy))
    if not (sound and all(number is None or type(number) is int for number in numbers)):
        raise JudgeEvalError("the run does not say in full how it was judged")
    if mode.startswith("claims"):
        return _claims_of(prompt, how)
    form = _form_of(prompt, how.get("layout", "question"))
    relevant = int(how["scale"]["relevant"])
    if isinstance(form, DecisionForm):
        most = how.get("most", MOST_QUESTIONS)
        return Decision(form, relevant=relevant, most=most, sample=how.get("sample", 0))
    common: dict[str, Any] = {"max_tokens": how.get("max_tokens"), "sample": how.get("sample", 0)}
    common["evidence"] = how.get("evidence")
    if mode == "pointwise":
        return Pointwise(form, relevant=relevant, **common)
    return Listwise(form, relevant=relevant, window=how.get("window", 20), **common)


def _claims_of(prompt: dict[str, Any], how: dict[str, Any]) -> Judge:
    """Make a judge by claims again.

    Raises:
        JudgeEvalError: It is not the one that the run was judged by.
    """
    ref = f"{prompt.get('id')}@{prompt.get('version')}"
    scale, relevant = how["scale"]["name"], int(how["scale"]["relevant"])
    sample, evidence = how.get("sample", 0), how.get("evidence")
    judge = Claims(ref, scale=scale, relevant=relevant, sample=sample, evidence=evidence)
    told = judge.describe()
    if told != {name: how.get(name) for name in told}:
        raise JudgeEvalError(f"the prompt {ref}, or one that goes with it, is not the one this run used")
    return judge


def _form_of(prompt: dict[str, Any], layout: DecisionLayout) -> PromptForm | DecisionForm:
    ref = f"{prompt.get('id')}@{prompt.get('version')}"
    form = load_form(ref)
    if not isinstance(form, PromptForm | DecisionForm):
        raise JudgeEvalError(f"the prompt {ref} is not one of the mode this run names")
    if isinstance(form, DecisionForm):
        form = DecisionForm(form.prompt, layout)
    if form.digest.hex() != prompt.get("digest"):
        raise JudgeEvalError(f"the prompt {ref} is not the one this run used: its digest differs")
    return form
