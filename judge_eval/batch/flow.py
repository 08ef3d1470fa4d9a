"""The steps of a batch on this machine: export and import; each may be killed and repeated."""

import hashlib
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from judge_eval.batch.orders import remote_class
from judge_eval.batch.pending import SPLIT, AtHand, Session, check_same, open_requests
from judge_eval.batch.replies import strangers
from judge_eval.batch.state import GIVEN, BatchSettings, Folder, Part, Round, clear, write_requests
from judge_eval.data.options import ReadOptions
from judge_eval.errors import ConfigError, RunError
from judge_eval.files import replacing
from judge_eval.judge_file import JudgeSpec
from judge_eval.judges.judge import DEFAULT_PROMPT, mode_for
from judge_eval.llm.options import Options
from judge_eval.registry import kind_named
from judge_eval.runs.folder.records import Manifest, Tally
from judge_eval.runs.keeping.lookup import run_folders
from judge_eval.runs.keeping.mirror import bring_run
from judge_eval.runs.options import Selection
from judge_eval.settings import changing_verdicts, to_mapping
from judge_eval.spelling import option
from judge_eval.wire import Request


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought."""

    imported: int
    """Replies that went into the cache."""
    rejected: int
    """Replies from which no verdict could be read; their repairs are open."""
    open: int
    """Distinct requests that have no answer yet."""
    unreadable: int
    """Lines that are not a reply."""
    doubled: int
    """Lines about a request that another line was about."""
    declined: Counter[str]
    unanswered: Counter[str]

    @classmethod
    def of(cls, session: Session, at_hand: AtHand, open_keys: set[bytes]) -> Self:
        """Collect the counts after all open requests were visited."""
        a, answers = at_hand, session.answers
        counts = (answers.unreadable, answers.doubled, answers.declined, answers.unanswered)
        return cls(a.imported, a.rejected, len(open_keys), *counts)


def export(folder: Folder, session: Session) -> tuple[Round | None, Imported]:
    """Write the requests without a known answer, each once, into files for a server's batches."""
    # Existing replies are cached on the way, also those of a folder that lost its `batch.json`. A round that
    # nobody submitted is written again. The round is None if no request is open.
    state = session.new_state()
    if folder.state is None and folder.rounds:
        folder.save(state.model_copy(update={"rounds": folder.rounds}))
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
    at_hand, open_keys = session.at_hand(), set[bytes]()
    line = remote_class(session.settings).line
    lines = (
        (request.trace_id, line(key, session.body(request))) for key, request in _fresh(session, at_hand, open_keys)
    )
    number = state.rounds[-1].number + 1 if state.rounds else 1
    sizes = session.settings.max_requests, session.settings.max_bytes
    parts = write_requests(folder.place(number), lines, *sizes)
    imported = Imported.of(session, at_hand, open_keys)
    if imported.declined and parts:
        clear(folder.place(number))
        raise ConfigError(
            f"the server declined requests: {next(iter(imported.declined))}; "
            f"`batch export` into another folder with what is unsupported as {option('unsupported')}"
        )
    done = Round(number=number, parts=tuple(parts)) if parts else None
    rounds = (*state.rounds, *([done] if done else []))
    folder.save(state.model_copy(update={"rounds": rounds}))
    return done, imported


def bring_in(folder: Folder, session: Session) -> Imported:
    """Cache the existing replies, and count the requests that are still open."""
    check_same(folder, session.new_state())
    at_hand, open_keys = session.at_hand(), set[bytes]()
    for _ in _fresh(session, at_hand, open_keys):
        pass
    return Imported.of(session, at_hand, open_keys)


def give(folder: Folder, files: Sequence[Path]) -> None:
    """Copy files of replies into the folder, such as those of a server without a Batches API."""
    current = folder.current
    names = list(current.given)
    place = folder.place(current.number)
    foreign_lines(folder, files)
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


def foreign_lines(folder: Folder, files: Sequence[Path]) -> dict[Path, list[int]]:
    """Return by file of replies the numbers of lines that answer no request of the batch, where known."""
    asked = folder.asked()
    return {} if asked is None else strangers(files, asked, remote_class(folder.known.settings).reply)


class BatchData(NamedTuple):
    """What a batch judges, and by which metrics."""

    data: str
    """Where the traces are."""
    reading: ReadOptions
    selection: Selection
    metrics: tuple[str, ...] = ()


class FileSizes(NamedTuple):
    """What a file of requests may hold at most."""

    requests: int
    bytes: int


def settings_to_export(
    spec: JudgeSpec, options: Options, chosen: BatchData, cache: str | None, sizes: FileSizes
) -> BatchSettings:
    """Return the settings of a new batch.

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
        "data": chosen.data,
        "reading": to_mapping(chosen.reading),
        "selecting": to_mapping(chosen.selection),
        "calling": to_mapping(spec.called(options), (*changing_verdicts(Options), "key_env")),
        "model": model,
        "prompt": spec.prompt or DEFAULT_PROMPT,
        "mode": mode,
        "relevant": spec.relevant,
        "evidence": spec.evidence,
        "blank": spec.blank,
        "metrics": chosen.metrics,
        "cache": cache,
        "max_requests": sizes.requests,
        "max_bytes": sizes.bytes,
    }
    return BatchSettings.parse(fields, file="batch export")


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


def after_import(folder: Folder, imported: Imported, finish: AfterImport) -> NextStep:
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


def _fresh(session: Session, at_hand: AtHand, open_keys: set[bytes]) -> Iterable[tuple[bytes, Request]]:
    """Yield each open request once, with its key, and add the key to `open_keys`."""
    for request in open_requests(session.evaluator.chosen_judge, session.source, at_hand):
        key = session.cached.key(request)
        assert key is not None  # such a backend has an identity
        if key not in open_keys:
            open_keys.add(key)
            yield key, request
