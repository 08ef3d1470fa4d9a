"""A page as one HTML file that needs nothing else."""

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from judge_eval.errors import StoreError
from judge_eval.files import write_atomically, writing_named
from judge_eval.llm.cache.store import Store
from judge_eval.pages.page import STYLES, Page, PageSettings, page_named, web
from judge_eval.runs.folder.run import Run
from judge_eval.runs.folder.run import blocks as cut
from judge_eval.views.blocks import JSON
from judge_eval.views.comparison import check_lines, gate_title

BLOCK = 25
"""Traces that are packed together, and unpacked together when one of them is looked at."""


def page_report(name: str, runs: Sequence[Run], settings: PageSettings) -> str:
    """Make one HTML file of a page."""
    page = page_named(name)
    content = page.make(runs, settings)
    checks = settings.checks
    failed = not all(check.passed for check in checks)
    lines = [check_lines(check) for check in checks]
    gate = {"gate": {"title": gate_title(checks), "limits": lines, "failed": failed}}
    data = content.data | (gate if failed or any(check.warns for check in checks) else {})
    return document(page, content.title, data, [packed_json(block) for block in cut(content.items, BLOCK)])


def packed_json(value: Any) -> str:
    """Pack a JSON value: deflated (zlib), in base64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "backslashreplace"), 9)).decode()


def embed(value: Any) -> str:
    """Write a JSON value so that it can stand inside a script element, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def document(page: Page, title: str, data: JSON, packed: list[str]) -> str:
    """Put a page together: style, script and data in one file, under a policy that allows nothing else."""
    style, code = "\n".join(map(web, STYLES)), page.code()
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(code)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{_escape(title)}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws its data with JavaScript, which is switched off here.</noscript>\n"
        f'<script type="application/json" id="texts">{embed(page.all_texts(served=False))}</script>\n'
        f'<script type="application/json" id="data">{embed(packed_json({"page": page.name, **data}))}</script>\n'
        f'<script type="application/json" id="blocks">{embed({"size": BLOCK, "blocks": packed})}</script>\n'
        f'<script type="module">{code}</script>\n</body>\n</html>\n'
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escape(text: str) -> str:
    return escape(text, quote=False).encode("utf-8", "replace").decode()


def save_page(text: str, path: Path) -> None:
    """Write a page's file in one step."""
    with writing_named(path):
        write_atomically(path, text.encode())


def store_at(cache: str | Path | None) -> Store | None:
    """Open a cache to look replies up in; None if there is none, or none that can be read."""
    from judge_eval.llm.cache.store import is_postgres
    from judge_eval.llm.stack import open_store

    if cache is None or (not is_postgres(cache) and not Path(cache).is_dir()):
        return None
    store = open_store(cache)
    try:
        store.info()
    except StoreError:
        return None
    return store
