"""The backend for decision models: asks questions in a server's dialect, and checks each answer."""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import to_json

from judge_eval import wire
from judge_eval.errors import ConfigError, RequestTooLargeError, UnknownNameError, advise
from judge_eval.llm.http import client, failures
from judge_eval.llm.http.chat_format import model_of, plain_params, usage_of
from judge_eval.llm.http.secrets import Scrubber
from judge_eval.prompts.decision import json_text
from judge_eval.providers import Dialect, ProviderEntry, any_server, built_in, known_dialects, known_providers
from judge_eval.registry import Provider
from judge_eval.spelling import option

_DUST = 1e-6


class OddAnswerError(ValueError):
    """An answer is not what was requested; the message says how."""


def odd(what: str) -> wire.DecisionAnswer:
    """Make the answer to a question without a usable one."""
    return wire.DecisionAnswer((), "unparsable", what)


def probability(value: Any, what: str = "a probability") -> float:
    """Read a probability; raises `OddAnswerError` if it is invalid or missing."""
    if value is None:
        raise OddAnswerError(f"{what} is missing")
    if type(value) not in (int, float) or not 0 <= value <= 1:  # NaN is neither
        raise OddAnswerError(f"{what} must be between 0 and 1, got {glimpse(value)}")
    return float(value)


def graded(shares: Sequence[Any], score: Any, question: wire.DecisionQuestion) -> wire.DecisionAnswer:
    """Read the probabilities of all grades, from 0 on, and the server's mean grade `score`, if any."""
    if len(shares) != question.grades:
        raise OddAnswerError(f"probabilities of {len(shares)} grades, not of {question.grades}")
    read = [probability(share, f"the probability of grade {grade}") for grade, share in enumerate(shares)]
    if not wire.sums_up(read):
        raise OddAnswerError(f"the probabilities sum up to {sum(read):.4g}")
    if score is not None:
        mean = sum(grade * share for grade, share in enumerate(read))
        slack = wire.ROUNDED * (1 + sum(range(len(read)))) + _DUST
        # The range comes first: a huge integer cannot be subtracted from a float.
        if type(score) not in (int, float) or not (0 <= score <= len(read) and abs(score - mean) <= slack):
            raise OddAnswerError(f"the score is {glimpse(score)}, and {mean:.4g} follows from the probabilities")
    return wire.DecisionAnswer(tuple(read))


def glimpse(value: Any) -> str:
    """Show a server's value in a few ASCII characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


JSON = dict[str, Any]
_MOST_JSON = 250_000  # bytes of compact JSON in one part; OpenAI takes 256 KiB


def written_in(dialect: Dialect, asked: wire.Questionnaire) -> JSON:
    """Write the body that asks a questionnaire, but for the model's name."""
    text = f"{asked.rules}\n\n{json_text(asked.shared)}"
    questions: Any = [(question.name, _question(dialect, question)) for question in asked.questions]
    if dialect.questions == "map":
        questions = dict(questions)
    else:
        questions = [{"type": each["type"], dialect.id: name, **each} for name, each in questions]
    if dialect.input == "state":
        return {"state": {"rules": asked.rules, **asked.shared}, "questions": questions}
    shared: Any = text
    if dialect.input == "parts":
        shared = [_text_part(asked.rules), _data_part(asked.shared)]
    if dialect.input != "text":
        shared = [{"role": "user", "content": shared}]
    return {"input": shared, "questions": questions}


def _question(dialect: Dialect, question: wire.DecisionQuestion) -> JSON:
    text: Any = question.text
    if question.data:
        text = f"{question.text}\n{json_text(question.data)}"
        if dialect.input == "parts":
            text = [_text_part(question.text), _data_part(question.data)]
    asked: JSON = {"type": dialect.scale if question.levels else dialect.statement, dialect.text: text}
    if question.levels:
        asked[dialect.levels] = [
            {"label": level.label, "description": level.description}
            if dialect.levels_as == "objects"
            else f"{level.label}: {level.description}"
            for level in question.levels
        ]
    return asked


def _text_part(text: str) -> JSON:
    return {"type": "input_text", "text": text}


def _data_part(data: Mapping[str, Any]) -> JSON:
    # The first test, which does not write the JSON, nearly always suffices.
    if _most_bytes(data) > _MOST_JSON and len(json_text(data).encode("utf-8", "surrogatepass")) > _MOST_JSON:
        return _text_part(json_text(data))
    return {"type": "input_json", "data": data}


