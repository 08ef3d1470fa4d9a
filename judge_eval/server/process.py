"""Running the server in this process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from judge_eval.errors import ConfigError, needs_extra
from judge_eval.evaluator import Evaluator
from judge_eval.server.settings import ServerSettings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


def serve(
    settings: ServerSettings,
    evaluator: Evaluator | None = None,
    *,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until stopped; a second SIGTERM does not wait for what the first one ends.

    Args:
        settings: Where, for whom, within which limits.
        evaluator: The judge for submitted traces; None takes none.
        ready: Called with the address once connections are taken.

    Raises:
        ConfigError: The address cannot be bound, or FastAPI or uvicorn are not installed.
    """
    try:
        import uvicorn

        from judge_eval.server.app import create_app
    except ImportError as error:
        raise needs_extra(f"the server needs {error.name}", "server") from None
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
            "choose another --port"
        ) from None
    listener.listen(128)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if ready is not None:
        ready(address)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if self.should_exit and sig == signal.SIGTERM:  # asked twice: at once
                os._exit(128 + sig)
            super().handle_exit(sig, frame)

    Server(make_config(create_app(settings, evaluator))).run(sockets=[listener])


def make_config(app: FastAPI) -> uvicorn.Config:
    """Say how connections are handled; how many requests are answered at once is the guard's business."""
    import uvicorn

    from judge_eval.server.connections import PromptProtocol

    return uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
