"""Chunks that look like ids, in the datasets of other tools: refused, and judged where asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Evaluator, mlflow_scorer
from judge_eval.errors import DataError
from judge_eval.integrations import deepeval_metric, ragas_metric
from judge_eval.integrations.lynxius import ContextChunk, ContextPrecision, LynxiusClient
from judge_eval.llm.options import Options
from tests.support.chat_server import ChatServer

pytestmark = pytest.mark.filterwarnings("ignore")
FILES = ["docs/setup.md", "docs/faq.md"]


def ragas(evaluator: Evaluator, **settings: Any) -> None:
    """Score a row of ragas."""
    ragas_metric(evaluator, **settings).score(user_input="q?", reference="r", retrieved_contexts=FILES)


def deepeval(evaluator: Evaluator, **settings: Any) -> None:
    """Measure a case of DeepEval."""
    from deepeval.test_case import LLMTestCase

    case = LLMTestCase(input="q?", expected_output="r", retrieval_context=FILES)
    deepeval_metric(evaluator, **settings).measure(case)


def mlflow(evaluator: Evaluator, **settings: Any) -> None:
    """Score a row of MLflow."""
    scorer = mlflow_scorer(evaluator, **settings)
    scorer(inputs={"question": "q?"}, outputs={"documents": FILES}, expectations={"expected_response": "r"})


def precision() -> ContextPrecision:
    """Make an evaluation in the hosted evaluator's form."""
    made = ContextPrecision(label="ids", href="https://host/1", tags=[])
    made.add_trace(query="q?", reference="r", context=[ContextChunk(document=f, relevance=0.5) for f in FILES])
    return made


def lynxius(evaluator: Evaluator, **settings: Any) -> None:
    """Evaluate as the hosted evaluator's client does, here."""
    LynxiusClient(evaluator=evaluator, out="runs", **settings).evaluate(precision())


def served(evaluator: Evaluator, **settings: Any) -> None:
    """Evaluate as the hosted evaluator's client does, on a server."""
    from judge_eval.server.server_settings import ServerSettings
    from tests.support.serving import serving

    with serving(ServerSettings(Path("runs")), evaluator) as url:
        LynxiusClient(base_url=url, **settings).evaluate(precision())


def foreign(use: Callable[..., None]) -> Any:
    """Mark what needs a package of another environment."""
    return pytest.param(use, marks=pytest.mark.foreign)


@pytest.mark.slow
@pytest.mark.parametrize("use", [*map(foreign, (ragas, deepeval, mlflow)), lynxius, served])
def test_ids_are_refused_and_judged_where_it_is_said(use: Callable[..., None]) -> None:
    """No adapter pays for file names, and each judges them with `yes_ids=True`, which the error names."""
    if use in (ragas, deepeval) and find_spec(use.__name__) is None:
        pytest.skip(f"{use.__name__} is not installed")
    if use is mlflow and find_spec("mlflow") is None:
        pytest.skip("MLflow is in the environment of all extras")
    with ChatServer() as server:
        options = Options(base_url=server.url)
        with Evaluator("openai/m", cache=False, options=options) as evaluator:
            with pytest.raises(DataError, match="yes_ids"):
                use(evaluator)
            assert server.counts["calls"] == 0
            use(evaluator, yes_ids=True)
            assert server.counts["paid"] == len(FILES)
