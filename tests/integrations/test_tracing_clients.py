"""What is sent to Langfuse and LangSmith is what their own clients send."""

from __future__ import annotations

from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from judge_eval.export.langfuse import SERVICE as LANGFUSE
from judge_eval.export.langsmith import SERVICE as LANGSMITH
from judge_eval.export.push import push_scores
from tests.support.score_services import Langfuse, LangSmith, traced_run

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(find_spec("langfuse") is None, reason="langfuse is not installed"),
    pytest.mark.filterwarnings("ignore"),  # those of the clients
]


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its times read, of which there are several spellings."""
    times = ("timestamp", "start_time", "created_at", "modified_at")
    return {key: datetime.fromisoformat(value) if key in times else value for key, value in record.items()}


def test_langfuse_scores_are_those_of_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model of a request knows each of our fields, and its client sends the same for the same score."""
    from langfuse import Langfuse as Client
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    run = traced_run(tmp_path, 3)
    with Langfuse() as ours, Langfuse() as theirs:
        for name, value in ours.environment.items():
            monkeypatch.setenv(name, value)
        push_scores(run, LANGFUSE)
        client = Client(
            public_key="pk-lf-0123456789", secret_key="sk-lf-abcdef012345", base_url=theirs.url, flush_at=50
        )
        for record in ours.kept.values():
            model = parse_obj_as(CreateScoreRequest, record)
            assert not model.model_extra
            assert model.trace_id
            assert model.observation_id
            client.create_score(
                score_id=model.id,
                trace_id=model.trace_id,
                observation_id=model.observation_id,
                name=model.name,
                value=model.value,
                data_type=model.data_type.value,
                comment=model.comment,
                metadata=model.metadata,
                environment=model.environment,
                timestamp=model.timestamp,
            )
        client.flush()
        assert theirs.keys[0] == ours.keys[0]
        assert {key: timeless(each) for key, each in theirs.kept.items()} == {
            key: timeless(each) for key, each in ours.kept.items()
        }
        assert [type(content) for content in ours.requests] == [list]


def test_the_loopback_server_answers_as_langfuse(tmp_path: Path) -> None:
    """Langfuse's client reads the server's answers: all taken, some refused, the wrong key."""
    from langfuse.api import LangfuseAPI
    from langfuse.api.commons.errors.unauthorized_error import UnauthorizedError
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from langfuse.api.scores.types.create_score_batch_response import CreateScoreBatchResponse
    from langfuse.api.scores.types.create_score_batch_results import CreateScoreBatchResults
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    requests = [parse_obj_as(CreateScoreRequest, each) for each in LANGFUSE.scores(traced_run(tmp_path, 2))]
    with Langfuse() as server:
        names = {"username": "pk-lf-0123456789", "base_url": server.url}
        scores = LangfuseAPI(password="sk-lf-abcdef012345", **names).scores
        assert isinstance(scores.create(request=requests), CreateScoreBatchResponse)
        server.refuses = lambda record: "gone" if record["name"] == "RR@2" else None
        results = scores.create(request=requests)
        assert isinstance(results, CreateScoreBatchResults)
        assert (results.accepted, results.rejected) == (2, 2)
        with pytest.raises(UnauthorizedError):
            LangfuseAPI(password="wrong", **names).scores.create(request=requests)


def test_langsmith_feedback_is_that_of_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model of feedback takes ours, and its client sends the same for the same score, but for the time."""
    from langsmith import Client
    from langsmith.schemas import FeedbackCreate

    run = traced_run(tmp_path, 3)
    with LangSmith() as ours, LangSmith() as theirs:
        for name, value in ours.environment.items():
            monkeypatch.setenv(name, value)
        push_scores(run, LANGSMITH)
        client = Client(api_url=theirs.url, api_key=theirs.key)
        for record in ours.kept.values():
            model = FeedbackCreate.model_validate(record)
            assert set(record) <= set(FeedbackCreate.model_fields)
            client.create_feedback(
                model.run_id,
                model.key,
                score=model.score,
                trace_id=model.trace_id,
                session_id=model.session_id,
                start_time=model.start_time,
                comment=model.comment,
                feedback_id=model.id,
                feedback_source_type=model.feedback_source.type,
                source_info=model.feedback_source.metadata,
            )
        client.flush()
        assert theirs.keys[0] == ours.keys[0]
        assert theirs.kept.keys() == ours.kept.keys()
        for number, record in theirs.kept.items():
            sent = timeless(record) | timeless({key: ours.kept[number][key] for key in ("created_at", "modified_at")})
            assert sent.pop("extend_trace_retention") is True  # the service's default
            assert sent == timeless(ours.kept[number])
