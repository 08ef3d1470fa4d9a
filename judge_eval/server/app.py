"""The ASGI application, put together from its settings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from judge_eval.errors import ConfigError, DataError, FullDiskError, JudgeEvalError, MetricError, RunError, StoreError
from judge_eval.evaluator import Evaluator
from judge_eval.installed import own_version
from judge_eval.pages.report import store_at
from judge_eval.record import fault_in_words
from judge_eval.runs.keeping.lookup import names_in
from judge_eval.server.document import describe_bodies
from judge_eval.server.guard import Guard
from judge_eval.server.incoming import Incoming, TooLargeError
from judge_eval.server.library import IndexingError, Library, MissingRunError
from judge_eval.server.pages import make_pages
from judge_eval.server.routes import make_router
from judge_eval.server.served_runs import MissingTraceError
from judge_eval.server.server_settings import ServerSettings
from judge_eval.server.submissions import QueueFullError, Submissions

_CODES: dict[int, tuple[type[JudgeEvalError], ...]] = {
    503: (IndexingError,),
    404: (MissingRunError, MissingTraceError),
    429: (QueueFullError,),
    413: (TooLargeError,),
    507: (FullDiskError,),
    422: (DataError, MetricError, ConfigError),
    409: (StoreError, RunError),
}
"""The errors of each status; the first that fits counts."""


def create_app(settings: ServerSettings, evaluator: Evaluator | None = None, *, tools: bool = False) -> FastAPI:
    """Make the application; without an evaluator it takes no submissions, else it closes it at the end.

    With `tools` (extra `mcp`) agents find the tools of the Model Context Protocol at `/mcp`.
    """
    library, incoming = Library(settings.root), Incoming()
    submissions = None if evaluator is None else Submissions(library, evaluator, settings.limits)

    routes, sessions = _tool_routes(settings, evaluator) if tools else ([], nullcontext)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        settings.root.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(library.index)
        if submissions is not None:
            submissions.start()
        try:
            async with sessions():
                yield
        finally:
            incoming.close()
            if submissions is not None:
                await submissions.stop()

    app = FastAPI(
        title="judge_eval",
        version=own_version(),
        summary="Runs of judged retrievals: list, look, compare, label, submit.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=lifespan,
    )
    app.include_router(make_router(settings, library, store_at(settings.cache), submissions, incoming))
    app.include_router(make_pages())
    app.router.routes.extend(routes)
    app.add_exception_handler(JudgeEvalError, partial(_told, root=settings.root))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(UnicodeError, _not_text)
    describe_bodies(app)
    app.add_middleware(Guard, settings=settings)
    return app


def _tool_routes(settings: ServerSettings, evaluator: Evaluator | None) -> tuple[list[Any], Callable[[], Any]]:
    """Return the routes of the tools, and what keeps their sessions; the guard checks hosts, tokens and sizes."""
    from mcp.server.transport_security import TransportSecuritySettings

    from judge_eval.server.tools import make_tools

    server = make_tools(settings.root, evaluator, settings.limits, files=False)
    guarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    routes = server.streamable_http_app(max_request_body_size=settings.limits.body, transport_security=guarded).routes
    return list(routes), server.session_manager.run


def _answer(code: int, kind: str, message: str, **more: Any) -> Response:
    text = message.encode("utf-8", "replace").decode()
    return JSONResponse({"error": {"type": kind, "message": text, **more}}, status_code=code)


def _told(_: Request, error: Exception, *, root: Path) -> Response:
    assert isinstance(error, JudgeEvalError)
    code = next((code for code, kinds in _CODES.items() if isinstance(error, kinds)), 400)
    kind = type(error).__name__.removesuffix("Error").lower()
    # Where the folder lies on the server's disk is nobody's business: files go by their names in it.
    return _answer(code, kind, error.message_for(names_in(root)))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first, *rest = error.errors()
    if first["type"] in ("uuid_parsing", "uuid_type"):  # of a run's name
        names = "its whole id or by label:NAME" if first["loc"][-1] == "uuid" else "its whole id"
        return _answer(422, "data", f"a run is named here by {names}", fields=1)
    if first["type"] == "json_invalid":
        return _answer(422, "data", f"the body is {fault_in_words(first)}", fields=1)
    place = ".".join(str(part) for part in first["loc"])
    message = f"{place}: {fault_in_words(first)}" + (f" (and {len(rest)} more)" if rest else "")
    return _answer(422, "data", message, fields=len(rest) + 1)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(error.status_code, "http", str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def _not_text(_: Request, __: Exception) -> Response:
    return _answer(422, "data", "the request has text that is not valid Unicode (a lone surrogate)")
