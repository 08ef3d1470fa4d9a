"""Hiding the judge's verdicts from someone who has yet to give a label of their own."""

from __future__ import annotations

from dataclasses import replace

from judge_eval.pages.rows import JSON, TraceRow

_SHOWN = ("rank", "id", "title", "score", "label")


def blind_row(row: TraceRow) -> TraceRow:
    """Return a row that shows verdicts only where there is a human label, and no scores before the last."""
    if "0" not in row.labelled:
        return row
    ranks = zip(row.strip, row.labelled, strict=True)
    strip = "".join(sign if labelled == "1" else "?" for sign, labelled in ranks)
    return replace(row, strip=strip, scores=dict.fromkeys(row.scores), deltas={}, change=None, failed=0)


def blind_card(page: JSON) -> JSON:
    """Return a trace's page whose unlabelled chunks show their text and nothing the judge said."""
    if all(card["label"] is not None for card in page["chunks"]):
        return page
    cards = []
    for card in page["chunks"]:
        if card["label"] is None:
            kept = {name: card[name] for name in _SHOWN}
            cards.append({**kept, "hidden": True, "text": ["".join(card["text"])]})
        else:  # what stands before it would tell of the hidden ones
            cards.append({**card, "precision": None, "share": None, "call": None})
    return {**page, "chunks": cards, "scores": {}, "bounds": {}}
