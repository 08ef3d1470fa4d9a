"""What people read of means that were corrected by labels."""

from collections.abc import Iterator
from dataclasses import replace

from judge_eval.safe_text import interval, number
from judge_eval.stats import CorrectedRate
from judge_eval.study.correct import Corrected, Correction
from judge_eval.study.label_plan import RIGHT, LabelPlan, PlannedSample
from judge_eval.views.blocks import Section, Sentence, TableColumns, View, make_table
from judge_eval.views.note_sentences import note_sentence

_SLIGHT = 0.0005
"""A difference that four decimals hardly show."""


def correction_view(corrected: Correction) -> View:
    """Build the table of corrected means, what each number shows, warnings and notes."""
    names = ("judge alone", "labels alone", "weight of the judge")
    numbers: TableColumns = [("corrected", "number"), ("95% interval", "interval")]
    numbers += [*((name, "number") for name in names), ("labelled", "count"), ("worth", "count")]
    rows = (
        (
            *(mean.metric, mean.value, mean.interval, mean.judge_only, mean.labels_only),
            *("" if mean.chunks else f"{mean.power:.2f}", mean.n_labelled, worth(mean.effective_n, mean.chunks)),
        )
        for mean in corrected.means.values()
    )
    explained = [(f"What this shows about {m.metric}:", explain_mean(m), m.warnings) for m in corrected.means.values()]
    if (rate := corrected.rate) is not None:
        explained.append(("And about the share of relevant chunks:", explain_rate(rate), rate.warnings))
    warnings = dict.fromkeys(warning for *_, each in explained for warning in each)
    sections = [
        Section("title", (Sentence(f"{corrected.run}, corrected by {corrected.labels}"),)),
        Section("means", (make_table("means", ["metric", *numbers], rows),)),
        *(
            Section("explanation", (Sentence(head), *(Sentence(f"- {each}") for each in sentences)))
            for head, sentences, _ in explained
        ),
    ]
    end = (
        *(Sentence(f"warning: {warning}", "doubtful") for warning in warnings),
        *(Sentence(f"note: {note_sentence(note)}") for note in corrected.notes),
    )
    last = replace(sections[-1], blocks=(*sections[-1].blocks, *end))
    return View("correction", (*sections[:-1], last))


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
    if m.chunks:
        return _explain_chunks(m, span)
    sentences = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        "from their labels and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: the mean of the {m.n_labelled:,} labelled traces, without the judge",
        f"weight of the judge {m.power:.2f}: how far its verdicts move the estimate, from 0 (the labels "
        "alone count) to 1 (its verdicts count in full)",
    ]
    if m.effective_n is not None:
        sentences.append(
            f"worth {worth(m.effective_n)}: as sure as {m.effective_n:.0f} traces labelled by people without "
            f"a judge; {m.n_labelled:,} were labelled, so the judge {_gained(m.effective_n, m.n_labelled)}"
        )
    return sentences


def _explain_chunks(m: Corrected, span: str) -> list[str]:
    sentences = [
        f"corrected {number(m.value)}{span}: what people would find as the mean of all traces, estimated "
        f"from their labels of {m.chunks:,} chunks in {m.n_labelled:,} traces and the judge together",
        f"judge alone {number(m.judge_only)}: the mean of its verdicts, {_off(m.judge_only, m.value)}",
        f"labels alone {number(m.labels_only)}: the same from the labelled chunks, without the judge",
    ]
    if m.effective_n is not None:
        sentences.append(
            f"worth {worth(m.effective_n, m.chunks)}: as sure as that many labelled chunks without a judge; "
            f"{m.chunks:,} were labelled, so the judge {_gained(m.effective_n, m.chunks)}"
        )
    return sentences


def explain_rate(rate: CorrectedRate) -> list[str]:
    """Explain the share of relevant chunks: a sentence a number."""
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
    if abs(gap) < _SLIGHT:
        return "as good as the corrected one"
    return f"{abs(gap):.4f} {'above' if gap > 0 else 'below'} the corrected one"


def _gained(effective: float, labelled: int) -> str:
    gain = round(effective - labelled)
    return f"saved the labelling of {gain} more" if gain > 0 else "saved no labels"