def _most_bytes(data: Mapping[str, Any]) -> int:
    """Return an upper bound of the bytes of data as JSON: six a character, and six more a pair."""
    size = 6 * len(data)
    for name, value in data.items():
        size += 6 * len(name) + (6 * len(value) if isinstance(value, str) else _most_bytes(value) + 2)
    return size


def read_in(dialect: Dialect, answers: Any, questions: Sequence[wire.DecisionQuestion]) -> list[wire.DecisionAnswer]:
    """Read the answers of a body, one a question, in their order."""
    in_list, problem = dialect.answers == "list", ""
    if not isinstance(answers, list if in_list else dict):
        problem = f"the answers are not {'a list' if in_list else 'an object'}"
    elif len(answers) > len(questions) or (in_list and len(answers) < len(questions)):
        problem = f"{len(answers)} answers to {len(questions)} questions"
    if problem:
        return [odd(problem)] * len(questions)
    read = []
    for place, question in enumerate(questions):
        answer = answers[place] if in_list else answers.get(question.name)
        try:
            read.append(_answer(dialect, answer, question))
        except OddAnswerError as error:
            read.append(odd(str(error)))
    return read


def _answer(dialect: Dialect, answer: Any, question: wire.DecisionQuestion) -> wire.DecisionAnswer:
    in_list = dialect.answers == "list"
    if answer is None and not in_list:
        raise OddAnswerError("there is no answer to it")
    answer = answer if isinstance(answer, dict) else {}
    if in_list and answer.get("name") != question.name:
        raise OddAnswerError(f"there is no answer under the name {question.name!r} in its place")
    kind, wanted = answer.get("type"), dialect.scale if question.levels else dialect.statement
    if kind == "refusal" and in_list:
        return wire.DecisionAnswer((), "refused", "the decision model declined this question")
    if kind != wanted:
        raise OddAnswerError(f"an answer of another type than {wanted}")
    if question.levels:
        shares = _rows if dialect.shares == "rows" else _by_grade
        return graded(shares(answer.get("probabilities"), question), answer.get("score"), question)
    where, *sides = dialect.probability
    if not sides:
        yes = probability(answer.get(where))
        return wire.DecisionAnswer((round(1 - yes, 12), yes))
    both = answer.get(where)
    if not isinstance(both, dict) or both.keys() != set(sides):
        raise OddAnswerError(f"there is no probability of {sides[1]} and of {sides[0]}")
    return graded([both[side] for side in sides], None, question)


def _rows(shares: Any, question: wire.DecisionQuestion) -> list[Any]:
    if not isinstance(shares, list):
        raise OddAnswerError("there are no probabilities")
    rows = [share if isinstance(share, dict) else {} for share in shares]
    names = [(row.get("value"), row.get("label")) for row in rows]
    if names != [(grade, level.label) for grade, level in enumerate(question.levels)]:
        raise OddAnswerError("the levels are not those that were asked for, in their order")
    return [row.get("probability") for row in rows]


def _by_grade(shares: Any, question: wire.DecisionQuestion) -> list[Any]:
    wanted = [str(grade) for grade in range(question.grades)]
    if not isinstance(shares, dict) or shares.keys() != set(wanted):
        raise OddAnswerError(f"there are no probabilities of the grades 0 to {question.grades - 1}")
    return [shares[grade] for grade in wanted]


_OURS = frozenset({"model", "input", "state", "questions", "stream"})
_MANY = re.compile(
    r"(too many|at most|maximum|max|no more than|exceed\w*|up to|limit)\b.{0,60}\bquestions?\b"
    r"|\bquestions?\b.{0,60}(too many|at most|maximum|no more than|exceed|up to|limit)",
    re.IGNORECASE | re.DOTALL,
)


