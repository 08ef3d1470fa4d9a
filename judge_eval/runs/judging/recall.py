"""The calls of a run as they were made, brought back without asking the judge again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge_eval.errors import JudgeEvalError
from judge_eval.judges import Judge
from judge_eval.judges.judge import JudgingPlan, judge_of_record
from judge_eval.llm.backend import Identity, Unavailable
from judge_eval.llm.cache.cached import Cached
from judge_eval.llm.cache.store import Store
from judge_eval.runs.folder.describing import backends_by_route
from judge_eval.runs.folder.records import Manifest, TraceResult
from judge_eval.schema import Call
from judge_eval.wire import Completion, Request


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One request of a trace's plan, and its reply if the cache holds it."""

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


class Memory:
    """Renders a run's prompts again and looks its replies up in the cache, if there is one."""

    def __init__(self, manifest: Manifest, store: Store | None = None) -> None:
        self.store = store
        self.problem = self.reply_problem = ""
        """Why prompts cannot be rendered, and why replies cannot be looked up; empty if they can."""
        self._judge: Judge | None = None
        self.identities: dict[str, Identity] = {}
        """By route, who answered; a judge whose replies are never stored is not among them."""
        self._cached: dict[str, Cached] = {}
        imported = "the verdicts were imported: no judge was asked" if manifest.imported else ""
        try:
            if imported:
                raise JudgeEvalError(imported)
            self._judge = judge_of_record(manifest.judge)
        except JudgeEvalError as error:
            self.problem = str(error)
        except (KeyError, TypeError, ValueError):
            self.problem = "the run does not say in full how it was judged"
        for route, record in backends_by_route(manifest.backend).items():
            if (identity := _identity_of(record)) is not None:
                self.identities[route] = identity
        if store is None:
            self.reply_problem = "no cache was available when this page was made"
        elif imported:
            self.reply_problem = imported
        elif not self.identities:
            self.reply_problem = "this judge's replies are never stored"
        else:
            for route, identity in self.identities.items():
                backend = Unavailable(identity, "the cache", "a page asks no judge")
                self._cached[route] = Cached(backend, store, offline=True)

    def calls(self, result: TraceResult) -> list[ReplayedCall | None]:
        """Return what each call of a trace asked, in their order; None if that cannot be followed."""
        # The plan is driven with the replies the cache holds; a repair that was never stored under a key
        # of its own cannot be followed, and what it asked is not shown. Two models may have been asked one
        # thing: whose reply a call took is told by its model and its tokens, and not shown where they differ.
        followed = self._followed(result)
        out: list[ReplayedCall | None] = []
        for call in result.calls:
            same = followed.get(call.key, [])
            match = next((exchange for exchange in same if exchange.answers(call)), None)
            if match is None and len(same) > 1:
                match = ReplayedCall(same[0].request, None)
            elif match is not None and len(same) > 1:
                same.remove(match)
            out.append(match or (same[0] if same else None))
        return out

    def first_questions(self, result: TraceResult) -> list[tuple[Request, bool]]:
        """Return what a trace's plan asks first, and whether the cache holds the answer."""
        if self._judge is None:
            return []
        try:
            requests = list(next(self._judge.plan(result.trace)))
        except (StopIteration, JudgeEvalError, TypeError, ValueError):
            return []
        return [(request, reply is not None) for request, reply in zip(requests, self._look_up(requests), strict=True)]

    def _followed(self, result: TraceResult) -> dict[str, list[ReplayedCall]]:
        if self._judge is None:
            return {}
        recalled: dict[tuple[str, str], ReplayedCall] = {}
        self._drive(self._judge.plan(result.trace), recalled)
        if result.claims is not None and result.trace.claims is None:  # its split may not be at hand
            split = result.trace.model_copy(update={"claims": result.claims.claims})
            self._drive(self._judge.plan(split), recalled)
        by_key: dict[str, list[ReplayedCall]] = {}
        for (key, _), exchange in recalled.items():
            by_key.setdefault(key, []).append(exchange)
        return by_key

    def _drive(self, plan: JudgingPlan, recalled: dict[tuple[str, str], ReplayedCall]) -> None:
        try:
            requests = next(plan)
            while True:
                replies = self._look_up(list(requests))
                for request, reply in zip(requests, replies, strict=True):
                    digest = (request.origin or request).digest.hex()
                    recalled.setdefault((digest, request.route), ReplayedCall(request, reply))
                if any(reply is None for reply in replies):
                    break
                requests = plan.send([reply for reply in replies if reply is not None])
        except StopIteration:
            pass
        except (JudgeEvalError, TypeError, ValueError):  # a run from elsewhere may say odd things
            pass

    def _look_up(self, requests: list[Request]) -> list[Completion | None]:
        replies: list[Completion | None] = [None] * len(requests)
        for route in {request.route for request in requests} & self._cached.keys():
            places = [place for place, request in enumerate(requests) if request.route == route]
            try:
                cached = self._cached[route].peek([requests[place] for place in places])
            except JudgeEvalError as error:
                self._cached, self.reply_problem = {}, str(error)
                return replies
            for place, reply in zip(places, cached, strict=True):
                replies[place] = reply
        return replies


def _identity_of(record: Mapping[str, Any]) -> Identity | None:
    params = record.get("params")
    if record.get("provider") in (None, "custom") or not isinstance(params, dict):
        return None
    pairs = tuple(sorted((name, str(value)) for name, value in params.items()))
    provider, model, base_url, variant = (
        str(record.get(name, "")) for name in ("provider", "model", "base_url", "variant")
    )
    return Identity(provider, model, base_url, pairs, variant)
