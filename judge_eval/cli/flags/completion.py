"""What the shell offers on Tab."""

from pathlib import Path

import typer


def metrics(incomplete: str) -> list[str]:
    """Offer metrics after the last comma, those with a cutoff at 5."""
    from judge_eval.metrics import metric_names

    before, comma, _ = incomplete.rpartition(",")
    names = [name.replace("@K", "@5").replace("_K", "_5") for name in metric_names()]
    return [whole for name in names if (whole := f"{before}{comma}{name}").startswith(incomplete)]


def prompts(incomplete: str) -> list[str]:
    """Offer the prompts that come with the package."""
    from judge_eval.prompts import prompt_ids

    return [name for name in prompt_ids() if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Offer the providers, and the names of the fake judges."""
    from judge_eval.llm.fake.fake_backend import RULES
    from judge_eval.registry import provider_names

    known = [*(f"fake/{rule}" for rule in RULES), *(f"{name}/" for name in provider_names())]
    return [name for name in known if name.startswith(incomplete)]


def judges(incomplete: str) -> list[str]:
    """Offer the judges of installed packages."""
    from judge_eval.registry import names

    return [name for name in names("judges") if name.startswith(incomplete)]


def runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the newest runs by id and label, with what they are."""
    from judge_eval.runs.keeping.lookup import list_runs

    out = Path(context.params.get("out") or "runs")
    offered = [("latest", "the newest run")]
    for _, manifest in list_runs(out)[:50]:
        offered.append((manifest.id[:8], f"{manifest.label or manifest.dataset.name}, {manifest.status}"))
        if manifest.label and " " not in manifest.label:
            offered.append((f"label:{manifest.label}", "the newest run of this label"))
    return list(dict(o for o in reversed(offered) if o[0].startswith(incomplete)).items())[::-1]
