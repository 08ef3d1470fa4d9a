"""What people read of a search for what a retriever lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from judge_eval.runs.folder.run import Run
from judge_eval.safe_text import counted, shortened
from judge_eval.study.missing import MissingReport, missing_report
from judge_eval.views import blocks
from judge_eval.views.blocks import Column, IdList, Section, TableColumns, View, make_section, make_table

SHOWN: Final = 50
"""How many accepted chunks are listed, and how many questions without one."""


def missing_sections(run: Run) -> tuple[Section, ...]:
    """Say what a search of a corpus found; nothing for a run that searched none."""
    return () if run.manifest.dataset.search is None else missing_view(missing_report(run)).sections


def missing_view(report: MissingReport) -> View:
    """Build what people read: what was accepted and must be read, what the rest shows, and how good the search is."""
    accepted = [(question, chunk) for question in report.questions for chunk in question.accepted]
    nothing = [question for question in report.questions if not question.accepted]
    parts: list[blocks.ViewBlock | str] = [*_sentences(report), *_checks(report)]
    if accepted:
        quote = Column("quote" if all(chunk.quote for _, chunk in accepted) else "quote or text", cut=70)
        columns: TableColumns = ["question", ("BM25 rank", "count"), quote, "chunk", ("label", "count")]
        chunks = (
            (IdList((question.trace_id,)), c.rank, shortened(c.quote or c.text, 200), c.chunk_id, c.label)
            for question, c in accepted
        )
        parts.append(make_table("accepted chunks", columns, chunks, of="accepted chunks").cut(SHOWN))
    if nothing:
        columns = ["nothing accepted", Column("query", cut=70), ("looked at", "count"), ("failed", "count")]
        lost = ((IdList((q.trace_id,)), shortened(q.query, 200), q.looked_at, q.failed) for q in nothing)
        of = "questions without an accepted chunk"
        parts.append(make_table("nothing accepted", columns, lost, of=of).cut(SHOWN))
    return View("missing", (make_section("missing", *parts),))


def _sentences(r: MissingReport) -> Iterator[str]:
    s = r.search
    drawn = "" if s.drawn == s.lost else f"; {s.drawn:,} of them were drawn at random"
    yield f"{counted(s.lost, 'question')} found nothing relevant{drawn}."
    yes = f"Searching {s.corpus} ({counted(s.chunks, 'chunk')}) a chunk is accepted for {r.accepted:,}"
    if r.accepted:
        yes += f": read them (`judge-eval show {r.run[:8]} QUESTION`); those that hold are the retriever's"
    yield f"{yes}."
    if r.not_found:
        among = f"among {counted(r.not_found_chunks, 'chunk')} (BM25 over {_searched(r)}, the first {s.depth:,})"
        yield f"For {r.not_found:,} nothing was accepted {among}, which does not show that the answer is missing."
    if r.failed:
        yield f"For {r.failed:,} a verdict failed and nothing was accepted: resume {r.run[:8]}."
    if r.read or r.confirmed:
        people = f"{r.confirmed:,} confirmed by people, {r.read:,} of {r.accepted:,} read"
        share = "" if r.at_least is None else f": at least {r.at_least:.0%} of such lost questions are the retriever's"
        yield f"{people}{share}."


def _searched(r: MissingReport) -> str:
    s = r.search
    if s.references == s.drawn:
        return "question and reference"
    part = f"the question, and the reference of {s.references:,} of {s.drawn:,}"
    return part if s.references else "the question alone"


def _checks(r: MissingReport) -> Iterator[blocks.Remark | str]:
    s = r.search
    if s.answered:
        share = s.answered_found / s.answered
        which = "the one answered question" if s.answered == 1 else f"the {s.answered:,} answered questions"
        sentence = f"the same search finds {share:.0%} of {which}"
        if share < 0.8:
            yield blocks.Remark(
                "weak search", f"{sentence}: this search is weak here, or the corpus is not the retriever's"
            )
        else:
            yield f"{sentence.capitalize()}."
    if s.references < s.drawn:
        text = "without a reference: the question alone is searched, which finds much less"
        yield blocks.Remark("no references", f"{counted(s.drawn - s.references, 'question')} {text}")
    if s.open:
        text = "with a failed verdict and nothing relevant were left out: resume"
        yield blocks.Remark("open questions", f"{counted(s.open, 'question')} {text} {s.name}")
