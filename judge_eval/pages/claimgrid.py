"""Claims as the JSON that pages show: the grid of a trace, what a run misses most, what was won and lost."""

from __future__ import annotations

from collections.abc import Iterable

from judge_eval.comparison.movedclaims import ClaimChange, ClaimsMoved
from judge_eval.pages.rows import JSON
from judge_eval.runs.folder.judgedclaims import (
    SAID_SIGNS,
    SAID_WORDS,
    JudgedClaim,
    cover_sentence,
    judged_claims,
    needed_first,
    vital_word,
)
from judge_eval.runs.folder.records import TraceResult
from judge_eval.runs.folder.run import Run
from judge_eval.runs.scoring.missedclaims import CoverCounts, missed_claims
from judge_eval.schema import ClaimSupport


def claim_grid_data(result: TraceResult) -> JSON | None:
    """Return the claims of a trace, those that are missing first, with a sign a rank and the quotes.

    None where the trace was not judged by claims.
    """
    claims = judged_claims(result.claims, result.outcomes)
    if claims is None:
        return None
    return {
        "sentence": cover_sentence(claims),
        "words": {SAID_SIGNS[said]: word for said, word in SAID_WORDS.items()},
        "together": any(one.asked for one in claims),
        "list": [_row(one) for one in needed_first(claims)],
    }


def _row(one: JudgedClaim) -> JSON:
    quotes = {
        str(rank): [told.quote, told.quote_found]
        for rank, told in enumerate(one.supports, 1)
        if isinstance(told, ClaimSupport) and told.quote
    }
    return {
        "id": one.claim.id,
        "text": one.claim.text,
        "vital": vital_word(one.claim.vital),
        "cover": one.cover,
        "word": one.word,
        "signs": one.signs,
        "quotes": quotes,
        "asked": one.asked,
        "together": one.together,
    }


def missed_data(run: Run) -> JSON | None:
    """Return what a run covers of the claims and what it misses most; None of a run not judged by claims."""
    told = missed_claims(run.results)
    if told is None:
        return None
    return {
        "sentence": told.sentence,
        "distinct": told.distinct,
        "missed": [
            {
                "text": one.text,
                "vital": vital_word(one.vital),
                "q": one.query,
                "told": one.told,
                "traces": one.traces,
                **_counts(one.counts),
            }
            for one in told.missed
        ],
        "tags": [{"tag": one.tag, **_counts(one.counts)} for one in told.tags],
    }


def _counts(counts: CoverCounts) -> JSON:
    return {**counts.model_dump(), "share": counts.covered_share}


def moved_data(moved: ClaimsMoved, sentence: str) -> JSON:
    """Return the claims that were won and lost."""
    return {
        "sentence": sentence,
        "count": moved.lost + moved.won,
        "list": changed_claims(moved.changes),
    }


def changed_claims(changes: Iterable[ClaimChange]) -> list[JSON]:
    """Return claims that were won or lost, as a page lists them."""
    return [
        {
            "kind": one.kind,
            "vital": vital_word(one.vital),
            "text": one.text,
            "trace": one.trace_id,
            "q": one.query,
            "before": one.before,
            "after": one.after,
        }
        for one in changes
    ]
