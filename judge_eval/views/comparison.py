"""What people read of a comparison: all its sentences, remarks and tables."""

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic_core import to_json

from judge_eval.compare.comparison import Change, Check, Checks, ClaimChange, Comparison, Difference, TraceChange, Way
from judge_eval.runs.scoring.aggregate import less_is_better, main_metric
from judge_eval.safe_text import counted
from judge_eval.views import blocks
from judge_eval.views.blocks import (
    DIFFERENCE,
    Column,
    Remark,
    Section,
    Sentence,
    TableColumns,
    Toned,
    View,
    make_section,
    make_table,
)
from judge_eval.views.claims import vital_word
from judge_eval.views.findings import claims_sentences, comparison_notes, headlines, without_opening
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
CHANGE_WORDS: Final[dict[Change, str]] = {
    "retrieval": "retrieval changed",
    "verdicts": "verdict flipped",
    "both": "retrieval changed, verdict flipped",
    "claims": "claim won or lost",
    "scores": "only the scores changed",
}
_WAYS: Final[dict[Way, Tone]] = {"better": "good", "worse": "bad", "unsure": "plain"}
RUN: Final = Column("run", optional=True)
"""Which candidate a row is of, if there are several."""
_SIGNS: Final[dict[str, Tone]] = {"+": "good", ".": "quiet", "!": "bad"}


def comparison_view(comparison: Comparison, *, traces: int, claims: int) -> View:
    """Build what people read of a comparison, with so many changed traces and claims a candidate."""
    sections = (
        make_section("title", *_opening(comparison)),
        make_section("differences", differences_table(comparison)),
        *curve_sections(comparison),
        *attribution_sections(comparison),
        *slice_sections(comparison.slices, "no change"),
        *_pairs(comparison),
        *_claims(comparison, claims),
        *_changes(comparison, traces),
    )
    return View("comparison", sections)


@blocks.view_of.register
def notebook_comparison(comparison: Comparison) -> View:
    """Build what a notebook shows of a comparison: what was found, and the gate if there is one."""
    shown = comparison_view(comparison, traces=NOTEBOOK_TRACES, claims=NOTEBOOK_TRACES)
    return View("gate", with_gate(comparison.checks, shown.sections))


@blocks.view_of.register
def notebook_checks(checks: Checks) -> View:
    """Build what a notebook shows of the checks of a gate."""
    return View("gate", with_gate(checks, ()) or (make_section("gate", "no limit"),))


def comparison_json(comparison: Comparison) -> str:
    """Return a comparison as JSON, with its sentences."""
    data = comparison.model_dump(mode="json")
    data |= {"warnings": notes_of_runs(comparison, comparison.warnings), "notes": comparison_notes(comparison)}
    for made, check in zip(data["checks"], comparison.checks, strict=True):
        made["sentence"] = check_sentence(check)
    return to_json(data, indent=2).decode()


def _opening(c: Comparison) -> Iterator[blocks.ViewBlock]:
    names = [link for run in c.runs[1:] for link in (blocks.Link(", "), blocks.Link(run.name, run.href))][1:]
    baseline = (blocks.Link(" against "), blocks.Link(c.baseline.name, c.baseline.href), blocks.Link(" (baseline)"))
    yield blocks.Headline((*names, *baseline), "### ")
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


def differences_table(c: Comparison) -> blocks.TableBlock:
    """List the means of every metric, what they differ by, and what that shows."""
    rows: list[tuple[blocks.Cell, ...]] = []
    for d in c.differences:
        means = d.baseline_mean, d.candidate_mean, Toned(d.difference, _WAYS[d.way]), d.interval
        least = d.detectable if d.finding == "unclear" and not d.clear else None  # that these traces can show
        shown = f"{d.wins}/{d.ties}/{d.losses}", d.n, finding_words(d), least
        rows.append((_candidate(c, d.candidate), d.metric, *means, d.p_holm, d.dz, *shown))
    for cuts in c.cuts:
        for metric, values in cuts.by_chunks.items():
            rows.append((_candidate(c, cuts.candidate), metric, *(values or (None, None)), *(None,) * 8))
    columns: TableColumns = [
        *(RUN, "metric", ("baseline", "number"), ("candidate", "number"), *DIFFERENCE, ("p (Holm)", "p")),
        *(("dz", "effect"), ("win/tie/loss", "counts"), ("n", "count"), "shown"),
        Column("can show", "share", optional=True),
    ]
    return make_table("differences", columns, rows)


def _candidate(c: Comparison, place: int) -> str:
    """Name a candidate, if there are several."""
    return c.runs[place].name if len(c.runs) > 2 else ""


def curve_sections(c: Comparison) -> Iterator[Section]:
    """List what both runs read within some numbers of words, where they are compared in words."""
    columns: TableColumns = [
        ("words read", "count"),
        *blocks.columns_of("number", "baseline", "candidate"),
        *DIFFERENCE,
    ]
    for cuts in c.cuts:
        budgets = {250, 500, 1000, 2000} | ({cuts.budget} if cuts.headline else set())
        points = [point for point in cuts.curve if point.words in budgets]
        if points:
            rows = ((p.words, p.baseline, p.candidate, p.difference, p.interval) for p in points)
            who = _candidate(c, cuts.candidate)
            title = f"{who}{who and ': '}{cuts.curve_of} by the words read, with the evidence of both"
            yield make_section("words read", title, make_table("words read", columns, rows))


