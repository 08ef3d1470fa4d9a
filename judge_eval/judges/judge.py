"""What a judge is, a plan that yields rounds of requests and returns a judgment; judges from a prompt or a record."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, cast, get_args, runtime_checkable

from judge_eval.errors import ConfigError, JudgeEvalError, advise
from judge_eval.prompts import DecisionLayout
from judge_eval.registry import MODES, kind_named, kind_of_record, names, stated_of
from judge_eval.schema import BlankPolicy, Call, EvidencePolicy, Judgment, NoVerdict, Scale, Stage, Trace, Verdict
from judge_eval.settings import check_ranges
from judge_eval.spelling import option
from judge_eval.wire import Completion, Reply, Request

RequestRound: TypeAlias = Sequence[Request]
"""Requests that do not depend on each other; never empty."""

JudgingPlan: TypeAlias = Generator[RequestRound, Sequence[Reply], Judgment]
"""Yields a round, is sent the replies in the same order, returns the judgment."""


@runtime_checkable
class Judge(Protocol):
    """A plan for judging a trace, without I/O.

    These members are all that a judge needs. It may have more; the functions of this module ask for them, and
    answer for judges without them. A judge around another one is a `JudgeAround`, which forwards them all:

    - `by_claims: bool`: whether it fills `Verdict.supports` and `Judgment.claims`.
    - `chunks_alone: bool`: whether the verdict of a chunk does not depend on which others are asked about.
    - `check_trace(trace)`: raises `DataError` if it needs more of a trace than `needs` can say.
    - `imagined_split(request) -> Completion | None`: answers a request that splits a reference, to plan by.
    - `is_complete(trace, earlier) -> bool`: whether nothing is missing in an earlier judgment of a trace.
    - `resume(trace, earlier) -> JudgingPlan`: plans what is missing there, and returns the whole judgment.
    - `check_depth(depth)`: raises `ConfigError` if it does not judge as many chunks of a trace.
    - `stages() -> Sequence[JudgeStage]`: the judges that it asks one after the other.
    - `models_asked() -> Iterable[ModelUse]`: which models it asks, and how.
    - `as_begun(record) -> Judge`: the judge with the prompt versions of a record that `describe` made.
    - `with_blank(rule) -> Judge`: the judge that treats chunks without text so.

    Drive it by hand like this:

        plan = judge.plan(trace)
        requests = next(plan)
        requests = plan.send([answer(request) for request in requests])  # StopIteration.value is the judgment
    """

    @property
    def scale(self) -> Scale:
        """The grades it gives, with the threshold in force."""

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What a trace must bring besides its question."""

    def describe(self) -> dict[str, Any]:
        """Everything about it that could change a verdict, as plain JSON data, for a run's manifest."""

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = ...) -> JudgingPlan:
        """Plan the judging of one trace.

        Args:
            trace: What to judge.
            known: Verdicts by chunk id that are already there and not asked for again.
        """


class JudgeStage(NamedTuple):
    """One of the judges that a judge asks one after the other."""

    name: Stage
    judge: Judge
    route: str
    share: float | None = 1.0
    """Which share of the chunks is likely to reach it, 0 to 1; None if that is not known."""


class ModelUse(NamedTuple):
    """How a judge asks one model."""

    route: str
    """The key of the model where there are several, else empty."""
    mode: str
    """The name of the kind of judge that asks it."""
    confidence: bool = False
    """Whether its verdicts are of no use without a probability."""


def judges_by_claims(judge: Judge) -> bool:
    """Tell whether a judge's verdicts say which claims each chunk supports; False if it does not say."""
    return bool(getattr(judge, "by_claims", False))


def check_trace(judge: Judge, trace: Trace) -> None:
    """Raise `DataError` unless a trace has what a judge needs beside `Judge.needs`; it may need nothing."""
    getattr(judge, "check_trace", _accept)(trace)


def check_depth(judge: Judge, depth: int | None) -> None:
    """Raise `ConfigError` unless a judge judges the first `depth` chunks of a trace (None: all); most judge any."""
    getattr(judge, "check_depth", _accept)(depth)


def _accept(_: object) -> None:
    pass


def stages_asked(judge: Judge) -> Sequence[JudgeStage]:
    """Return the judges that a judge asks one after the other; empty if it does not say."""
    stages: Callable[[], Sequence[JudgeStage]] = getattr(judge, "stages", tuple)
    return stages()


