"""What people read of a fitted cascade: its judges, its threshold, the evidence and the cost."""

from judge_eval.digest import short
from judge_eval.stats.cascade_threshold import CascadeFit
from judge_eval.study.cascade_file import CascadeFile, CascadeStage
from judge_eval.views.blocks import Sentence, View, make_section, make_table
from judge_eval.views.note_sentences import note_lines
from judge_eval.views.tones import Tone


def cascade_view(file: CascadeFile) -> View:
    """Build what people read of a cascade: who judges, the threshold, and what 1,000 verdicts cost."""
    fit = file.fit
    target = f"the labels ({file.labels})" if fit.target == "people" else "the strong judge's answers"
    title = make_section(
        "title",
        f"cascade {short(file.digest)}: {_stage(file.cheap)}, then {_stage(file.strong)}",
        f"fitted on {fit.n} of {file.traces} traces of {file.dataset}, "
        f"{one_of_clusters(file.clusters, file.cluster)}one random chunk of each (seed {file.seed}); "
        f"target: {target}, alpha {fit.alpha:g}, confidence {fit.level:g}",
    )
    figures = {
        "answers other than the target's": f"{fit.errors} of {fit.n}",
        "allowed": "none: too few traces" if fit.allowed is None else str(fit.allowed),
        f"bound of the risk ({fit.level:.4g} sure)": "none" if fit.bound is None else f"{fit.bound:.4f}",
        "cheap verdicts that stand": f"{fit.kept} of {fit.n} ({fit.coverage:.1%})",
        "risk within these": fit.kept_risk.text,
        "said relevant, is not": str(fit.wrongly_relevant),
        "said not relevant, is": str(fit.wrongly_irrelevant),
        "errors of the cheap judge alone": fit.cheap_alone.text,
    }
    if fit.strong_alone is not None:
        figures["errors of the strong judge alone"] = fit.strong_alone.text
    if fit.over_strong is not None:
        figures["risk of the cascade minus the strong judge's"] = fit.over_strong.text
    if file.explain_positives:
        figures["relevant verdicts of the cheap judge"] = "are escalated, for a reason and a quote"
    if file.depth is not None:
        figures["chunks read of a trace"] = f"the first {file.depth}, here and in use"
    costs = (
        (name, _amount(each.tokens, ",.0f"), _amount(each.cost, ",.4f"))
        for name, each in (("cheap", file.cheap), ("strong", file.strong), ("cascade", file))
    )
    sample = make_table("sample", ["figure", "of the sample"], figures.items())
    cost = make_table("cost", ["a thousand verdicts", ("tokens", "count"), ("US dollars", "number")], costs)
    tone: Tone = "good" if fit.holds and fit.threshold is not None else "bad"
    sections = (
        title,
        make_section("threshold", Sentence(_threshold(fit), tone)),
        make_section("sample", sample),
        make_section("cost", cost),
        make_section("choice", _choice(file), *note_lines(file.notes)),
    )
    return View("cascade", sections)


def one_of_clusters(clusters: int | None, key: str | None) -> str:
    """Say of how many clusters one trace each was drawn; empty if no two traces share a cluster."""
    return "" if clusters is None else f"one of a cluster ({clusters} by metadata.{key}), "


def _threshold(fit: CascadeFit) -> str:
    if fit.threshold is not None:
        none = "" if fit.kept else "; none of the sample was as sure, so everything was escalated"
        return f"a cheap verdict is kept from a confidence of {fit.threshold:.2f}{none}"
    if fit.allowed is None:
        return f"everything escalates: {fit.n} traces are too few, at least {fit.needed} are needed"
    if not fit.holds:
        return "everything escalates, without a guarantee: the strong judge itself errs too often"
    return "everything escalates: no threshold leaves few enough errors"


def _choice(file: CascadeFile) -> str:
    if file.choice == "cheap":
        return "the cheap judge alone is as good: nothing of the sample was escalated"
    if file.choice == "strong" and not file.fit.kept:
        return "use the strong judge alone: it is asked about everything anyway"
    if file.cost is None or not file.strong.cost or file.cheap.cost is None:
        cheap, strong, both = file.cheap.tokens, file.strong.tokens, file.tokens
        if cheap is None or strong is None or both is None:
            return "it is not known whether the cascade pays: the tokens of verdicts are not known"
        return (
            "a price is not known: the cascade costs less than the strong judge alone if a token of the "
            f"cheap one costs less than {(strong + cheap - both) / cheap:.2f} of the strong one's"
        )
    if file.choice == "cascade":
        return f"the cascade saves {1 - file.cost / file.strong.cost:.0%} of the strong judge's cost"
    if file.cheap.cost >= file.strong.cost:
        return "use the strong judge alone: it costs less, however much is kept"
    return (
        f"use the strong judge alone: a cascade costs less from {file.cheap.cost / file.strong.cost:.0%} kept on, and "
        f"{file.fit.coverage:.0%} are"
    )


def _stage(stage: CascadeStage) -> str:
    return f"{stage.model} ({stage.prompt}, {stage.mode})"


def _amount(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)
