"""What people hold in ragas, DeepEval and LlamaIndex is evaluated as it is."""

from __future__ import annotations

from typing import Any

import pytest

from judge_eval import Evaluator
from judge_eval.errors import DataError

pytestmark = pytest.mark.foreign

QUERY, REFERENCE, TEXTS = "When do you open?", "At nine.", ["We open at nine.", "Park here."]


def ragas_objects() -> list[tuple[str, Any, int]]:
    """Make what ragas holds samples in."""
    ragas = pytest.importorskip("ragas", reason="ragas is not installed")
    sample = ragas.SingleTurnSample(user_input=QUERY, reference=REFERENCE, retrieved_contexts=TEXTS, response="Nine.")
    dataset = ragas.EvaluationDataset(samples=[sample, sample])
    return [("sample", sample, 1), ("samples", [sample, sample], 2), ("dataset", dataset, 2)]


def deepeval_objects() -> list[tuple[str, Any, int]]:
    """Make what DeepEval holds test cases in."""
    pytest.importorskip("deepeval", reason="deepeval is not installed")
    from deepeval.dataset import EvaluationDataset, Golden
    from deepeval.test_case import LLMTestCase

    case = LLMTestCase(input=QUERY, actual_output="Nine.", expected_output=REFERENCE, retrieval_context=TEXTS)
    golden = Golden(input=QUERY, actual_output="Nine.", expected_output=REFERENCE, retrieval_context=TEXTS)
    dataset = EvaluationDataset()
    for _ in range(2):
        dataset.add_test_case(case)
    return [
        ("test case", case, 1),
        ("golden", golden, 1),
        ("dataset", dataset, 2),
        ("goldens", EvaluationDataset(goldens=[golden, golden]), 2),
    ]


@pytest.mark.parametrize("objects", [ragas_objects, deepeval_objects])
def test_objects_are_evaluated_as_they_are(objects: Any) -> None:
    """A sample, a list of them and a dataset give the traces of their rows, with the reference that people wrote."""
    for name, data, count in objects():
        with Evaluator("fake/overlap", cache=False) as evaluator:
            traces = [result.trace for result in evaluator.evaluate(data).results]
        found = [(trace.query, trace.reference, [chunk.text for chunk in trace.chunks]) for trace in traces]
        assert found == [(QUERY, REFERENCE, TEXTS)] * count, name


def test_a_response_of_llama_index_is_told_what_it_lacks() -> None:
    """A response holds no question: the message names the row that does; that row is evaluated."""
    core = pytest.importorskip("llama_index.core", reason="llama_index.core is not installed")
    from llama_index.core.base.response.schema import Response
    from llama_index.core.schema import NodeWithScore, TextNode

    assert core
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in TEXTS]
    response = Response("Nine.", source_nodes=nodes)
    with Evaluator("fake/overlap", cache=False) as evaluator:
        with pytest.raises(DataError, match=r"response\.source_nodes"):
            evaluator.evaluate(response)
        run = evaluator.evaluate((QUERY, REFERENCE, response.source_nodes))
    assert [chunk.text for chunk in run.results[0].trace.chunks] == TEXTS


def retriever_of_langchain() -> Any:
    """Make a retriever of LangChain."""
    pytest.importorskip("langchain_core", reason="langchain_core is not installed")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            assert query == QUERY
            return [Document(page_content=text) for text in TEXTS]

    return Fixed()


def retriever_of_llama_index() -> Any:
    """Make a retriever of LlamaIndex."""
    pytest.importorskip("llama_index.core", reason="llama_index.core is not installed")
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            assert query_bundle.query_str == QUERY
            return [NodeWithScore(node=TextNode(text=text), score=0.5) for text in TEXTS]

    return Fixed()


@pytest.mark.parametrize("made", [retriever_of_langchain, retriever_of_llama_index])
def test_a_retriever_of_a_library_is_asked_as_it_is(made: Any) -> None:
    """Its documents or nodes are the chunks of the question."""
    with Evaluator("fake/overlap", cache=False) as evaluator:
        run = evaluator.evaluate([{"query": QUERY, "reference": REFERENCE}], retriever=made())
    assert [chunk.text for chunk in run.results[0].trace.chunks] == TEXTS
    assert run.status == "done"
