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
from judge_eval.cli.flags.cascades import CASCADE_FIELDS, CascadeFlags, cascade_flagged
from judge_eval.cli.flags.groups import ENV, SET, only
from judge_eval.cli.flags.numbers import JUDGING, NumbersFlags
from judge_eval.errors import ConfigError
from judge_eval.given import prompt_name

if TYPE_CHECKING:
    from judge_eval.evaluator import Evaluator
    from judge_eval.judges import Judge

_flag = partial(typer.Option, rich_help_panel=JUDGING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingFlags(CascadeFlags):
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
        str | None,
        _flag(
            help="A prompt's id (see `prompts list`), or file:PATH for one of your own; support/binary "
            "unless given.",
            autocompletion=completion.prompts,
        ),
        SET,
    ] = None
    mode: Annotated[
        Literal["pointwise", "listwise", "decision", "claims", "claims-list", "claims-decision"] | None,
        _flag(
            help="One chunk a call, all of a trace, or questions to a decision model; `decision` for "
            "decisions/NAME and else `pointwise` unless given. Claim by claim of the reference: `claims`, or "
            "`claims-list` for all chunks of a trace in one call."
        ),
        SET,
    ] = None
    layout: Annotated[
        Literal["question", "input", "request"],
        _flag(
            help="Where a decision model finds a chunk: in its own question, with all others in the input, "
            "or alone in a request."
        ),
        SET,
    ] = "question"
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
    def asked(self) -> str:
        """The prompt, or that of those who name none."""
        from judge_eval.judges.choose import DEFAULT_PROMPT

        return self.prompt or DEFAULT_PROMPT

    @property
    def by_claims(self) -> bool:
        """Whether it may be judged by claims: that is asked for, or a judge of a package's own."""
        return self.judge is not None or (self.mode or "").startswith("claims")

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

    def laid_out(self, relevant: int | None) -> Judge | None:
        """Make the judge of a decision model whose chunks stand elsewhere than in their questions.

        Raises:
            ConfigError: The model is none.
        """
        from judge_eval.judges.choose import make_judge, mode_for

        if self.layout == "question":
            return None
        mode = mode_for(self.model, self.mode)
        if mode != "decision" or self.repeat > 1 or self.member or self.panel is not None:
            raise ConfigError("--layout is for one decision model, asked once (--mode decision)")
        return make_judge(prompt_name(self.asked), mode, relevant, 0, self.evidence, self.layout)

    def evaluator(
        self,
        calling: CallingFlags,
        numbers: NumbersFlags,
        metrics: Sequence[str] | None = None,
        *,
        fitting: bool = False,
    ) -> Evaluator:
        """Make the evaluator; it is to be closed.

        Args:
            calling: How the judge is called.
            numbers: What is computed.
            metrics: Metrics in place of those of `numbers`.
            fitting: Whether a cascade's threshold is still to be found.

        Raises:
            ConfigError: A setting cannot be used.
        """
        from judge_eval.evaluator import DEFAULT_METRICS, Evaluator
        from judge_eval.judges.choose import mode_for

        options = calling.options()
        asked = mode_for(self.model, self.mode)
        if self.confidence and asked.startswith("claims"):
            raise ConfigError("--confidence is not for judging by claims, whose verdicts follow by a rule")
        if self.confidence and asked != "decision":  # which always tells
            options = replace(options, params={**options.params, "logprobs": True, "top_logprobs": 5})
        models: dict[str, str] | None = None
        judge: Judge | str | None
        if self.cascades:
            if self.member or self.panel is not None or self.repeat > 1 or self.judge:
                raise ConfigError(
                    "a cascade is of two judges; leave out --member, --panel, --repeat and --judge"
                )
            models, judge, options = cascade_flagged(
                self,
                model=self.model,
                prompt=self.prompt,
                mode=self.mode,
                layout=self.layout,
                evidence=self.evidence,
                relevant=numbers.relevant,
                options=calling.options(),
                fitting=fitting,
            )
            if self.confidence and self.mode != "decision":
                options = options.telling("strong")
        elif self.member or self.panel is not None:
            if self.repeat > 1:
                raise ConfigError(
                    "--repeat and a panel do not go together; give members `sample`s of their own"
                )
            from judge_eval.cli.flags.panels import panel_of

            models, judge, options = panel_of(
                self.member or (),
                self.panel,
                prompt=self.asked,
                mode=self.mode,
                vote=self.vote,
                relevant=numbers.relevant,
                evidence=self.evidence,
                options=options,
            )
        else:
            judge = self.judge or self.laid_out(numbers.relevant)
        return Evaluator(
            models or ("replay/cassette" if options.replay else self.needed_model),
            judge=judge,
            repeat=self.repeat,
            vote=self.vote,
            prompt=prompt_name(self.asked),
            mode=self.mode,
            metrics=metrics or numbers.names or DEFAULT_METRICS,
            relevant=numbers.relevant,
            evidence=self.evidence,
            cache=False if calling.no_cache else calling.cache or True,
            options=options,
            intervals=numbers.intervals,
        )


ServingJudge: TypeAlias = Annotated[
    JudgingFlags, only("model", "prompt", "mode", "evidence", *CASCADE_FIELDS)
]
"""One model that judges by a prompt, or a cascade of two."""
OneJudge: TypeAlias = Annotated[JudgingFlags, only("model", "prompt", "mode", "evidence")]
"""One model that judges by a prompt."""
