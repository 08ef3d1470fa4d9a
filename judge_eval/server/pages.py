"""The served pages: one shell, and the files it loads."""

from collections.abc import Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from judge_eval.pages.page import STYLES, Page, pages, web, web_files
from judge_eval.pages.report import embed

OWN_PAGES = (Page("runs", "/", "runspage.js"), Page("docs", "/docs", "docspage.js"))
"""The pages that only a server has; they read what they show from the REST API."""


def make_pages() -> APIRouter:
    """Make the routes of the pages; they hold no data, so they need no token."""
    routes = APIRouter(include_in_schema=False)
    every = (*pages().values(), *OWN_PAGES)
    for page in every:
        routes.add_route(page.path, _showing(page), methods=["GET"])
    own = {page.module: page for page in every}

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in own and name not in web_files():
            return Response(status_code=404)
        text = own[name].text() if name in own else web(name)
        return Response(text, media_type="text/css" if name.endswith(".css") else "text/javascript")

    return routes


def _showing(page: Page) -> Callable[[Request], HTMLResponse]:
    shell = _shell(page)
    return lambda _: HTMLResponse(shell)


def _shell(page: Page) -> str:
    links = "\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
{links}
<meta name="page" data-page="{page.name}" data-script="{page.module}">
<title>judge_eval</title>
<script type="application/json" id="texts">{embed(page.all_texts(served=True))}</script>
<script type="module" src="/static/app.js"></script>
</head>
<body>
<noscript>These pages need JavaScript, which is disabled in this browser.</noscript>
</body>
</html>
"""
