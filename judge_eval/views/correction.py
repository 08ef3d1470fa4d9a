"""What people read of means that were corrected by labels."""

from collections.abc import Iterator
from dataclasses import replace

from judge_eval.study.correct import Correction, explain_mean, explain_rate, worth
from judge_eval.study.label_plan import RIGHT, LabelPlan, PlannedSample
from judge_eval.views.blocks import Section, Sentence, TableColumns, View, make_table


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
        *(Sentence(f"note: {note}") for note in corrected.notes),
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