def attribution_sections(c: Comparison) -> Iterator[Section]:
    """List of each difference what retrieval and what the judge contributes; nothing if one judge judged all."""
    if not c.attributions:
        return
    columns: TableColumns = [
        *(RUN, "whose change", ("difference", "signed"), ("by retrieval", "signed"), DIFFERENCE[1]),
        *(("by the judge", "signed"), DIFFERENCE[1], ("both verdicts", "share")),
    ]
    rows = (
        (
            *(_candidate(c, a.candidate), a.metric, a.difference, a.retrieval.value, a.retrieval.interval),
            *(a.judge.value, a.judge.interval, a.shared),
        )
        for a in c.attributions
    )
    remark = Remark(
        "note",
        "the intervals also hold if chunks of one run alone are less often relevant, and flip half to twice as often; "
        "`compare --judge-again` asks about them",
        "plain",
        "note",
    )
    wide = any(part.wide for a in c.attributions for part in (a.retrieval, a.judge))
    yield make_section("whose change", make_table("whose change", columns, rows), *((remark,) if wide else ()))


def _pairs(c: Comparison) -> Iterator[Section]:
    if c.pairs:
        columns: TableColumns = ["metric", "all pairs", ("difference", "signed"), ("p (Holm)", "p")]
        rows = [(p.metric, f"{c.runs[p.second].name} - {c.runs[p.first].name}", p.difference, p.p) for p in c.pairs]
        yield make_section("pairs", make_table("all pairs", columns, rows))


def _claims(c: Comparison, most: int) -> Iterator[Section]:
    for moved, sentence in zip(c.claims, claims_sentences(c), strict=True):
        table = moved_claims_table(moved.changes[:most], moved.lost + moved.won)
        yield make_section("claims", sentence, *((table,) if table.rows or table.more else ()))


def moved_claims_table(changes: Sequence[ClaimChange], total: int) -> blocks.TableBlock:
    """List claims that were won or lost, of so many in total."""
    by_words = any(claim.read is not None for claim in changes)
    sides: TableColumns = ["read before", "read after"] if by_words else [("before", "strip"), ("after", "strip")]
    claim_columns = Column("claim", cut=80), "trace", Column("question", wide=True)
    columns: TableColumns = ["what", "kind", *sides, *claim_columns]
    rows = tuple(
        (
            Toned(claim.kind, "bad" if claim.kind == "lost" else "good"),
            vital_word(claim.vital),
            *(map(_signs, (claim.before, claim.after)) if claim.read is None else map(_place_read, claim.read)),
            *(claim.text, claim.trace_id, claim.query),
        )
        for claim in changes
    )
    return make_table("moved claims", columns, rows, max(0, total - len(rows)))


def _changes(c: Comparison, most: int) -> Iterator[Section]:
    metrics = list(dict.fromkeys(d.metric for d in c.differences))[:3]
    columns: TableColumns = [
        *("trace", "what", ("before", "strip"), ("after", "strip"), *blocks.columns_of("signed", *metrics)),
        *(Column("query", cut=50), Column("searched", cut=100, optional=True)),
    ]
    for place, (run, counts) in enumerate(zip(c.runs[1:], c.changed, strict=True), 1):
        if not counts:
            yield make_section("changes", f"{run.name}: no trace changed")
            continue
        total = sum(counts.values())
        kinds = ", ".join(f"{CHANGE_WORDS[kind]}: {n}" for kind, n in sorted(counts.items()))
        rows = [
            (
                *(change.trace_id, change_in_words(change), _strip(change.before), _strip(change.after, change.moves)),
                *(change.differences.get(name) for name in metrics),
                *(change.query, " / ".join(change.searched or ())),
            )
            for change in [trace for trace in c.traces if trace.candidate == place][:most]
        ]
        sentence = f"{run.name}: {counted(total, 'trace')} changed ({kinds})"
        table = make_table("changed traces", columns, rows, total - len(rows))
        yield make_section("changes", sentence, table, folded=counted(total, "changed trace"))


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
    items = [
        Toned(
            f"\u26aa {line}" if check.warns and not place else line,  # undecided, and passes with a warning
            "plain" if place or check.outcome == "passed" else "strong",
        )
        for check in checks
        for place, line in enumerate(check_lines(check))
    ]
    gate = make_section("gate", Sentence(gate_title(checks), "strong"), blocks.Bullets(tuple(items)))
    quiet = all(check.passed and not check.warns for check in checks)
    return (*sections, gate) if quiet else (gate, *sections)


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


def _place_read(words: int | None) -> str:
    return "never" if words is None else f"at word {words:,}"


def _signs(signs: str) -> blocks.Strip:
    return blocks.Strip(tuple(blocks.Mark(sign) for sign in signs))


def _strip(signs: str, moves: tuple[str, ...] | None = None) -> blocks.Strip:
    """Draw a retrieval; of a candidate each mark says at which rank its chunk stood in the baseline."""
    marks = []
    for rank, sign in enumerate(signs, 1):
        title, moved = f"rank {rank}", False
        if moves is not None:
            was = moves[rank - 1]
            title, moved = f"{title}, was {was}" if was else f"{title}, new", was != str(rank)
        marks.append(blocks.Mark(sign, _SIGNS.get(sign, "good"), title, moved))
    return blocks.Strip(tuple(marks))
