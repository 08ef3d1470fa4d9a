"""The backend for servers that speak OpenAI's Chat Completions."""

from judge_eval.llm.http.chat_format import Bodies, read_choice
from judge_eval.llm.http.openai_responses import RESPONSES
from judge_eval.llm.http.text_server import TextServer, Wire
from judge_eval.registry import Provider

WIRE = "openai-chat"


class OpenAI(TextServer):
    """A server that speaks OpenAI's Chat Completions, and Responses for models that it answers by them alone."""

    _wire = Wire("chat/completions", Bodies, read_choice, streams=True)
    _other = RESPONSES


create = Provider(OpenAI, answers_questions=False, takes_batches=True)
"""Makes the backends of the table that speak Chat Completions."""
