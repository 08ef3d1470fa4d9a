"""The backend for servers that speak OpenAI's Chat Completions."""

from judge_eval.llm.http.chat_format import Bodies, read_choice
from judge_eval.llm.http.text_server import TextServer
from judge_eval.providers import any_server
from judge_eval.registry import Provider

WIRE = "openai-chat"


class OpenAI(TextServer):
    """A server that speaks OpenAI's Chat Completions."""

    _path = "chat/completions"
    _writer = Bodies
    _reader = staticmethod(read_choice)


create = Provider(OpenAI, answers_questions=False, takes_batches=True, hosts=any_server().hosts)
"""Makes the `openai` backend, and those of the table of providers."""
