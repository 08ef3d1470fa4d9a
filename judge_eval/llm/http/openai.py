"""The backend for servers that speak OpenAI's Chat Completions."""

from judge_eval.llm.http.chat_format import ChatCompletions
from judge_eval.llm.http.openai_responses import Responses
from judge_eval.llm.http.text_server import TextServer
from judge_eval.registry import Provider

WIRE = "openai-chat"


class OpenAI(TextServer):
    """A server that speaks OpenAI's Chat Completions, and Responses for models that it answers by them alone."""

    _wire = ChatCompletions
    _other = Responses


create = Provider(OpenAI, answers_questions=False, takes_batches=True)
"""Makes the backends of the table that speak Chat Completions."""
