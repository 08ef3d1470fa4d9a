"""`prompts`: the texts the judge is given."""

from __future__ import annotations

from typing import Annotated

import typer

from judge_eval.cli.printing.door import tell, tell_lines
from judge_eval.cli.printing.errors import USAGE, verb
from judge_eval.given import prompt_name

app = typer.Typer(help="The texts the judge is given.", no_args_is_help=True)


@app.command("list")
@verb
def list_prompts() -> None:
    """List the prompts that come with the package, newest version first; an id alone means that one."""
    from judge_eval.cli.printing.output import say_table
    from judge_eval.prompts import load_prompt, prompt_ids, prompt_versions

    prompts = [load_prompt(f"{name}@{v}") for name in prompt_ids() for v in prompt_versions(name)]
    rows = [[p.ref, p.mode, p.scale, ", ".join(p.needs) or "nothing", p.digest[:12]] for p in prompts]
    say_table(["prompt", "mode", "scale", "needs besides the query", "digest"], rows)


@app.command("show")
@verb
def show_prompt(
    name: Annotated[str, typer.Argument(help="A prompt's id, with @VERSION for an older one, or file:PATH.")],
) -> None:
    """Show a prompt as the judge reads it."""
    from judge_eval.prompts import load_prompt

    prompt = load_prompt(prompt_name(name))
    tell(f"{prompt.ref}, {prompt.mode}, {prompt.scale}, digest {prompt.digest}")
    tell_lines("\n--- system ---")
    tell_lines(prompt.system.strip() + "\n" + prompt.contract.strip())
    tell_lines("\n--- user ---")
    tell_lines(prompt.user.strip())
    tell_lines("\n--- each chunk ---")
    tell_lines(prompt.titled_chunk.strip())


@app.command("check")
@verb
def check(
    name: Annotated[
        str | None, typer.Argument(help="A file of your own, as file:PATH; else all shipped.")
    ] = None,
) -> None:
    """Check a prompt file of your own, or that no shipped prompt was changed after its release."""
    from judge_eval.prompts import check_lock, load_prompt, lock

    if name is not None:
        prompt = load_prompt(prompt_name(name))
        tell(f"{prompt.ref} is well formed, digest {prompt.digest}")
        return
    faults = check_lock()
    for fault in faults:
        tell(fault)
    if faults:
        raise typer.Exit(USAGE)
    tell(f"{len(lock())} released texts agree with the LOCK")
