"""The comparison of two runs as pages show it; differences are candidate minus baseline."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np

from judge_eval.compare.changes import KINDS, change_of, claims_of_trace, most_moved, moved_between
from judge_eval.compare.compare import scored_by, slices_between, weigh
from judge_eval.compare.comparison import Difference, TraceChange
from judge_eval.errors import DataError, MetricError
from judge_eval.pages.rows import Table, TraceRow, agrees, reason_data
from judge_eval.quotes import marked
from judge_eval.runs.columns.verdict_table import verdict_table
from judge_eval.runs.folder.records import SliceBy, TraceResult
from judge_eval.runs.scoring.aggregate import cutoff_of, less_is_better, main_metric
from judge_eval.schema import Chunk, Outcome, Scale
from judge_eval.stats.figure import named_fields
from judge_eval.views.blocks import JSON, Sentence, ViewBlock
from judge_eval.views.comparison import moved_claims_table
from judge_eval.views.findings import attribution_sentence, claims_sentences, opening_sentence
from judge_eval.views.note_sentences import notes_of_runs
from judge_eval.views.page_html import page_html, sections_html
from judge_eval.views.slices import SLICES, slice_sections

SNIPPET = 240
"""Characters of a chunk's text that a card shows."""
_LEAD = 60
"""Characters of a snippet that may stand before its quote."""


def _ranks_before(change: TraceChange) -> list[int | None]:
    """Return the rank that each chunk of the candidate had in the baseline."""
    return [int(rank) if rank else None for rank in change.moves]


def _moves(change: TraceChange, old: TraceResult, new: TraceResult) -> list[JSON]:
    flipped = {flip.chunk_id for flip in change.flips}
    before, moves = _ranks_before(change), list[JSON]()
    stayed = set(before)
    for rank, (was, chunk, outcome) in enumerate(zip(before, new.trace.chunks, new.outcomes, strict=True), 1):
        there = old.outcomes[was - 1] if was else None
        moves.append(_move(chunk, was, there, rank, outcome, flipped=bool(was) and chunk.id in flipped))
    for rank, (chunk, outcome) in enumerate(zip(old.trace.chunks, old.outcomes, strict=True), 1):
        if rank not in stayed:
            moves.append(_move(chunk, rank, outcome, None, None))
    return moves


def _move(
    chunk: Chunk, a: int | None, was: Outcome | None, b: int | None, now: Outcome | None, *, flipped: bool = False
) -> JSON:
    move: JSON = {"id": chunk.id, "a": a, "b": b, "was": _said(was), "now": _said(now), "flipped": flipped}
    outcome = now or was
    if outcome is not None and (flipped or a != b):
        move |= {"title": chunk.title, "text": snippet(chunk.text, outcome.quote)}
    return move


def _weight(move: JSON) -> tuple[int, int]:
    """Order chunks by how much they tell: flipped, relevant, come or gone, moved; then the upper ones."""
    relevant = any(outcome and outcome.get("relevant") for outcome in (move["was"], move["now"]))
    alone = move["a"] is None or move["b"] is None
    kind = 0 if move["flipped"] else 1 if relevant else 2 if alone else 3
    return kind, min(rank for rank in (move["a"], move["b"]) if rank is not None)


def snippet(text: str, quote: str) -> list[str]:
    """Return the part of a text that a card shows, around its quote: pieces, every second of them quoted."""
    whole = marked(text, quote) if quote else [text]
    if len(whole) > 1 and len(whole[0]) > _LEAD:
        whole = ["…" + whole[0][-_LEAD:], *whole[1:]]
    pieces, left = list[str](), SNIPPET
    for piece in whole:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    if sum(map(len, whole)) <= SNIPPET:
        return pieces
    return [*pieces[:-1], pieces[-1] + "…"] if len(pieces) % 2 else [*pieces, "…"]


def _said(outcome: Outcome | None) -> JSON | None:
    if outcome is None:
        return None
    if outcome.kind == "no_verdict":
        return {"sign": outcome.sign, "why": outcome.why, "reason": outcome.detail}
    return {"sign": outcome.sign, "relevant": outcome.relevant, "stage": outcome.stage, **reason_data(outcome)}


def _side(result: TraceResult, scale: Scale, scores: JSON) -> JSON:
    ranks = zip(result.trace.chunks, result.outcomes, strict=True)
    strip = [{"id": c.id, "sign": o.sign, "off": agrees(c.label, o, scale) is False} for c, o in ranks]
    return {"id": result.trace_id, "strip": strip, "scores": scores}


