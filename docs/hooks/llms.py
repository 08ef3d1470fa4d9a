"""Writes llms.txt, the list of pages for language models, and llms-full.txt, their texts, when the site is built."""

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
    first = next(
        (part for part in paragraphs if part and not part.startswith(("#", "```", "|", "<", ":", "!", "---"))), ""
    )
    return f": {first.split('. ')[0].rstrip('.:')}." if first else ""


def texts(nav: list[Any], folder: Path = DOCS) -> str:
    """Return the texts of all pages of a navigation, one after the other; pages written by a program are left out."""
    out = []
    for entry in nav:
        for title, target in entry.items():
            if isinstance(target, list):
                out.append(texts(target, folder))
            elif (folder / target).is_file():
                out.append(f"<!-- {title}: {target} -->\n\n{(folder / target).read_text(encoding='utf-8').strip()}\n")
    return "\n".join(out)


def on_files(files: Any, config: Any) -> Any:
    """Add the list and the texts to the site."""
    from mkdocs.structure.files import File

    top = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    files.append(File.generated(config, "llms.txt", content="\n".join([*top, *lines(config.nav)]) + "\n"))
    files.append(File.generated(config, "llms-full.txt", content=texts(config.nav)))
    return files