def imagined_split(judge: Judge, request: Request) -> Completion | None:
    """Answer a request that splits a reference, to plan by; None if the judge imagines no split."""
    imagine: Callable[[Request], Completion | None] | None = getattr(judge, "imagined_split", None)
    return imagine and imagine(request)


def judges_chunks_alone(judge: Judge) -> bool:
    """Tell whether a verdict is the same whatever other chunks are asked about; False if it does not say."""
    return bool(getattr(judge, "chunks_alone", False))


def models_asked(judge: Judge, route: str = "") -> Iterator[ModelUse]:
    """Yield how a judge asks each model, if it says so; `route` is the model of requests that name none."""
    uses: Callable[[], Iterable[ModelUse]] = getattr(judge, "models_asked", tuple)
    for use in uses():
        yield use._replace(route=use.route or route)


def as_begun(judge: Judge, record: object) -> Judge:
    """Return a judge with the prompt versions of a record from `describe`, unless a version was asked for."""
    begun: Callable[[Mapping[str, Any]], Judge] | None = getattr(judge, "as_begun", None)
    return judge if begun is None or not isinstance(record, Mapping) else begun(record)


def with_blank(judge: Judge, rule: BlankPolicy | None) -> Judge:
    """Return a judge that treats chunks without text so; raises `ConfigError` if it cannot. None changes nothing."""
    if rule is None:
        return judge
    if rule not in (rules := get_args(BlankPolicy)):
        raise ConfigError(f"blank is {rule!r}; {advise(rule, rules)}")
    ruled: Callable[[BlankPolicy], Judge] | None = getattr(judge, "with_blank", None)
    if ruled is None:
        raise ConfigError("the judge already has a rule for chunks without text; leave `blank` out")
    return ruled(rule)


def is_complete(judge: Judge, trace: Trace, earlier: Judgment) -> bool:
    """Tell whether nothing is missing in an earlier judgment: by default, each text has a verdict."""
    complete: Callable[[Trace, Judgment], bool] | None = getattr(judge, "is_complete", None)
    return complete(trace, earlier) if complete is not None else not earlier.open


def asks_nobody(judge: Judge, trace: Trace) -> bool:
    """Tell whether nobody is asked about a trace: nothing answers its question, and the judge needs an answer."""
    return trace.answerable is False and bool(judge.needs or judges_by_claims(judge))


def _unasked(trace: Trace) -> JudgingPlan:
    yield from ()
    why = "nothing answers the question, so there is no answer to hold the chunk against"
    outcomes = tuple(NoVerdict(chunk_id=chunk.id, why="unanswerable", detail=why) for chunk in trace.chunks)
    return Judgment(trace_id=trace.id, outcomes=outcomes)


def plan_of(judge: Judge, trace: Trace, earlier: Judgment | None = None) -> JudgingPlan:
    """Plan what is missing in an earlier judgment of a trace (None: all); it returns the whole, with earlier calls."""
    if asks_nobody(judge, trace):
        return _unasked(trace)
    if earlier is None:
        return judge.plan(trace, {})
    resume: Callable[[Trace, Judgment], JudgingPlan] | None = getattr(judge, "resume", None)
    return resume(trace, earlier) if resume else resume_by_verdicts(judge.plan, trace, earlier)


def resume_by_verdicts(
    plan: Callable[[Trace, Mapping[str, Verdict]], JudgingPlan], trace: Trace, earlier: Judgment
) -> JudgingPlan:
    """Complete an earlier judgment by a plan that takes its verdicts and nothing else."""
    known = earlier.known
    split: list[Call] = []
    if earlier.claims is not None and trace.claims is None:  # the verdicts are given by these
        trace = trace.replace(claims=earlier.claims.claims)
        # Its call is about all chunks and stands before all others; it is kept also if no verdict was given.
        every = {chunk.id for chunk in trace.chunks}
        split = [call for call in earlier.calls[:1] if every == set(call.chunk_ids)]
    judgment = yield from plan(trace, known)
    answered = [call for call in earlier.calls if not known.keys().isdisjoint(call.chunk_ids)]
    votes = {}
    for name, column in judgment.votes.items():  # of a judge around a panel: earlier votes stay
        before = earlier.votes.get(name, ())
        same = len(before) == len(column)
        votes[name] = tuple(
            before[place] if same and vote is None and chunk.id in known else vote
            for place, (chunk, vote) in enumerate(zip(trace.chunks, column, strict=True))
        )
    calls = join_calls(trace, (*split, *answered), judgment.calls)
    return judgment.replace(calls=calls, votes=votes)