class ComparedTables:
    """Runs that are compared with the first by its metrics, as `compare` does.

    If one of these is undefined for a run, they are compared by those of all.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        first, *others = [table.run for table in tables]
        names, scored = tables[0].metrics, [first]
        for run in others:
            try:
                scored.append(scored_by(run, names))
            except (DataError, MetricError):
                scored.append(run)
                names = tuple(name for name in names if name in run.manifest.metrics)
        cluster = first.manifest.intervals.cluster
        self.tables, self.names, self.scored = tables, names, scored
        self.columns = [
            table.columns.only(names) if run is table.run else verdict_table(run, names, cluster)
            for table, run in zip(tables, scored, strict=True)
        ]
        self.moved = [
            moved_between((first, run), (first, scored[place]), (self.columns[0], self.columns[place]), place)
            for place, run in enumerate(others, 1)
        ]
        self.record = weigh(self.moved)

    def slices(self, by: Sequence[SliceBy] = ()) -> str:
        """Return how each metric changes from the first run to each other one, by slice, as HTML."""
        first = self.tables[0]
        if not (kinds := first.sliced_by(by)):
            return ""
        figures = slices_between(self.moved, kinds, every=bool(by or first.run.manifest.intervals.by))
        return sections_html(slice_sections(figures, "no change"), SLICES)


class ComparedRuns(ComparedTables):
    """A candidate run compared with a baseline: the record of it with what pages draw.

    `lead`: whether a large candidate is made to hold the rows that lost most, or those that moved most.
    """

    def __init__(self, baseline: Table, candidate: Table, lead: Literal["lost", "moved"] = "lost") -> None:
        self.baseline, self.candidate = baseline, candidate
        super().__init__([baseline, candidate])
        self.after, (moved,) = self.scored[1], self.moved
        self.pairs, self.kinds, self._recut = moved.pairing, moved.kinds, moved.cuts.differ
        if not candidate.whole:
            self._choose(lead)
        at = np.full(len(self.columns[1]), -1, dtype=np.int64)
        at[self.pairs.b] = np.arange(len(self.pairs))
        pairs = at[candidate.places]
        strips = iter(baseline.strips(self.pairs.a[pairs[pairs >= 0]].tolist()))
        self.rows: list[TraceRow] = []
        self._pair: dict[int, int] = {}
        for row, pair in zip(candidate.rows, pairs.tolist(), strict=True):
            if pair >= 0:
                self._pair[row.position] = pair
                change, before = KINDS[self.kinds[pair]], next(strips)
                deltas = self._deltas(pair)
                row = replace(row, deltas=deltas, change=change, before=before if change else None)
            self.rows.append(row)

    def _choose(self, lead: str) -> None:
        most = len(self.candidate.rows)
        if lead == "moved" or not self.pairs.first.metrics:
            chosen = most_moved(self.pairs, self.kinds, most)
        else:
            before, after = self.pairs.values(0)
            lost = before - after if less_is_better(self.pairs.first.metrics[0]) else after - before
            chosen = np.lexsort((self.kinds == 0, np.where(np.isnan(lost), 0.0, lost)))[:most]
        self.candidate.take(self.pairs.b[chosen].tolist())

    def _deltas(self, pair: int) -> dict[str, float]:
        before, after = self._scores(pair)
        return {name: after[name] - value for name, value in before.items() if name in after}

    def _scores(self, pair: int) -> tuple[dict[str, float], dict[str, float]]:
        both = self.pairs.first.scores[self.pairs.a[pair]], self.pairs.second.scores[self.pairs.b[pair]]
        named = [zip(self.pairs.first.metrics, scores.tolist(), strict=True) for scores in both]
        before, after = [{name: value for name, value in each if value == value} for each in named]
        return before, after

    @property
    def changed(self) -> list[TraceRow]:
        """The rows that changed."""
        return [row for row in self.rows if row.change]

    def opening(self, who: str) -> JSON | None:
        """Return the first sentence about the candidate, called `who`, and doubts; None if incomparable."""
        if not self.record.openings:
            return None
        (first,) = self.record.openings
        split = self.record.attribution(first.metric)
        return {
            "split": split and attribution_sentence(split),
            "finding": first.finding,
            "sentence": opening_sentence(self.record, first, who),
            "warnings": notes_of_runs(self.record, self.record.warnings),
            "claims": claims_sentences(self.record),
        }

    @cached_property
    def by_position(self) -> dict[int, TraceRow]:
        """The rows by the positions of their traces."""
        return {row.position: row for row in self.rows}

    @property
    def claims(self) -> str:
        """The claims won and lost, as HTML; empty if the runs were not judged by claims."""
        blocks: list[ViewBlock] = []
        for moved, sentence in zip(self.record.claims, claims_sentences(self.record), strict=True):
            table = moved_claims_table(moved.changes, moved.lost + moved.won)
            blocks += [Sentence(f"{sentence}."), *([table] if table.rows else [])]
        return page_html(blocks)

    @property
    def metrics(self) -> dict[str, JSON]:
        """The differences by metric, as JSON, the one that is looked at first before the others."""
        lead = main_metric(self.pairs.first.metrics)
        ordered = sorted(self.record.differences, key=lambda each: each.metric != lead)
        return {each.metric: difference_data(each) for each in ordered}

    def in_full(self, rows: Sequence[TraceRow]) -> Iterator[JSON]:
        """Yield changed traces in full: both lists of chunks with their verdicts, and what moved or flipped.

        `moves` holds a chunk each, those of the candidate first; `notable` the places in it of those that moved,
        flipped, came or went, the ones that tell most first. These carry a snippet of their text. `same` says so
        if there are none.
        """
        for row in rows:
            pair = self._pair[row.position]
            old, new = self._results(pair)
            scores = self._scores(pair)
            claims = claims_of_trace(row.change, old, new, self._recut)
            change = change_of(row.change, old, new, row.deltas)
            moves = _moves(change, old, new)
            notable = [place for place, move in enumerate(moves) if move["flipped"] or move["a"] != move["b"]]
            differ = "claims" if change.kind == "claims" else "the scores"
            same = None if notable else f"The same chunks with the same verdicts; only {differ} differ."
            listed = [moved_claims_table(claims, len(claims))] if claims else []
            yield {
                "id": row.id,
                "query": row.query,
                "change": change.kind,
                "deltas": change.differences,
                "a": _side(old, self.baseline.scale, scores[0]),
                "b": _side(new, self.candidate.scale, scores[1]),
                "claims": page_html(listed, f"claims won and lost in {row.id}"),
                "moves": moves,
                "notable": sorted(notable, key=lambda place: _weight(moves[place])),
                "same": same,
            }

    def _results(self, pair: int) -> tuple[TraceResult, TraceResult]:
        return self.baseline.run.results[int(self.pairs.a[pair])], self.after.results[int(self.pairs.b[pair])]

    def add_ranks_before(self, position: int, page: JSON) -> JSON:
        """Return a trace's page with the rank of each chunk in the baseline, and the relevant ones that fell."""
        # None where the baseline did not retrieve it. A chunk that is gone fell if the baseline's verdict was relevant.
        if (pair := self._pair.get(position)) is None:
            return page
        old, new = self._results(pair)
        before = _ranks_before(change_of("scores", old, new, {}))
        cards = [{**card, "before": rank} for card, rank in zip(page["chunks"], before, strict=True)]
        fell = [
            {"id": card["id"], "before": card["before"], "rank": card["rank"]}
            for card in cards
            if card.get("relevant") and card["before"] is not None and card["before"] < card["rank"]
        ]
        fell += [
            {"id": chunk.id, "before": rank, "rank": None, "title": chunk.title, "text": chunk.text}
            for rank, (chunk, outcome) in enumerate(zip(old.trace.chunks, old.outcomes, strict=True), 1)
            if rank not in before and outcome.kind == "verdict" and outcome.relevant
        ]
        return {**page, "chunks": cards, "fell": sorted(fell, key=lambda chunk: chunk["before"])}

    def points(self, metric: str) -> list[JSON]:
        """Return the points of the scatter, traces with equal scores as one; of many, those about equal."""
        scores = np.column_stack(self.pairs.values(self.pairs.first.metrics.index(metric)))
        both = scores[~np.isnan(scores).any(axis=1)]
        places, counts = np.unique(both, axis=0, return_counts=True)
        if len(places) > 5_000:
            scores = scores.round(2)
            places, counts = np.unique(both.round(2), axis=0, return_counts=True)
        ids: dict[tuple[float, ...], list[str]] = {tuple(place): [] for place in places.tolist()}
        for row in self.rows:
            if metric in row.deltas:
                ids[tuple(scores[self._pair[row.position]].tolist())].append(row.id)
        counted = zip(places.tolist(), counts.tolist(), strict=True)
        return [{"a": a, "b": b, "n": n, "ids": ids[a, b][:200]} for (a, b), n in counted]

    def ladder(self, metric: str) -> JSON:
        """Return the differences that are not zero, ascending, with their traces; how many are zero."""
        before, after = self.pairs.values(self.pairs.first.metrics.index(metric))
        moved = [[row.id, row.deltas[metric]] for row in self.rows if abs(row.deltas.get(metric, 0)) > 1e-12]
        return {"list": sorted(moved, key=lambda pair: pair[1]), "zero": int((np.abs(after - before) <= 1e-12).sum())}


def difference_data(difference: Difference) -> JSON:
    """Return a difference as JSON, under the names a page calls things by."""
    return {
        **named_fields(difference),
        "name": difference.metric,
        "baseline": difference.baseline_mean,
        "candidate": difference.candidate_mean,
        "cutoff": cutoff_of(difference.metric),
        "way": difference.way,
    }
