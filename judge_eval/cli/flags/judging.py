"""The flags on judging: who judges, by which prompt, alone or in a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from judge_eval.cli.flags import completion
from judge_eval.cli.flags.calling import CallingFlags
from judge_eval.cli.flags.groups import ENV, SET, only
from judge_eval.cli.flags.numbers import JUDGING, NumbersFlags
from judge_eval.errors import ConfigError
from judge_eval.given import prompt_name

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.judges import Judge

_flag = partial(typer.Option, rich_help_panel=JUDGING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingFlags:
    """Who judges, and how."""

    model: Annotated[
        str | None,
        _flag(
            "--model",
            "-m",
            help="Who judges: provider/model, such as openai/NAME or fake/overlap (offline).",
            autocompletion=completion.models,
        ),
        SET,
    ] = None
    prompt: Annotated[
        str,
        _flag(
            help="A prompt's id (see `prompts list`), or file:PATH for one of your own.",
            autocompletion=completion.prompts,
        ),
        SET,
    ] = "support/binary"
    mode: Annotated[
        Literal["pointwise", "listwise"], _flag(help="One chunk a call, or all of a trace."), SET
    ] = "pointwise"
    member: Annotated[
        list[str] | None,
        _flag(metavar="MODEL[:PROMPT]", help="A member of a panel of judges; repeat for each."),
    ] = None
    panel: Annotated[Path | None, _flag(help="A panel of judges as TOML.")] = None
    repeat: Annotated[int, _flag(help="Judge every chunk this many times, and vote."), ENV] = 1
    vote: Annotated[
        Literal["majority", "median", "mean"], _flag(help="How several verdicts become one."), ENV
    ] = "majority"
    evidence: Annotated[
        Literal["flag", "required"] | None,
        _flag(
            help="A relevant verdict whose quote is missing, too short or not in the chunk: `flag` counts it "
            "and says so (the default, unless the prompt file says otherwise), `required` takes it for none."
        ),
        SET,
    ] = None
    confidence: Annotated[
        bool,
        _flag("--confidence", help="Ask the server for log-probabilities; where it refuses, do without."),
    ] = False
    judge: Annotated[
        str | None,
        _flag(help="A judge of an installed package, in place of --mode.", autocompletion=completion.judges),
        SET,
    ] = None

    @property
    def needed_model(self) -> str:
        """The model.

        Raises:
            ConfigError: None was named; the message says how to name one.
        """
        if not self.model:
            raise ConfigError(
                "no model was named; give --model openai/NAME (or fake/overlap to try it offline), "
                "set JUDGE_EVAL_MODEL, or write `model = ...` under [tool.judge_eval] in pyproject.toml"
            )
        return self.model

    def evaluator(
        self, calling: CallingFlags, numbers: NumbersFlags, metrics: Sequence[str] | None = None
    ) -> Evaluator:
        """Make the evaluator; it is to be closed.

        Args:
            calling: How the judge is called.
            numbers: What is computed.
            metrics: Metrics in place of those of `numbers`.

        Raises:
            ConfigError: A setting cannot be used.
        """
        from judge_eval.evaluator import DEFAULT_METRICS, Evaluator

        options = calling.options()
        if self.confidence:
            options = replace(options, params={**options.params, "logprobs": True, "top_logprobs": 5})
        judge: Judge | str | None = self.judge
        models: dict[str, str] | None = None
        if self.member or self.panel is not None:
            if self.repeat > 1:
                raise ConfigError(
                    "--repeat and a panel do not go together; give members `sample`s of their own"
                )
            from judge_eval.cli.flags.panels import panel_of

            models, judge, options = panel_of(
                self.member or (),
                self.panel,
                prompt=self.prompt,
                mode=self.mode,
                vote=self.vote,
                relevant=numbers.relevant,
                evidence=self.evidence,
                options=options,
            )
        return Evaluator(
            models or ("replay/cassette" if options.replay else self.needed_model),
            judge=judge,
            repeat=self.repeat,
            vote=self.vote,
            prompt=prompt_name(self.prompt),
            mode=self.mode,
            metrics=metrics or numbers.names or DEFAULT_METRICS,
            relevant=numbers.relevant,
            evidence=self.evidence,
            cache=False if calling.no_cache else calling.cache or True,
            options=options,
            intervals=numbers.intervals,
        )


OneJudge: TypeAlias = Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence")]
"""One model that judges by a prompt."""