def join_calls(trace: Trace, earlier: Sequence[Call], later: Sequence[Call]) -> tuple[Call, ...]:
    """Join the calls of a trace's earlier judgment and of what followed, in the order of its chunks."""
    if not earlier:
        return tuple(later)
    ranks = {chunk.id: rank for rank, chunk in enumerate(trace.chunks)}
    joined = {(call.key, call.model): call for call in (*earlier, *later)}.values()
    # Of calls that begin at one chunk the one about most comes first: the last is that chunk's own.
    return tuple(sorted(joined, key=lambda call: (ranks[call.chunk_ids[0]], -len(call.chunk_ids))))


def route_request(request: Request, route: str) -> Request:
    """Return a request that goes to the model of a route; the same where there is no route."""
    if not route:
        return request
    origin = request.origin and route_request(request.origin, route)
    return replace(request, route=route, origin=origin)


def route_plan(plan: JudgingPlan, route: str) -> JudgingPlan:
    """Lead a plan on as it is, its requests sent to the model of a route."""
    replies: Sequence[Reply] | None = None
    while True:
        try:
            requests = next(plan) if replies is None else plan.send(replies)
        except StopIteration as stop:
            judgment: Judgment = stop.value
            return judgment
        replies = yield [route_request(request, route) for request in requests]


class JudgeAround:
    """A judge around another one; a subclass changes what it needs to, such as `describe` and `conclude`."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    @property
    def scale(self) -> Scale:
        """The judge's."""
        return self.judge.scale

    @property
    def needs(self) -> tuple[Literal["reference", "answer"], ...]:
        """What the judge needs of a trace."""
        return self.judge.needs

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself."""
        return self.judge.describe()

    def conclude(self, trace: Trace, judgment: Judgment) -> Judgment:  # noqa: ARG002
        """Return the judgment that follows from the judge's."""
        return judgment

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace, as the judge does."""
        return self.conclude(trace, (yield from self.judge.plan(trace, known)))

    @property
    def by_claims(self) -> bool:
        """Whether the judge's verdicts tell which claims each chunk supports."""
        return judges_by_claims(self.judge)

    @property
    def chunks_alone(self) -> bool:
        """Whether the judge judges each chunk without the others."""
        return judges_chunks_alone(self.judge)

    def check_trace(self, trace: Trace) -> None:
        """Check that a trace has what the judge needs. Raises `DataError` if it does not."""
        check_trace(self.judge, trace)

    def check_depth(self, depth: int | None) -> None:
        """Check that the judge judges so many chunks of a trace. Raises `ConfigError` if it does not."""
        check_depth(self.judge, depth)

    def stages(self) -> Sequence[JudgeStage]:
        """Return the judges that the judge asks one after the other."""
        return stages_asked(self.judge)

    def imagined_split(self, request: Request) -> Completion | None:
        """Answer a request that splits as the judge does, to plan by."""
        return imagined_split(self.judge, request)

    def models_asked(self) -> Iterator[ModelUse]:
        """Return the models that the judge asks."""
        return models_asked(self.judge)

    def as_begun(self, record: Mapping[str, Any]) -> Self:
        """Return the same around the judge with the versions of a record."""
        return self._around(as_begun(self.judge, self.inner_record(record)))

    def with_blank(self, rule: BlankPolicy) -> Self:
        """Return the same around the judge that treats chunks without text so."""
        return self._around(with_blank(self.judge, rule))

    def _around(self, inner: Judge) -> Self:
        if inner is self.judge:
            return self
        other = copy(self)
        other.judge = inner
        return other

    def inner_record(self, record: Mapping[str, Any]) -> object:
        """Return the part of a record that is the judge's: all of it, unless `describe` nests it."""
        return record

    def is_complete(self, trace: Trace, earlier: Judgment) -> bool:
        """Tell whether the judge misses nothing in an earlier judgment."""
        return is_complete(self.judge, trace, earlier)

    def resume(self, trace: Trace, earlier: Judgment) -> JudgingPlan:
        """Plan what is missing in an earlier judgment, as the judge does."""
        return self.conclude(trace, (yield from plan_of(self.judge, trace, earlier)))


