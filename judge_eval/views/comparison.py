"""What people read of a comparison: all its sentences, remarks and tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from judge_eval.compare.comparison import LEAST_SHARED, Change, Check, Checks, Comparison, Difference, TraceChange, Way
from judge_eval.compare.moved_claims import ClaimChange
from judge_eval.safe_text import counted, interval
from judge_eval.views.blocks import (
    Bullets,
    Cell,
    Column,
    Headline,
    Link,
    Mark,
    Remark,
    Section,
    Sentence,
    Strip,
    TableBlock,
    TableColumns,
    Toned,
    View,
    ViewBlock,
    make_table,
    view_of,
)
from judge_eval.views.claims import vital_word
from judge_eval.views.slices import slice_sections
from judge_eval.views.tones import Tone

TERMINAL_TRACES = 10
"""How many changed traces and claims a terminal lists of each candidate."""
NOTEBOOK_TRACES = 20
"""How many changed traces a notebook lists of each candidate."""
REPORT_TRACES = 50
"""How many changed traces Markdown lists of each candidate, if there is room."""
CHANGE_WORDS: Final[dict[Change, str]] = {
    "retrieval": "retrieval changed",
    "verdicts": "verdict flipped",
    "both": "retrieval changed, verdict flipped",
    "claims": "claim won or lost",
    "scores": "only the scores changed",
}
_WAYS: Final[dict[Way, Tone]] = {"better": "good", "worse": "bad", "unsure": "plain"}
_SIGNS: Final[dict[str, Tone]] = {"+": "good", ".": "quiet", "!": "bad"}


def comparison_view(comparison: Comparison, *, traces: int, claims: int) -> View:
    """Build what people read of a comparison, with so many changed traces and claims a candidate."""
    return View(
        "comparison",
        (
            Section("title", tuple(_opening(comparison))),
            Section("differences", (differences_table(comparison),)),
            *attribution_sections(comparison),
            *slice_sections(comparison.slices, "no change"),
            Section("findings", tuple(_findings(comparison))),
            *_pairs(comparison),
            *_claims(comparison, claims),
            *_changes(comparison, traces),
        ),
    )


@view_of.register
def notebook_comparison(comparison: Comparison) -> View:
    """Build what a notebook shows of a comparison: what was found, and the gate if there is one."""
    shown = comparison_view(comparison, traces=NOTEBOOK_TRACES, claims=NOTEBOOK_TRACES)
    return gate_view(comparison.checks, shown.sections)


@view_of.register
def notebook_checks(checks: Checks) -> View:
    """Build what a notebook shows of the checks of a gate."""
    return gate_view(checks) if checks else View("gate", (Section("gate", (Sentence("no limit"),)),))


def _opening(c: Comparison) -> Iterator[ViewBlock]:
    names: list[Link] = []
    for run in c.runs[1:]:
        names += [Link(", ")] if names else []
        names.append(Link(run.name, run.href))
    baseline = (Link(" against "), Link(c.baseline.name, c.baseline.href), Link(" (baseline)"))
    yield Headline((*names, *baseline), "### ")
    yield from (Sentence(sentence, "strong") for sentence in c.sentences)
    yield from remarks_on(c)


def remarks_on(c: Comparison) -> Iterator[Remark]:
    """Say what makes a comparison doubtful, then what differs as it should."""
    yield from (Remark("warning", warning, "doubtful", "warning") for warning in c.warnings)
    yield from (Remark("note", note, "plain", "note") for note in c.notes)


def differences_table(c: Comparison) -> TableBlock:
    """List the means of every metric, and what they differ by."""
    several = len(c.runs) > 2
    columns: TableColumns = ["run"] if several else []
    columns += ["metric", ("baseline", "number"), ("candidate", "number"), ("difference", "signed")]
    columns += [("95% interval", "signed interval"), ("p (Holm)", "p"), ("dz", "effect"), ("win/tie/loss", "counts")]
    columns.append(("n", "count"))
    rows = []
    for d in c.differences:
        means = (d.baseline_mean, d.candidate_mean, Toned(d.difference, _WAYS[d.way]), d.interval)
        row = (d.metric, *means, d.p_shown, d.dz, f"{d.wins}/{d.ties}/{d.losses}", d.n)
        rows.append((c.runs[d.candidate].name, *row) if several else row)
    return make_table("differences", columns, rows)


def attribution_sections(c: Comparison) -> Iterator[Section]:
    """List of each difference what retrieval and what the judge contributes; nothing if one judge judged all."""
    if not c.attributions:
        return
    several = len(c.runs) > 2
    columns: TableColumns = ["run"] if several else []
    columns += ["whose change", ("difference", "signed")]
    for side in ("by retrieval", "by the judge"):
        columns += [(side, "signed"), ("95% interval", "signed interval")]
    columns.append(("both verdicts", "share"))
    rows: list[tuple[Cell, ...]] = []
    for a in c.attributions:
        sides: list[Cell] = []
        for part in (a.retrieval, a.judge):
            sides += [part.value, part.interval]
        rows.append((*((c.runs[a.candidate].name,) if several else ()), a.metric, a.difference, *sides, a.shared))
    few = any(a.shared < LEAST_SHARED for a in c.attributions)
    remark = Remark(
        "note",
        f"under {LEAST_SHARED:.0%} of the chunks have both verdicts: intervals hold if the others' verdicts flip half "
        "to twice as often",
        "plain",
        "note",
    )
    yield Section("whose change", (make_table("whose change", columns, rows), *((remark,) if few else ())))


def _findings(c: Comparison) -> Iterator[Bullets]:
    if c.differences:
        several = len(c.runs) > 2
        who = (f"{c.runs[d.candidate].name}: " if several else "" for d in c.differences)
        yield Bullets(tuple(name + difference_sentence(d) for name, d in zip(who, c.differences, strict=True)))


def _pairs(c: Comparison) -> Iterator[Section]:
    if c.pairs:
        columns: TableColumns = ["metric", "all pairs", ("difference", "signed"), ("p (Tukey)", "p")]
        names = [run.name for run in c.runs]
        rows = tuple((p.metric, f"{names[p.second]} - {names[p.first]}", p.difference, p.p) for p in c.pairs)
        yield Section("pairs", (make_table("all pairs", columns, rows),))


def _claims(c: Comparison, most: int) -> Iterator[Section]:
    for moved, sentence in zip(c.claims, c.claims_told, strict=True):
        table = moved_claims_table(moved.changes[:most], moved.lost + moved.won)
        yield Section("claims", (Sentence(sentence), *((table,) if table.rows or table.more else ())))


def moved_claims_table(changes: Sequence[ClaimChange], total: int) -> TableBlock:
    """List claims that were won or lost, of so many in total."""
    columns: TableColumns = ["what", "kind", ("before", "strip"), ("after", "strip")]
    columns += [Column("claim", cut=80), "trace", Column("question", wide=True)]
    rows = tuple(
        (
            Toned(claim.kind, "bad" if claim.kind == "lost" else "good"),
            *(vital_word(claim.vital), _signs(claim.before), _signs(claim.after)),
            *(claim.text, claim.trace_id, claim.query),
        )
        for claim in changes
    )
    return make_table("moved claims", columns, rows, max(0, total - len(rows)))


def _changes(c: Comparison, most: int) -> Iterator[Section]:
    metrics = list(dict.fromkeys(d.metric for d in c.differences))[:3]
    for place in range(1, len(c.runs)):
        name, counts = c.runs[place].name, c.changed[place - 1]
        if not counts:
            yield Section("changes", (Sentence(f"{name}: no trace changed"),))
            continue
        total = sum(counts.values())
        kinds = ", ".join(f"{CHANGE_WORDS[kind]}: {n}" for kind, n in sorted(counts.items()))
        traces = [trace for trace in c.traces if trace.candidate == place][:most]
        table = _changed(traces, metrics, total)
        sentence = f"{name}: {counted(total, 'trace')} changed ({kinds})"
        yield Section("changes", (Sentence(sentence), table), counted(total, "changed trace"))


def _changed(traces: Iterable[TraceChange], metrics: list[str], total: int) -> TableBlock:
    columns: TableColumns = ["trace", "what", ("before", "strip"), ("after", "strip")]
    columns += [*((name, "signed") for name in metrics), Column("query", cut=50)]
    rows = tuple(
        (
            *(change.trace_id, change_in_words(change), _strip(change.before), _strip(change.after, change.moves)),
            *(change.differences.get(name) for name in metrics),
            change.query,
        )
        for change in traces
    )
    return make_table("changed traces", columns, rows, total - len(rows))


def difference_sentence(d: Difference) -> str:
    """Say what a difference shows."""
    if d.finding == "same":
        return f"no difference in {d.metric}: all {d.n} traces score the same"
    size = f"{d.difference:+.4f}"
    if d.interval is not None:
        size += f" {interval(d.interval, '+')}"
    if d.finding == "unclear" and d.clear:
        return f"{d.metric}: {size}; the test does not confirm it, p={d.p_holm:.3g}"
    if d.finding == "unclear":
        least = "" if d.detectable is None else f"; these traces can show {d.detectable:.4f}"
        if d.too_few:
            least = "; these traces are too few to show any difference"
        p = "" if d.p_shown is None else f", p={d.p_shown:.3g}"
        return f"no difference shown in {d.metric}: {size}{p}{least}"
    means = f", which is {'worse' if d.difference > 0 else 'better'}" if d.less_is_better else ""
    return f"{d.metric} is {d.finding}{means}: {size}, p={d.p_holm:.3g}"


def change_in_words(change: TraceChange) -> str:
    """Say what changed, with the claims that were won and lost."""
    parts = [] if change.kind == "claims" else [CHANGE_WORDS[change.kind]]
    for n, word in ((change.claims_lost, "lost"), (change.claims_won, "won")):
        parts += [f"{counted(n, 'claim')} {word}"] if n else []
    return ", ".join(parts)


def gate_section(checks: Sequence[Check]) -> Section:
    """Say of each limit whether it was kept, and which traces lost most, after a sentence on the whole gate."""
    items = [
        Toned(line, "plain" if place or check.outcome == "passed" else "strong")
        for check in checks
        for place, line in enumerate(check_lines(check))
    ]
    return Section("gate", (Sentence(gate_title(checks), "strong"), Bullets(tuple(items))))


def gate_title(checks: Sequence[Check]) -> str:
    """Say whether a gate passed, and how many limits failed or are undecided."""
    failed = sum(not check.passed for check in checks)
    undecided = sum(check.passed and check.outcome == "undecided" for check in checks)
    title = f"Gate failed: {failed} of {len(checks)}" if failed else "Gate passed"
    return f"{title}, {undecided} of {len(checks)} undecided" if undecided else title


def with_gate(checks: Sequence[Check], sections: Sequence[Section]) -> tuple[Section, ...]:
    """Add what became of the limits to what is read: a failed gate stands first, one that passed last."""
    if not checks:
        return tuple(sections)
    gate = (gate_section(checks),)
    return (*sections, *gate) if all(check.passed for check in checks) else (*gate, *sections)


def gate_view(checks: Sequence[Check], sections: Sequence[Section] = ()) -> View:
    """Build what people read of a gate, with what else is read."""
    return View("gate", with_gate(checks, sections))


def check_lines(check: Check) -> list[str]:
    """Say whether a limit was kept and by how much it was missed; then which traces to look at, if it was."""
    lines = [f"{check.outcome}: {check.kind} {check.sentence}"]
    for t in check.worst:
        value = "no value" if t.value is None else f"{t.value:.4f}"
        lines.append(f"{t.trace_id}: {value} ({t.verdicts or 'nothing'}) {t.query}")
    for m in () if check.passed else check.movers:
        moved = f"({m.before or 'nothing'} to {m.after or 'nothing'})"
        lines.append(f"{m.trace_id}: {m.differences[check.metric]:+.4f} {moved} {m.query}")
    return lines


def _signs(signs: str) -> Strip:
    return Strip(tuple(Mark(sign) for sign in signs))


def _strip(signs: str, moves: tuple[str, ...] | None = None) -> Strip:
    """Draw a retrieval; of a candidate each mark says at which rank its chunk stood in the baseline."""
    marks = []
    for rank, sign in enumerate(signs, 1):
        title, moved = f"rank {rank}", False
        if moves is not None:
            was = moves[rank - 1]
            title, moved = f"{title}, was {was}" if was else f"{title}, new", was != str(rank)
        marks.append(Mark(sign, _SIGNS.get(sign, "good"), title, moved))
    return Strip(tuple(marks))
