"""`prompts`: the texts the judge is given."""

from pathlib import Path
from typing import Annotated

import typer

from judge_eval.cli.exit_codes import OK, USAGE, VerbGroup
from judge_eval.cli.printing.output import show, tell, tell_lines
from judge_eval.errors import ConfigError
from judge_eval.safe_text import prompt_name
from judge_eval.settings import setting

app = VerbGroup("The texts the judge is given.")


@app.verb("list")
def list_prompts() -> None:
    """List the prompts of the package, newest version first; an id without a version means the newest.

    The digest is the start of `judge.prompt.digest` in a run's manifest.

    Example:
    judge-eval prompts list
    """
    from judge_eval.digest import short
    from judge_eval.prompts import CellPrompt, ClaimsPrompt, load_form, prompt_ids, prompt_versions
    from judge_eval.views.blocks import table_view

    rows = []
    for form in (load_form(f"{name}@{v}") for name in prompt_ids() for v in prompt_versions(name)):
        p = form.prompt
        needs = ", ".join(p.needs) or "nothing"
        scale = p.grades.name
        if isinstance(p, ClaimsPrompt | CellPrompt):  # whose verdicts follow by a rule
            scale, needs = "-" if p.mode == "split" else "either", ", ".join(p.needs) or "claims"
        rows.append((p.ref, p.mode, scale, needs, short(form.digest.hex())))
    show(table_view(["prompt", "mode", "scale", "needs besides the query", "digest"], rows))


@app.verb("show")
def show_prompt(
    name: Annotated[str, typer.Argument(help="A prompt's id, with @VERSION for an older one, or the path of a file.")],
    toml: bool = setting(False, "Print the prompt's file, as a start for your own."),
) -> None:
    """Show a prompt as the judge reads it.

    Examples:
    judge-eval prompts show support/graded
    judge-eval prompts show support/graded --toml
    """
    from judge_eval.prompts import CellForm, DecisionForm, load_form
    from judge_eval.prompts.shipped import prompt_text
    from judge_eval.wire import DecisionQuestion

    if toml:
        tell_lines(prompt_text(prompt_name(name)).rstrip("\n"))
        return
    form = load_form(prompt_name(name))
    prompt = form.prompt
    tell(f"{prompt.ref}, {prompt.mode}, {prompt.grades.name}, digest {form.digest.hex()}")
    if isinstance(form, DecisionForm):
        question = DecisionQuestion("", "", {}, form.prompt.described, prompt.grades.minimum)
        levels = "".join(f"\n{line}" for line in question.level_lines)
        parts = {
            "rules": prompt.with_levels(form.prompt.rules.strip()),
            "the question about each chunk": form.prompt.question.strip() + levels,
        }
    elif isinstance(form, CellForm):
        parts = {
            "rules": prompt.with_levels(form.prompt.rules.strip()),
            "the question about each claim and each chunk": form.prompt.question.strip(),
            "the question about each claim and all chunks": form.prompt.together.strip(),
        }
    else:
        parts = {"system": form.system, "user": form.prompt.user.strip()}
        if form.prompt.titled_chunk:
            parts["each chunk"] = form.prompt.titled_chunk.strip()
    for name, text in parts.items():
        tell_lines(f"\n--- {name} ---\n{text}")


@app.verb("new")
def new_prompt(file: Annotated[Path, typer.Argument(help="The file to write, such as my.toml.")]) -> None:
    """Write a commented prompt file as a start for your own; overwrite nothing.

    Example:
    judge-eval prompts new my.toml
    """
    from importlib import resources

    starter = resources.files("judge_eval.cli") / "starter" / "prompt.toml"
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(starter.read_text(encoding="utf-8"))
    except FileExistsError:
        raise ConfigError(f"{file} already exists; nothing was written: name another file") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
    tell(f"wrote {file}")
    tell(f"check it: judge-eval prompts check {file}")


@app.verb("check")
def check(
    name: Annotated[
        str | None, typer.Argument(help="The path of a file of your own. Default: all shipped prompts.")
    ] = None,
) -> int:
    """Check a prompt file of your own, or that no shipped prompt was changed after its release.

    Examples:
    judge-eval prompts check my.toml
    judge-eval prompts check
    """
    from judge_eval.prompts import check_lock, load_form, lock

    if name is not None:
        form = load_form(prompt_name(name))
        tell(f"{form.prompt.ref} is well formed, digest {form.digest.hex()}")
        return OK
    faults = check_lock()
    for line in faults or [f"{len(lock())} released prompts match the LOCK"]:
        tell(line)
    return USAGE if faults else OK
