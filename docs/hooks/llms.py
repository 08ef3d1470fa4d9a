"""Writes llms.txt, the list of pages for language models, whenever the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]


def lines(nav: list[Any], folder: Path = DOCS) -> list[str]:
    """List the pages of a navigation, each with the first sentence of its text."""
    out: list[str] = []
    for entry in nav:
        for title, target in entry.items():
            if isinstance(target, list):
                out += ["", f"## {title}", "", *lines(target, folder)]
            else:
                out.append(f"- [{title}]({target}){first_sentence(folder / target)}")
    return out


def first_sentence(page: Path) -> str:
    """Return the first sentence of a page, after a colon; nothing where the page is written by a program."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    first = next((part for part in paragraphs if part and not part.startswith(("#", "```", "|", "<", ":", "!"))), "")
    return f": {first.split('. ')[0].rstrip('.:')}." if first else ""


def on_files(files: Any, config: Any) -> Any:
    """Add the list to the site."""
    from mkdocs.structure.files import File

    top = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    files.append(File.generated(config, "llms.txt", content="\n".join([*top, *lines(config.nav)]) + "\n"))
    return files
