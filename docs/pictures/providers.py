"""Writes the table of docs/providers.md from the table of providers.

Run `python docs/pictures/providers.py` after a change of `judge_eval/providers.toml`; a test compares both.
"""

from __future__ import annotations

from pathlib import Path

from judge_eval.providers import ProviderEntry, built_in, package_tables

PAGE = Path(__file__).parents[1] / "providers.md"
RULE = "| provider | address | key | never sent | notes |\n|---|---|---|---|---|\n"


def row(entry: ProviderEntry) -> str:
    """Write a provider's line of the table."""
    address = " or ".join(f"`{address.replace('|', ' or ')}`" for address in entry.addresses)
    key = f"`{entry.key_env}`" if entry.key_env else "none"
    if entry.keyless and entry.key_env:
        key += " or none"
    if entry.key_header != "authorization":
        key += f", in the header `{entry.key_header}`"
    notes = [entry.note] if entry.note else []
    notes += [f"Start: `{entry.start}`."] if entry.start else []
    notes += [f"Decision models: dialect `{entry.decisions}`."] if entry.decisions else []
    notes += ["Batches."] if entry.batches else []
    never = ", ".join(f"`{name}`" for name in entry.unsupported)
    cells = (f"[{entry.name}]({entry.docs})", address, key, never, " ".join(notes))
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """Return the page, its table made anew."""
    text = PAGE.read_text(encoding="utf-8")
    head = text[: text.index(RULE) + len(RULE)]
    unknown = [f"- `{name}`: {said}." for name, said in package_tables()["instead"].items()]
    return "\n".join((head + "\n".join(map(row, built_in().values())), "", "Names without a block:", "", *unknown, ""))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
