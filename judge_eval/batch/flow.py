"""The steps of a batch on this machine: export and import; each may be killed and repeated."""

import hashlib
import shutil
import uuid
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from judge_eval.batch.orders import remote_class
from judge_eval.batch.pending import SPLIT, KnownAnswers, Session, check_same
from judge_eval.batch.replies import answered_keys
from judge_eval.batch.state import GIVEN, BatchSettings, Folder, Part, Round, clear, write_requests
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, DataError, RunError
from judge_eval.files import replacing
from judge_eval.judge_file import JudgeSpec
from judge_eval.judges.judge import DEFAULT_PROMPT, mode_for
from judge_eval.llm.options import Options
from judge_eval.registry import kind_named
from judge_eval.runs.folder.records import Manifest, Tally
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.keeping.mirror import bring_run
from judge_eval.runs.options import Selection
from judge_eval.safe_text import counted
from judge_eval.settings import changing_verdicts, to_mapping
from judge_eval.spelling import option


def export(folder: Folder, session: Session) -> tuple[Round | None, KnownAnswers]:
    """Write the requests without a known answer, each once, into files for a server's batches."""
    # Existing replies are cached on the way. A round that nobody submitted is written again. The round is None if no
    # request is open.
    state = session.new_state()
    if folder.state is not None:
        check_same(folder, state)
        if waiting := under_way(folder):
            lost = any(part.phase == "submitting" for part in waiting)
            raise RunError(
                f"{folder.path}: {len(waiting)} of {len(folder.current.parts)} files are in progress; "
                f"{'`batch submit` looks for them, ' if lost else ''}`batch fetch` brings their replies"
            )
        rounds = folder.known.rounds
        if rounds and all(part.phase == "exported" for part in rounds[-1].parts) and not rounds[-1].given:
            rounds = rounds[:-1]
        kept = {"rounds": rounds, "run": folder.known.run, "counted": folder.known.counted}
        state = state.model_copy(update=kept)
    known, requests = session.open_requests()
    line = remote_class(session.settings).line
    lines = ((request.trace_id, line(key, session.body(request))) for key, request in requests)
    number = state.rounds[-1].number + 1 if state.rounds else 1
    sizes = session.settings.max_requests, session.settings.max_bytes
    parts = write_requests(folder.place(number), lines, *sizes)
    if known.replies.declined and parts:
        clear(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {next(iter(known.replies.declined))}; "
            f"`batch export` into another folder with what is unsupported as {option('unsupported')}"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    rounds = (*state.rounds, *([done] if done else []))
    folder.save(state.model_copy(update={"rounds": rounds}))
    return done, known


def bring_in(folder: Folder, session: Session) -> KnownAnswers:
    """Cache the existing replies, and count the requests that are still open."""
    check_same(folder, session.new_state())
    known, requests = session.open_requests()
    deque(requests, maxlen=0)
    return known


def give(folder: Folder, files: Sequence[Path]) -> None:
    """Copy files of replies into the folder, such as those of a server without a Batches API."""
    current = folder.current
    names = list(current.given)
    place = folder.place(current.number)
    check_replies(folder, files)
    for path in files:
        try:
            with path.open("rb") as file:
                name = f"{GIVEN}{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}.jsonl"
                file.seek(0)
                with replacing(place / name) as copy:
                    shutil.copyfileobj(file, copy)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
        if name not in names:
            names.append(name)
    folder.set_current(given=tuple(names))


def check_replies(folder: Folder, files: Sequence[Path]) -> dict[Path, list[int]]:
    """Check that every file of replies answers a request of the batch, where its requests are still there.

    Returns by file the numbers, from 1, of the lines that answer none; files without such lines are left out.

    Raises:
        DataError: A file answers none, such as one of another batch.
    """
    asked = folder.asked()
    if asked is None:
        return {}
    known = set(asked)
    foreign: dict[Path, list[int]] = {}
    for path in files:
        keys = answered_keys(path, remote_class(folder.known.settings).reply)
        strange = [number for number, key in keys.items() if key not in known]
        if keys and len(strange) == len(keys):
            raise DataError(
                f"none of its {counted(len(keys), 'line')} answers a request of this batch, so nothing was "
                "asked or imported; name the replies of this batch, or remove a file that was fetched",
                file=str(path),
            )
        if strange:
            foreign[path] = strange
    return foreign


def settings_to_export(
    spec: JudgeSpec, options: Options, reading: ReadOptions, selection: Selection, **others: object
) -> BatchSettings:
    """Return the settings of a new batch; `others` are fields of these that are taken as they are.

    Raises:
        ConfigError: The judge cannot be asked by batch: a panel, a cascade, a repeated judge or a decision model.
    """
    if spec.member or spec.repeat > 1:
        raise ConfigError("a batch takes one model, not a panel or a repeated judge")
    if spec.strong is not None:
        raise ConfigError(
            "a batch takes one model, not a cascade: export its strong judge on what the cheap one left open, "
            "or run the cascade online"
        )
    model = spec.keywords(options)["model"]
    mode = mode_for(model, spec.judge or spec.mode)
    if kind_named(mode).asks == "questions":
        raise ConfigError("decision models do not support batches; use `run`")
    fields = {
        "reading": to_mapping(reading),
        "selecting": to_mapping(selection),
        "calling": to_mapping(spec.called(options), (*changing_verdicts(Options), "key_env")),
        "model": model,
        "prompt": spec.prompt or DEFAULT_PROMPT,
        "mode": mode,
        "relevant": spec.relevant,
        "evidence": spec.evidence,
        "blank": spec.blank,
    }
    return BatchSettings.parse(fields | others, file="batch export")


AfterImport: TypeAlias = Literal["online", "batch", "later", "missing"]
"""What to do with requests without a reply: ask online, write the next round, nothing now, or go without verdicts."""
NextStep: TypeAlias = Literal["fetch", "wait", "export", "judge"]
"""What follows an import: replies are to be fetched, nothing, another round is to be written, the run is to be made."""


def settings_to_import(folder: Folder, *, cache: str | None, base_url: str | None) -> BatchSettings:
    """Return the settings of a batch whose replies are imported, with another cache if one is named.

    Raises:
        ConfigError: The batch splits references into claims, or names a host that this user has not allowed.
    """
    settings = folder.known.settings
    if settings.mode == SPLIT:
        raise ConfigError(
            f"it splits references into claims: `judge-eval claims DATA --batch {folder.path}` continues it"
        )
    if cache is not None:
        settings = settings.model_copy(update={"cache": cache})
    folder.check_host([settings.cache, settings.data, *settings.reading.values()])
    if base_url is None:
        folder.check_host(settings.options.base_url)
    return settings


def after_import(folder: Folder, imported: KnownAnswers, finish: AfterImport) -> NextStep:
    """Return what follows an import.

    Raises:
        ConfigError: Open requests would be asked online although their file was never submitted.
    """
    if under_way(folder):
        return "fetch"
    if not imported.open or finish == "missing":
        return "judge"
    if finish != "online":
        return "export" if finish == "batch" else "wait"
    if left := unsubmitted(folder):
        why = f" ({left[0].message})" if left[0].message else ""
        raise ConfigError(
            f"{left[0].name} was not submitted{why}; "
            f"`batch submit {folder.path}` submits it, `run` judges the open requests online"
        )
    return "judge"


def one_run(folder: Folder, session: Session, out: Path) -> tuple[Path, Manifest] | None:
    """Return the batch's one run, if an import has begun it in a folder of runs; else prepare to begin it."""
    # What the batch has paid since is added to the run's totals.
    state = folder.known
    run_id, paid = state.run or str(uuid.uuid4()), session.paid(folder.asked())
    begun = next((run for run in run_folders(out) if run[1].id == run_id), None) if state.run else None
    session.evaluator.run_id = run_id
    session.evaluator.paid = paid if begun is None else _since(paid, state.counted)
    folder.save(state.model_copy(update={"run": run_id, "counted": paid}))
    return None if begun is None else (bring_run(begun[0]), begun[1])


def _since(paid: Tally, before: Tally | None) -> Tally:
    if before is None:
        return Tally(cost=0.0)
    names = ("calls", "input_tokens", "output_tokens")
    made = {name: getattr(paid, name) - getattr(before, name) for name in names}
    cost = None if paid.cost is None or before.cost is None else paid.cost - before.cost
    return Tally(**made, cost=cost)


def under_way(folder: Folder) -> list[Part]:
    """Return the files of the current round whose replies may still come."""
    if not folder.known.rounds:
        return []
    return [part for part in folder.current.parts if part.phase in ("submitting", "submitted", "ended")]


def unsubmitted(folder: Folder) -> list[Part]:
    """Return the files of the current round that no server has; none if replies were brought by hand."""
    if not folder.known.rounds or folder.current.given:
        return []
    return [part for part in folder.current.parts if part.phase == "exported"]
