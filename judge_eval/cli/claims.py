"""`claims`: references split into claims, to be read, edited and kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from judge_eval.cli.exit_codes import INCOMPLETE, OK, close, verb
from judge_eval.cli.flags.common import NumbersFlags, Quiet, TracesFile, readable
from judge_eval.cli.flags.groups import only, without
from judge_eval.cli.flags.judging import CallingFlags, HowCalled, JudgingFlags
from judge_eval.cli.printing.output import complain, give_json, remark, show, show_apart, tell, watching
from judge_eval.data.options import ReadOptions
from judge_eval.errors import DataError
from judge_eval.files import write_atomically
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted, prompt_name
from judge_eval.settings import changing_verdicts, setting, to_mapping

if TYPE_CHECKING:
    from judge_eval.runs.folder.records import TraceResult
    from judge_eval.schema import Trace

_SPLITTER = without("judge", "prompt", "mode", "evidence", "blank", "confidence", "repeat", "vote")
"""What is said of a judge does not hold for the model that splits references."""


@verb
def claims(
    data: TracesFile,
    reading: Annotated[ReadOptions, only("format", "map")],
    judging: Annotated[JudgingFlags, only("model"), _SPLITTER],
    selection: Annotated[Selection, only("limit", "seed", "on_invalid"), without("claims")],
    calling: HowCalled,
    output: Path | None = setting(
        None, "The file to write (.jsonl): missing entries are added; standard output if not given."
    ),
    prompt: str = setting(
        "claims/split", "The prompt that splits references: its id, or file:PATH for one of your own."
    ),
    force: bool = setting(False, "Split all references again and overwrite the file: edits are lost."),
    dry_run: bool = setting(False, "Show calls, cache hits and tokens; make no call."),
    batch: Path | None = setting(
        None,
        "Split by batch: write requests into this folder, or use the replies that `batch fetch` brought.",
        metavar="FOLDER",
    ),
    quiet: Quiet = False,
) -> int:
    """Split every reference into its claims, one line each, for `run --mode claims --claims FILE`.

    Claims depend only on question and reference: split them once, review and correct them, commit the file.
    Existing entries are not changed.

    Examples:
    judge-eval claims traces.jsonl -o claims.jsonl --model openai/NAME
    judge-eval claims traces.jsonl -o claims.jsonl --model fake/overlap --dry-run
    judge-eval claims traces.jsonl -o claims.jsonl --model openai/NAME --batch splits/
    """
    from judge_eval.data.claimfiles import read_claims
    from judge_eval.judges import Splitting
    from judge_eval.runs.judging.references import References

    before, existing = "", None
    if output is not None and output.exists() and not force:
        existing = read_claims(output)
        try:
            before = output.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise DataError("packed, or not UTF-8: unpack it to add claims", file=str(output)) from None
        before += "" if not before or before.endswith("\n") else "\n"
    with (
        readable(data) as (path, name),
        judging.evaluator(calling, NumbersFlags()).with_judge(Splitting(prompt_name(prompt))) as evaluator,
    ):
        selection = replace(selection, name=name, reader=reading)
        source = evaluator.source(path, selection)
        assert source is not None  # a path can be read twice
        for each in () if quiet else source.survey().remarks:
            remark(each)
        references = References(source, existing)
        open_references = references.open()
        if dry_run:
            plan = evaluator.plan(open_references)[1] if open_references else None
            calls, hits = (plan.calls, plan.hits) if plan else (0, 0)
            counts = f"{references.existing} with claims, {len(open_references)} to split"
            tell(f"{name}: {references.existing + len(references)} references, {counts}")
            tell(f"{calls} calls, {hits} answered without a call")
            if plan is not None:
                tell(f"about {plan.input_tokens:,} input tokens")
                tell(f"at most {plan.output_tokens:,} output tokens, unless an answer is asked for again")
            remark("no request was sent")
            return OK
        results: Iterable[TraceResult] | None = evaluator.stream(open_references) if open_references else ()
        if batch is not None and open_references:
            results = _by_batch(batch, open_references, judging, calling, prompt)
            if results is None:
                return INCOMPLETE
        failed = 0
        try:
            with watching(quiet) as evaluator.watch:
                for result in results or ():
                    if (why := references.take(result)) is not None:
                        failed += 1
                        complain(f"{json.dumps(result.trace.query, ensure_ascii=False)}: {why.detail}")
        except (KeyboardInterrupt, SystemExit) as ending:
            if output is not None and references.lines():
                again = "the same command without --force" if force else "the same command"
                ending.add_note(f"what was split is in {output}; {again} adds the rest")
            raise
        finally:  # what is paid is kept, whatever ends it
            lines = references.lines()
            if output is not None and (lines or force):
                write_atomically(output, (before + "".join(f"{line}\n" for line in lines)).encode())
        close(evaluator)
    if output is None:
        for line in lines:
            give_json(line)
    elif not quiet:
        there = f", {references.existing} already existed" if references.existing else ""
        into = f"{counted(len(lines), 'reference')} split in {output}" if lines else "no reference was split"
        remark(f"{into}{there}")
    rest = sum('"uncovered": [' in line for line in lines)
    if rest and not quiet:
        remark(f"{rest} have words that no claim covers: see `uncovered` in their lines")
    return INCOMPLETE if failed else OK


def _by_batch(
    place: Path, references: Sequence[Trace], judging: JudgingFlags, calling: CallingFlags, prompt: str
) -> Iterable[TraceResult] | None:
    """Return the results that a batch's replies make; None if requests were written or replies are to come."""
    from judge_eval.batch import flow
    from judge_eval.batch.pending import SPLIT, Session, storable_data, storable_judge
    from judge_eval.batch.state import BatchSettings, Folder
    from judge_eval.batch.view import foreign_view, imported_view, round_view, step
    from judge_eval.llm.options import Options

    spec = storable_judge(judging.spec())
    with Folder(place, make=True) as folder:
        data = place / "references.jsonl"
        if not data.exists():  # a batch keeps to the references that it began with
            write_atomically(data, "".join(f"{trace.model_dump_json()}\n" for trace in references).encode())
        fields = {
            "data": storable_data(str(data)),
            "calling": to_mapping(spec.called(calling.options()), (*changing_verdicts(Options), "key_env")),
            "model": spec.model or "",
            "prompt": prompt,
            "mode": SPLIT,
            "cache": calling.cache or None,
        }
        settings = BatchSettings.parse(fields, file="claims --batch")
        replies = folder.replies()
        session = Session(settings, calling.options(), files=replies, online=False, begun=folder.state)
        with closing(session):
            session.settings = session.stored()
            if folder.state is not None:
                show_apart(foreign_view(flow.check_replies(folder, replies)))
                if waiting := flow.under_way(folder):
                    remark(
                        f"{len(waiting)} files are being processed: `{step(folder, 'fetch')}` downloads their replies"
                    )
                    return None
            done, imported = flow.export(folder, session)
            if folder.known.rounds:
                show_apart(imported_view(imported))
            if done is not None:
                show(round_view(folder, done))
                remark(f"next: {step(folder, 'submit')}, then fetch, then this command again")
                return None
            return list(session.evaluator.stream(str(data)))
