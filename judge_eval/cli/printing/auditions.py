"""A cascade that was fitted, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from judge_eval.alignment.cascade import CascadeFile, CascadeStage, CascadeThreshold
from judge_eval.cli.printing.door import BAD, GOOD, remark, tell
from judge_eval.digest import short

if TYPE_CHECKING:
    from judge_eval.auditions import Audition, Drawn
    from judge_eval.engine import Plan
    from judge_eval.schema import Stage


def show_cascade(file: CascadeFile) -> None:
    """Print who judges, the threshold with what it rests on, and what a thousand verdicts cost."""
    from judge_eval.cli.printing.output import figure, say, say_table

    fit = file.fit
    people = fit.target == "people"
    whose = f"the labels ({file.labels})" if people else "the strong judge's answers"
    say(f"cascade {short(file.digest)}: {_who(file.cheap)}, then {_who(file.strong)}")
    say(
        f"fitted on {fit.n} of {file.traces} traces of {file.dataset}, {_one_of(file)}one random chunk of "
        f"each (seed {file.seed}); target: {whose}, alpha {fit.alpha:g}, confidence {fit.level:g}"
    )
    say()
    say(threshold_line(fit), GOOD if fit.holds and fit.threshold is not None else BAD)
    say()
    rows = [["answers other than the target's", f"{fit.errors} of {fit.n}"]]
    rows.append(["allowed", "none: too few traces" if fit.allowed is None else str(fit.allowed)])
    bound = "none" if fit.bound is None else f"{fit.bound:.4f}"
    rows.append([f"bound of the risk ({fit.level:.4g} sure)", bound])
    rows.append(["cheap verdicts that stand", f"{fit.kept} of {fit.n} ({fit.coverage:.1%})"])
    rows.append(["risk within these", figure(fit.kept_risk)])
    rows.append(["said relevant, is not", str(fit.wrongly_relevant)])
    rows.append(["said not relevant, is", str(fit.wrongly_irrelevant)])
    rows.append(["errors of the cheap judge alone", figure(fit.cheap_alone)])
    if fit.strong_alone is not None:
        rows.append(["errors of the strong judge alone", figure(fit.strong_alone)])
    if fit.over_strong is not None:
        rows.append(["risk of the cascade minus the strong judge's", figure(fit.over_strong)])
    say_table(["figure", "of the sample"], rows)
    say()
    costs = [
        ["cheap", _tokens(file.cheap.tokens), _dollars(file.cheap.cost)],
        ["strong", _tokens(file.strong.tokens), _dollars(file.strong.cost)],
        ["cascade", _tokens(file.tokens), _dollars(file.cost)],
    ]
    say_table(["a thousand verdicts", "tokens", "US dollars"], costs, right=(1, 2))
    say()
    say(choice_line(file))
    for note in file.notes:
        say(f"note: {note}")


def threshold_line(fit: CascadeThreshold) -> str:
    """Say from where on a cheap verdict stands, and whether that keeps the risk."""
    if fit.threshold is not None:
        none = "" if fit.kept else "; none of the sample was as sure, so everything was escalated"
        return f"a cheap verdict stands from a confidence of {fit.threshold:.2f}{none}"
    if fit.allowed is None:
        return f"everything escalates: {fit.n} traces are too few, at least {fit.needed} are needed"
    if not fit.holds:
        return "everything escalates, without a guarantee: the strong judge itself errs too often"
    return "everything escalates: no threshold leaves few enough errors"


def choice_line(file: CascadeFile) -> str:
    """Say whether the cascade pays, or a plain judge is as good or cheaper."""
    if file.choice == "cheap":
        return "the cheap judge alone is as good: nothing of the sample was escalated"
    if file.choice == "strong" and not file.fit.kept:
        return "use the strong judge alone: it is asked about everything anyway"
    if file.cost is None or not file.strong.cost:
        if file.price_ratio is None:
            return "what verdicts take is not known, so nothing is said of whether the cascade pays"
        return (
            "a price is not known: the cascade costs less than the strong judge alone where a token of the "
            f"cheap one costs less than {file.price_ratio:.2f} of the strong one's"
        )
    if file.choice == "cascade":
        return f"the cascade saves {1 - file.cost / file.strong.cost:.0%} of the strong judge's cost"
    if file.break_even is None:
        return "use the strong judge alone: it costs less, however much is kept"
    return (
        f"use the strong judge alone: a cascade costs less from {file.break_even:.0%} kept on, and "
        f"{file.fit.coverage:.0%} are"
    )


def show_audition(audition: Audition, drawn: Drawn) -> None:
    """Print what asking both judges about the sample would take."""
    from judge_eval.cli.printing.plans import stage_cost

    tell(
        f"{drawn.dataset}: {len(drawn.traces)} of {drawn.eligible} traces drawn, {_one_of(drawn)}"
        f"{sum(len(trace.chunks) for trace in drawn.traces)} chunks for the cheap judge, one of each trace "
        "for the strong one"
    )
    plans: dict[Stage, Plan] = audition.plans(drawn)
    for stage, plan in plans.items():
        tell(f"{stage}: {plan.calls} calls, {plan.hits} answered without one")
        if plan.calls:
            tell(f"  {stage_cost(audition.evaluator, stage, plan)}")
    remark("nobody was asked")


def _one_of(told: CascadeFile | Drawn) -> str:
    """Say of which clusters one trace each was drawn; empty where no two traces share one."""
    if told.clusters is None:
        return ""
    return f"one of a cluster ({told.clusters} by metadata.{told.cluster}), "


def _who(stage: CascadeStage) -> str:
    return f"{stage.model} ({stage.prompt}, {stage.mode})"


def _tokens(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4f}"
