"""What people read of means that were corrected by labels."""

from collections.abc import Iterator

from judge_eval.safe_text import interval, number
from judge_eval.stats import CorrectedRate
from judge_eval.study.correct import Corrected, Correction
from judge_eval.study.label_plan import RIGHT, LabelPlan, PlannedSample
from judge_eval.views.blocks import Sentence, TableColumns, View, columns_of, make_section, make_table
from judge_eval.views.note_sentences import note_lines, note_sentence


def correction_view(corrected: Correction) -> View:
    """Build the table of corrected means, what each number shows, warnings and notes."""
    means = corrected.means.values()
    rows = (
        (
            *(mean.metric, mean.value, mean.interval, mean.judge_only, mean.labels_only),
            *("" if mean.chunks else f"{mean.power:.2f}", mean.n_labelled, worth(mean.effective_n, mean.chunks)),
        )
        for mean in means
    )
    names = columns_of("number", "judge alone", "labels alone", "weight of the judge")
    counts = columns_of("count", "labelled", "worth")
    columns: TableColumns = ["metric", ("corrected", "number"), ("95% interval", "interval"), *names, *counts]
    parts = [[f"What this shows about {mean.metric}:", *explain_mean(mean)] for mean in means]
    warnings = [warning for mean in means for warning in mean.warnings]
    if (rate := corrected.rate) is not None:
        parts.append(["And about the share of relevant chunks:", *_explain_rate(rate)])
        warnings += rate.warnings
    doubts = [Sentence(f"warning: {note_sentence(doubt)}", "doubtful") for doubt in dict.fromkeys(warnings)]
    end: list[Sentence | str] = [*doubts, *note_lines(corrected.notes)]
    means_table = make_section("means", make_table("means", columns, rows))
    explained = [make_section("explanation", head, *(f"- {line}" for line in lines)) for head, *lines in parts]
    *first, last = means_table, *explained
    title = make_section("title", f"{corrected.run}, corrected by {corrected.labels}")
    return View("correction", (title, *first, make_section(last.name, *last.blocks, *end)))


_WAYS = {
    ("traces", "none"): "traces, all with the same chance",
    ("traces", "neyman"): "traces, by strata with Neyman allocation",
    ("traces", "uncertain"): "traces, more of those where labels should differ from verdicts",
    ("chunks", "none"): "single chunks, all with the same chance",
    ("chunks", "metric"): "single chunks, more of those whose label moves the metric",
}


def label_plan_sentences(plan: LabelPlan, taken: PlannedSample) -> Iterator[str]:
    """Say what a half width takes, which way is taken, and whether another one takes fewer labels."""
    known = f"the judge's errors on {plan.pilot:,} labelled chunks" if plan.pilot else f"{RIGHT:.0%} of verdicts right"
    yield f"{plan.metric} +-{plan.target:g} was planned with {known}, and with errors that are independent:"
    for option in plan.options:
        short = "" if option.reached else f", which gives only +-{option.half_width:.3f}: too few are left"
        mark = " (taken)" if option is taken else ""
        yield f"- {option.n:,} {_WAYS[option.unit, option.by]}: {option.chunks:,} chunks to read{short}{mark}"
    best = plan.options[0]
    if best.unit != taken.unit and best.chunks < 0.9 * taken.chunks:
        other = "labels of single chunks" if best.unit == "chunks" else "labels of whole traces"
        yield f"{other} would take fewer chunks to read"


def worth(effective_n: float | None, chunks: int = 0) -> str:
    """Say what the labels are worth together with the judge; empty where no error could be estimated."""
    return "" if effective_n is None else f"{effective_n:.0f} {'chunk ' if chunks else ''}labels"


def explain_mean(m: Corrected) -> list[str]:
    """Explain a corrected mean: a sentence a number."""
    span = f" (95% interval {interval(m.interval)})" if m.interval else ""
    of = f"of {m.chunks:,} chunks in {m.n_labelled:,} traces" if m.chunks else ""
    alone = f"the mean of the {m.n_labelled:,} labelled traces"
    sentences = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        f"from their labels {of}{of and ' '}and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: {'the same from the labelled chunks' if m.chunks else alone}, without "
        "the judge",
    ]
    if not m.chunks:
        sentences.append(
            f"weight of the judge {m.power:.2f}: how far its verdicts move the estimate, from 0 (the labels "
            "alone count) to 1 (its verdicts count in full)"
        )
    if m.effective_n is not None:
        sure, by = f"{m.effective_n:.0f} traces labelled by people", m.chunks or m.n_labelled
        sentences.append(
            f"worth {worth(m.effective_n, m.chunks)}: as sure as {'that many labelled chunks' if m.chunks else sure} "
            f"without a judge; {by:,} were labelled, so the judge {_gained(m.effective_n, by)}"
        )
    return sentences


def _explain_rate(rate: CorrectedRate) -> list[str]:
    accepted, rejected = (f"{100 * share:.0f}" for share in (rate.sensitivity, rate.specificity))
    span = f" (95% interval {interval(rate.interval)})" if rate.interval else ""
    return [
        "corrected: not possible, because the judge is not better than chance"
        if rate.value is None
        else f"corrected {number(rate.value)}{span}: corrected for the judge's errors",
        f"judge alone {number(rate.judge_only)}: the share of chunks that it calls relevant",
        f"sensitivity {number(rate.sensitivity)}: of 100 relevant chunks it finds {accepted}",
        f"specificity {number(rate.specificity)}: of 100 irrelevant chunks it rejects {rejected}",
    ]


def _off(judge: float, corrected: float) -> str:
    gap = judge - corrected
    if abs(gap) < 0.0005:  # four decimals hardly show it
        return "as good as the corrected one"
    return f"{abs(gap):.4f} {'above' if gap > 0 else 'below'} the corrected one"


def _gained(effective: float, labelled: int) -> str:
    gain = round(effective - labelled)
    return f"saved the labelling of {gain} more" if gain > 0 else "saved no labels"
