"""Hiding the judge's verdicts from someone who has yet to give a label of their own."""

from __future__ import annotations

from dataclasses import replace

from judge_eval.pages.figures import bare_head, metric_data
from judge_eval.pages.rows import TraceRow
from judge_eval.views.data import JSON

_SHOWN = ("rank", "id", "title", "score", "label")
_GROUPS = ("tally", "results")
"""What a page tells of a run's provenance that counts verdicts."""


def blind_page(page: JSON) -> JSON:
    """Return a run's page without a figure of its verdicts: no mean, no count, no agreement."""
    groups = [group for group in page["provenance"] if group["name"] not in _GROUPS]
    return {
        "head": bare_head(page["head"]),
        "baseline": None,
        "metrics": [metric_data(metric["name"], None, None) for metric in page["metrics"]],
        "words": page["words"],
        "provenance": groups,
        "shown": page.get("shown"),
        "live": page.get("live", False),
        "blind": True,
    }


def blind_row(row: TraceRow) -> TraceRow:
    """Return a row that shows verdicts only if there is a human label, and no scores before the last."""
    if "0" not in row.labelled:
        return row
    ranks = zip(row.strip, row.labelled, strict=True)
    strip = "".join(sign if labelled == "1" else "?" for sign, labelled in ranks)
    return replace(row, strip=strip, scores=dict.fromkeys(row.scores), deltas={}, change=None, before=None, failed=0)


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
            cards.append({**card, "precision": None, "share": None, "calls": []})
    return {**page, "chunks": cards, "scores": {}, "bounds": {}, "claims": None}
