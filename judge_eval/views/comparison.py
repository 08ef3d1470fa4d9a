"""What people read of a comparison: all its sentences, remarks and tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic_core import to_json

from judge_eval.compare.comparison import Change, Check, Checks, ClaimChange, Comparison, Difference, TraceChange, Way
from judge_eval.runs.scoring.aggregate import less_is_better, main_metric
from judge_eval.safe_text import counted
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
from judge_eval.views.cut_sentences import comparison_notes
from judge_eval.views.findings import claims_sentences, headlines, without_opening
from judge_eval.views.gate_sentences import check_sentence
from judge_eval.views.note_sentences import notes_of_runs
from judge_eval.views.slices import slice_sections
from judge_eval.views.tones import Tone

TERMINAL_TRACES = 10
"""How many changed traces and claims a terminal lists of each candidate."""
NOTEBOOK_TRACES = 20
"""How many changed traces a notebook lists of each candidate."""
REPORT_TRACES = 50
"""How many changed traces Markdown lists of each candidate, if there is room."""
CURVE_WORDS: Final = (250, 500, 1000, 2000)
"""At which numbers of words a table says what was read, beside the common budget."""
CHANGE_WORDS: Final[dict[Change, str]] = {
    "retrieval": "retrieval changed",
    "verdicts": "verdict flipped",
    "both": "retrieval changed, verdict flipped",
    "claims": "claim won or lost",
    "scores": "only the scores changed",
}
NEUTRAL: Final = "\u26aa"
"""The mark, a white circle, of a limit that is undecided and passes with a warning."""
_WAYS: Final[dict[Way, Tone]] = {"better": "good", "worse": "bad", "unsure": "plain"}
_SIGNS: Final[dict[str, Tone]] = {"+": "good", ".": "quiet", "!": "bad"}


def comparison_view(comparison: Comparison, *, traces: int, claims: int) -> View:
    """Build what people read of a comparison, with so many changed traces and claims a candidate."""
    return View(
        "comparison",
        (
            Section("title", tuple(_opening(comparison))),
            Section("differences", (differences_table(comparison),)),
            *curve_sections(comparison),
            *attribution_sections(comparison),
            *slice_sections(comparison.slices, "no change"),
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


def comparison_json(comparison: Comparison) -> str:
    """Return a comparison as JSON, with its sentences."""
    data = comparison.model_dump(mode="json")
    data |= {"warnings": notes_of_runs(comparison, comparison.warnings), "notes": comparison_notes(comparison)}
    for made, check in zip(data["checks"], comparison.checks, strict=True):
        made["sentence"] = check_sentence(check)
    return to_json(data, indent=2).decode()


def _opening(c: Comparison) -> Iterator[ViewBlock]:
    names: list[Link] = []
    for run in c.runs[1:]:
        names += [Link(", ")] if names else []
        names.append(Link(run.name, run.href))
    baseline = (Link(" against "), Link(c.baseline.name, c.baseline.href), Link(" (baseline)"))
    yield Headline((*names, *baseline), "### ")
    if (ranking := best_run_sentence(c)) is not None:
        yield Sentence(ranking, "strong")
    yield from (Sentence(sentence, "strong") for sentence in headlines(c))
    unsaid = tuple(note for note in c.warnings if note not in without_opening(c))
    yield from remarks_on(c.replace(warnings=unsaid))


def best_run_sentence(c: Comparison) -> str | None:
    """Say which of three runs or more is best by the metric that is looked at first; None for two runs."""
    metric = main_metric(tuple(dict.fromkeys(pair.metric for pair in c.pairs)))
    if metric is None:
        return None
    pairs = {(p.first, p.second): p for p in c.pairs if p.metric == metric}
    less = less_is_better(metric)
    ahead = [0.0, *((-1.0 if less else 1.0) * pairs[0, k].difference for k in range(1, len(c.runs)))]
    if not any(ahead):
        return f"no run is better: {metric} is the same in all {len(c.runs)}"
    best, *others = sorted(range(len(c.runs)), key=lambda k: -ahead[k])
    names = [run.name for run in c.runs]
    above = "below" if less else "above"
    sizes = {k: f"{ahead[best] - ahead[k]:.3f} {above} {names[k]}" for k in others}
    ps = {k: pairs[min(best, k), max(best, k)].p for k in others}
    beaten = [k for k in others if ps[k] <= 0.05]
    among = f"corrected for {len(pairs)} pairs"
    if ps[others[0]] <= 0.05:
        word = "scores best" if any(each.another_judge for each in c.openings) else "is best"
        listed = ", ".join(f"{sizes[k]} (p={ps[k]:.2g})" for k in others if k in beaten)
        return f"{names[best]} {word}: {metric} is {listed}, {among}"
    top = "lowest" if less else "highest"
    rest = f"; it is {', '.join(f'{sizes[k]} (p={ps[k]:.2g})' for k in beaten)}" if beaten else ""
    return (
        f"no run is shown to be best: {metric} of {names[best]} is {top}, {sizes[others[0]]}, not shown after "
        f"correction for {len(pairs)} pairs (p={ps[others[0]]:.2g}){rest}"
    )


def remarks_on(c: Comparison) -> Iterator[Remark]:
    """Say what makes a comparison doubtful, then what differs as it should."""
    yield from (Remark("warning", warning, "doubtful", "warning") for warning in notes_of_runs(c, c.warnings))
    yield from (Remark("note", note, "plain", "note") for note in comparison_notes(c))


def differences_table(c: Comparison) -> TableBlock:
    """List the means of every metric, what they differ by, and what that shows."""
    several = len(c.runs) > 2
    columns: TableColumns = ["run"] if several else []
    columns += ["metric", ("baseline", "number"), ("candidate", "number"), ("difference", "signed")]
    columns += [("95% interval", "signed interval"), ("p (Holm)", "p"), ("dz", "effect"), ("win/tie/loss", "counts")]
    columns += [("n", "count"), "shown"]
    unclear = any(_can_show(d) for d in c.differences)
    columns += [("can show", "share")] if unclear else []
    rows: list[tuple[Cell, ...]] = []
    for d in c.differences:
        means = (d.baseline_mean, d.candidate_mean, Toned(d.difference, _WAYS[d.way]), d.interval)
        least = (_can_show(d),) if unclear else ()
        row = (d.metric, *means, d.p_holm, d.dz, f"{d.wins}/{d.ties}/{d.losses}", d.n, finding_words(d), *least)
        rows.append((c.runs[d.candidate].name, *row) if several else row)
    for cuts in c.cuts:
        for metric, values in cuts.by_chunks.items():
            who = (c.runs[cuts.candidate].name,) if several else ()
            rows.append((*who, metric, *(values or (None, None)), *(None,) * (8 if unclear else 7)))
    return make_table("differences", columns, rows)


def curve_sections(c: Comparison) -> Iterator[Section]:
    """List what both runs read within some numbers of words, where they are compared in words."""
    for cuts in c.cuts:
        budgets = {*CURVE_WORDS} | ({cuts.budget} if cuts.headline else set())
        columns: TableColumns = [("words read", "count"), ("baseline", "number"), ("candidate", "number")]
        columns += [("difference", "signed"), ("95% interval", "signed interval")]
        rows: list[tuple[Cell, ...]] = [
            (point.words, point.baseline, point.candidate, point.difference, point.interval)
            for point in cuts.curve
            if point.words in budgets
        ]
        if rows:
            who = f"{c.runs[cuts.candidate].name}: " if len(c.runs) > 2 else ""
            title = f"{who}{cuts.curve_of} by the words read, with the evidence of both"
            yield Section("words read", (Sentence(title), make_table("words read", columns, rows)))


def _can_show(d: Difference) -> float | None:
    """Return the least difference that these traces can show, of one that is not shown."""
    return d.detectable if d.finding == "unclear" and not d.clear else None


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
    remark = Remark(
        "note",
        "the intervals also hold if chunks of one run alone are less often relevant, and flip half to twice as often; "
        "`compare --judge-again` asks about them",
        "plain",
        "note",
    )
    wide = any(part.wide for a in c.attributions for part in (a.retrieval, a.judge))
    yield Section("whose change", (make_table("whose change", columns, rows), *((remark,) if wide else ())))


def _pairs(c: Comparison) -> Iterator[Section]:
    if c.pairs:
        columns: TableColumns = ["metric", "all pairs", ("difference", "signed"), ("p (Holm)", "p")]
        names = [run.name for run in c.runs]
        rows = tuple((p.metric, f"{names[p.second]} - {names[p.first]}", p.difference, p.p) for p in c.pairs)
        yield Section("pairs", (make_table("all pairs", columns, rows),))


def _claims(c: Comparison, most: int) -> Iterator[Section]:
    for moved, sentence in zip(c.claims, claims_sentences(c), strict=True):
        table = moved_claims_table(moved.changes[:most], moved.lost + moved.won)
        yield Section("claims", (Sentence(sentence), *((table,) if table.rows or table.more else ())))


def moved_claims_table(changes: Sequence[ClaimChange], total: int) -> TableBlock:
    """List claims that were won or lost, of so many in total."""
    by_words = any(claim.read is not None for claim in changes)
    sides: TableColumns = ["read before", "read after"] if by_words else [("before", "strip"), ("after", "strip")]
    columns: TableColumns = ["what", "kind", *sides]
    columns += [Column("claim", cut=80), "trace", Column("question", wide=True)]
    rows = tuple(
        (
            Toned(claim.kind, "bad" if claim.kind == "lost" else "good"),
            vital_word(claim.vital),
            *(map(_place_read, claim.read) if claim.read is not None else map(_signs, (claim.before, claim.after))),
            *(claim.text, claim.trace_id, claim.query),
        )
        for claim in changes
    )
    return make_table("moved claims", columns, rows, max(0, total - len(rows)))


def _place_read(words: int | None) -> str:
    return "never" if words is None else f"at word {words:,}"


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
    traces = list(traces)
    searched = any(change.searched for change in traces)
    columns += [*((name, "signed") for name in metrics), Column("query", cut=50)]
    columns += [Column("searched", cut=100)] if searched else []
    rows = tuple(
        (
            *(change.trace_id, change_in_words(change), _strip(change.before), _strip(change.after, change.moves)),
            *(change.differences.get(name) for name in metrics),
            change.query,
            *([" / ".join(change.searched or ())] if searched else []),
        )
        for change in traces
    )
    return make_table("changed traces", columns, rows, total - len(rows))


def finding_words(d: Difference) -> str:
    """Say in a word or two what a difference shows."""
    if d.finding == "same":
        return "all the same"
    if d.finding == "unclear":
        return "too few traces" if d.too_few else "not after correction" if d.clear else "not shown"
    return f"{d.finding} ({'worse' if d.difference > 0 else 'better'})" if d.less_is_better else d.finding


def change_in_words(change: TraceChange) -> str:
    """Say what changed, with the claims that were won and lost."""
    parts = [] if change.kind == "claims" else [CHANGE_WORDS[change.kind]]
    for n, word in ((change.claims_lost, "lost"), (change.claims_won, "won")):
        parts += [f"{counted(n, 'claim')} {word}"] if n else []
    return ", ".join(parts)


def gate_section(checks: Sequence[Check]) -> Section:
    """Say of each limit whether it was kept, and which traces lost most, after a sentence on the whole gate."""
    items = [
        Toned(
            f"{NEUTRAL} {line}" if check.warns and not place else line,
            "plain" if place or check.outcome == "passed" else "strong",
        )
        for check in checks
        for place, line in enumerate(check_lines(check))
    ]
    return Section("gate", (Sentence(gate_title(checks), "strong"), Bullets(tuple(items))))


def gate_title(checks: Sequence[Check]) -> str:
    """Say whether a gate passed, and how many limits failed or are undecided."""
    failed = sum(not check.passed for check in checks)
    undecided = sum(check.passed and check.outcome == "undecided" for check in checks)
    title = f"Gate failed: {failed} of {len(checks)}" if failed else "Gate passed"
    if not failed and any(check.warns for check in checks):
        title += " with a warning"
    return f"{title}, {undecided} of {len(checks)} undecided" if undecided else title


def with_gate(checks: Sequence[Check], sections: Sequence[Section]) -> tuple[Section, ...]:
    """Add what became of the limits to what is read: a gate that failed or warns stands first, another last."""
    if not checks:
        return tuple(sections)
    gate = (gate_section(checks),)
    quiet = all(check.passed and not check.warns for check in checks)
    return (*sections, *gate) if quiet else (*gate, *sections)


def gate_view(checks: Sequence[Check], sections: Sequence[Section] = ()) -> View:
    """Build what people read of a gate, with what else is read."""
    return View("gate", with_gate(checks, sections))


def check_lines(check: Check) -> list[str]:
    """Say whether a limit was kept and by how much it was missed; then which traces to look at, if it was."""
    lines = [f"{check.outcome}: {check.kind} {check_sentence(check)}"]
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
