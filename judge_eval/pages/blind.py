"""Hiding the judge's verdicts from someone who has yet to give a label of their own."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from judge_eval.pages.figures import without_figures
from judge_eval.pages.rows import TraceRow
from judge_eval.views.blocks import JSON


def blind_page(page: JSON) -> JSON:
    """Return a run's page without a figure of its verdicts: no mean, no count, no agreement."""
    return {**without_figures(page), "blind": True}


def blind_row(row: TraceRow, own: int) -> TraceRow:
    """Return a row that shows nothing of its verdicts before all its chunks have a label of who looks: `own` have."""
    if own >= len(row.strip):
        return row
    return _without_verdicts(row, "?" * len(row.strip), "0" * len(row.strip), row.labelled)


def sampled_row(row: TraceRow, ranks: Sequence[int]) -> TraceRow:
    """Return a row of the chunks at these ranks (from 0); of a part of the list no score is shown."""
    if len(ranks) == len(row.strip):
        return row
    strip, off, labelled = ("".join(each[rank] for rank in ranks) for each in (row.strip, row.off, row.labelled))
    return _without_verdicts(row, strip, off, labelled)


def _without_verdicts(row: TraceRow, strip: str, off: str, labelled: str) -> TraceRow:
    hidden = replace(row, scores=dict.fromkeys(row.scores), deltas={}, change=None, before=None, failed=0, first=None)
    return replace(hidden, strip=strip, off=off, labelled=labelled)


def blind_card(page: JSON, own: Mapping[str, int], seed: str = "", order: Sequence[str] | None = None) -> JSON:
    """Return a trace's page whose unlabelled chunks show their text, and neither verdict, rank nor score.

    Chunks are shuffled by the seed, or stand in the order of a sample, which alone are shown, until all have a
    label. `own` are the labels of the person who looks, by chunk. How many relevant chunks exist is hidden too.
    """
    chunks, page = [{**card, "label": own.get(card["id"])} for card in page["chunks"]], {**page, "relevant_total": None}
    chunks = [{**card, "agrees": None} if card["label"] is None else card for card in chunks]
    if order is not None:
        by_id = {card["id"]: card for card in chunks}
        chunks = [by_id[chunk] for chunk in order if chunk in by_id]
    elif any(card["label"] is None for card in chunks):
        random.Random(f"{seed} {page['id']}").shuffle(chunks := list(chunks))  # noqa: S311  no secret
    if order is None and all(card["label"] is not None for card in chunks):
        return {**page, "chunks": chunks}
    cards = []
    for place, card in enumerate(chunks, 1):
        if card["label"] is None:
            kept = {name: card[name] for name in ("id", "title", "label")}
            shown = {**kept, "hidden": True, "text": ["".join(card["text"])]}
        else:  # what stands before it would tell of the hidden ones
            shown = {**card, "precision": None, "share": None, "calls": []}
        cards.append({**shown, "rank": place, "score": None})
    return {**page, "chunks": cards, "scores": {}, "bounds": {}, "claims": None}