class OnRoute(JudgeAround):
    """A judge whose requests all go to the model of one route."""

    def __init__(self, judge: Judge, route: str) -> None:
        super().__init__(judge)
        self.route = route

    def describe(self) -> dict[str, Any]:
        """What the judge says of itself, with the route."""
        return {**self.judge.describe(), "route": self.route}

    def plan(self, trace: Trace, known: Mapping[str, Verdict] = {}) -> JudgingPlan:
        """Plan the judging of one trace, as the judge does."""
        return route_plan(self.judge.plan(trace, known), self.route)

    def resume(self, trace: Trace, earlier: Judgment) -> JudgingPlan:
        """Plan what is missing in an earlier judgment, as the judge does."""
        return route_plan(plan_of(self.judge, trace, earlier), self.route)

    def models_asked(self) -> Iterator[ModelUse]:
        """Return the models that the judge asks, all of them on the route."""
        return (use._replace(route=self.route) for use in models_asked(self.judge))


Mode: TypeAlias = str
"""How a judge asks: the name of a kind that is made from a prompt, in `MODES` or of an installed package."""
DEFAULT_MODES = "pointwise", "decision"
"""The kind for models that write texts, and the one for those that do not."""
DEFAULT_PROMPT = "support/binary"
"""The prompt of those who name none."""


def mode_for(model: object, asked: Mode | None = None) -> Mode:
    """Return how a model is asked: as named, else (also for `claims`) by decisions if it writes no text."""
    decides = not stated_of(model).writes_text
    if asked is None:
        return DEFAULT_MODES[decides]
    return (decides and asked in MODES and kind_named(asked).for_decisions) or asked


def check_mode(model: object, mode: Mode) -> None:
    """Raise `ConfigError` if a model cannot be asked in a mode: chat model or decision model."""
    asks = kind_named(mode).asks
    if not isinstance(model, str) or asks is None:
        return
    if asks == "text" and not stated_of(model).writes_text:
        raise ConfigError(
            f"{model} answers questions and writes nothing, and the mode is {mode}; judge in decision mode "
            f"({option('mode', 'decision')}, with a prompt such as support/decision), or name a model that "
            "writes"
        )
    if asks == "questions" and not stated_of(model).answers_questions:
        raise ConfigError(
            f"{model} writes texts, and the mode is {mode}; name a decision model "
            f"({option('model', 'decisions/NAME')}), or judge in another mode ({option('mode', 'pointwise')})"
        )


def check_models(judge: Judge, models: object) -> None:
    """Check that chat models are asked for texts, and decision models questions."""
    for use in models_asked(judge):
        check_mode(models.get(use.route) if isinstance(models, Mapping) else models, use.mode)


def routes_to_tell(judge: Judge, models: object) -> list[str]:
    """Return the routes whose judge needs probabilities that a chat model gives only on request."""
    named = models if isinstance(models, Mapping) else {"": models}
    routes = {
        use.route: named.get(use.route)
        for use in models_asked(judge)
        if use.confidence and kind_named(use.mode).asks != "questions"
    }
    return [r for r, model in routes.items() if isinstance(model, str) and stated_of(model).takes_logprobs]


def make_judge(
    prompt: str | Path,
    mode: Mode,
    relevant: int | None = None,
    sample: int = 0,
    evidence: EvidencePolicy | None = None,
    layout: DecisionLayout = "question",
) -> Judge:
    """Make the judge for a prompt."""
    # In listwise mode `support/binary` means `listwise/support/binary`, in decision mode `support/decision`;
    # `support/graded` there means `support/decision-graded`. In the modes that judge by claims these two mean
    # the mode's own prompt, with verdicts on the scale that they name.
    if mode not in MODES and mode not in names("judges"):
        raise ConfigError(f"no mode {mode!r}; {advise(mode, (*MODES, *names('judges')))}")
    check_ranges({"relevant": relevant})
    options = {"relevant": relevant, "sample": sample, "evidence": evidence, "layout": layout}
    return cast(Judge, kind_named(mode).make(prompt, options))


def judge_of_record(record: Mapping[str, Any]) -> Judge:
    """Make a judge again from what `describe` returned, with the versions of prompts that it had."""
    kind = kind_of_record(record)
    if kind.from_record is None:
        raise JudgeEvalError("this judge's prompts are not ones that can be rendered again")
    return with_blank(cast(Judge, kind.from_record(record)), record.get("blank"))


def judge_in_words(record: Mapping[str, Any]) -> str | None:
    """Name the prompt of a judge, or say which judges it is made of; None if its record does not say."""
    prompt = record.get("prompt")
    if isinstance(prompt, Mapping):
        return f"{prompt.get('id', 'a custom prompt')}@{prompt.get('version', '?')}"
    words = kind_of_record(record).words
    return None if words is None else words(record)
