"""The served pages: one shell, and the files it loads from this server."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from judge_eval.pages.report import SCRIPTS, STYLES, web

SERVED = ("runspage.js", "trend.js", "livepanel.js", "docspage.js", "tryout.js")
"""The modules of pages that are never a file of their own."""
FILES = {
    **dict.fromkeys(STYLES, "text/css"),
    **dict.fromkeys((*SCRIPTS, *SERVED), "text/javascript"),
}

_LINKS = "\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES)
_SHELL = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
{_LINKS}
<title>judge_eval</title>
<script type="module" src="/static/app.js"></script>
</head>
<body>
<noscript>These pages draw their data with JavaScript, which is switched off here.</noscript>
</body>
</html>
"""


def make_pages() -> APIRouter:
    """Make the routes of the pages; they hold no data, so they need no token."""
    pages = APIRouter(include_in_schema=False)

    def shell() -> HTMLResponse:
        return HTMLResponse(_SHELL)

    for path in ("/", "/runs/{run_id}", "/compare", "/matrix", "/docs"):
        pages.get(path)(shell)

    @pages.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in FILES:
            return Response(status_code=404)
        return Response(web(name), media_type=FILES[name])

    return pages