class Decisions(client.HttpBackend):
    """A server that answers questions with probabilities.

    One call is one HTTP request, without retries; halves of one with `RequestTooLargeError` may pass.
    `params` are the `dialect`, which says how this server is asked (at a provider's own address the
    provider's, unless given), and further fields of the request. A model `NAME@PROVIDER` is at that provider.
    How the server is called is as for a `TextServer`; what is `unsupported` is never part of these requests.
    """

    splits_requests = True
    """Whether a request that is too large may be split."""

    def __init__(self, model: str, *, params: Mapping[str, Any] = MappingProxyType({}), **calling: Any) -> None:
        fields = dict(params)
        named = fields.pop("dialect", None)
        self._params = plain_params(fields, ours=_OURS)
        name, mark, provider = model.rpartition("@")
        if mark and provider in known_providers():
            model, calling["provider"] = name, provider
        elif name and provider.isalnum() and get_close_matches(provider, known_providers(), 1, 0.75):
            raise UnknownNameError("provider", provider, known_providers())
        entry = client.entry_of(calling.get("provider", ""))
        address = client.address_of(calling.get("base_url"), entry, model)
        self.dialect: Dialect = _dialect(named, address, entry)
        """How the server is asked."""
        super().__init__(self.dialect.path, model, **calling, key_header=self.dialect.key_header)
        shown = {"dialect": self.dialect.name, **self._params}
        self.identity = client.identified("decisions", model, self.place, shown, self.variant)

    def facts(self) -> list[tuple[str, str]]:
        """Tell what is sent where, for people."""
        more = ("dialect", f"{self.dialect.name}, at most {self.dialect.most} questions a request")
        return [*super().facts(), more]

    def body(self, asked: wire.Questionnaire) -> bytes:
        """Write the JSON body that asks a questionnaire; lone surrogates are replaced."""
        fields = {"model": self.identity.model, **self._params, **written_in(self.dialect, asked)}
        try:
            return to_json(fields)  # in a quarter of the time that json.dumps takes
        except ValueError:
            return failures.whole(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))).encode()

    async def complete(self, request: wire.Request) -> wire.Completion:
        """Answer one request."""
        asked = request.questionnaire
        if asked is None:
            raise ConfigError(
                f"decisions/{self.identity.model} answers questions and writes nothing; judge in decision "
                f"mode ({option('mode', 'decision')}), or name a model that writes"
            )
        if len(asked.questions) > self.dialect.most:
            most = f"the dialect {self.dialect.name} takes {self.dialect.most}"
            raise RequestTooLargeError(f"{len(asked.questions)} questions, and {most}")
        received = await self.post(self.body(asked))
        if received.status == 504 and not received.content.lstrip().startswith(b"{"):
            # The gateway gave up, and would do so again.
            message = f"HTTP 504 from {self.place}: its gateway would not wait for the answer"
            raise RequestTooLargeError(message, why="unreachable")
        try:
            return self._completion(received, partial(self._read, asked, received.headers))
        except failures.Declined as declined:
            if _MANY.search(declined.objection.message):
                raise RequestTooLargeError(declined.error.detail) from None
            raise declined.error from None

    def _read(
        self, asked: wire.Questionnaire, headers: Mapping[str, str], body: Mapping[str, Any], scrub: Scrubber
    ) -> wire.Completion:
        inner = body.get(self.dialect.envelope) if self.dialect.envelope else None
        body = {**body, **inner} if isinstance(inner, dict) else body
        of_request = failures.in_parentheses(failures.request_id(headers, scrub))
        answers = [
            each._replace(detail=failures.beginning(each.detail + of_request, scrub)) if each.why else each
            for each in read_in(self.dialect, body.get("answers"), asked.questions)
        ]
        return wire.Completion(
            "",
            usage=usage_of(body.get("usage"), *self.dialect.tokens),
            model=model_of(body, scrub),
            answers=tuple(answers),
        )


def _dialect(named: Any, address: client.Address, entry: ProviderEntry) -> Dialect:
    """Return the dialect that is named, else that of the provider whose server it is."""
    dialects = known_dialects()
    if named is None:
        host, named = urlsplit(address.url).hostname, entry.decisions
        if entry.any_server:
            named = next((each.decisions for each in built_in().values() if host in each.hosts), "")
        if address.loopback and entry.any_server:
            named = ""
        if not named:
            raise ConfigError(
                f"which dialect {address.public} speaks cannot be guessed; name it: -p dialect=NAME "
                f"({', '.join(dialects)})"
            )
    if not isinstance(named, str) or named not in dialects:
        raise ConfigError(f"no dialect {named!r}; {advise(str(named), list(dialects))}")
    return dialects[named]


WIRE = "decisions"
create = Provider(
    Decisions,
    writes_text=False,
    takes_logprobs=False,
    hosts=any_server().hosts,
    server_of=lambda model: model.rpartition("@")[2],
)
"""Makes the `decisions` backend."""
