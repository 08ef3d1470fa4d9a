"""The steps of a batch at the server: submit, status, fetch, cancel; each may be killed and repeated."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judge_eval.batch.batch_server import MARKS, OVER, STOPPED, Order, Remote, RemoteBatch
from judge_eval.batch.gemini_batches import GeminiBatches
from judge_eval.batch.message_batches import MessageBatches
from judge_eval.batch.openai_batches import OpenAIBatches, ResponsesBatches
from judge_eval.batch.replies import answered_keys
from judge_eval.batch.state import BatchSettings, Folder, Part, Round, request_keys
from judge_eval.errors import ConfigError, RefusedError, RunError, TransientError
from judge_eval.foreign import read_json
from judge_eval.llm.http import anthropic_messages, gemini, openai, openai_responses
from judge_eval.llm.http.capabilities import ROUTE
from judge_eval.llm.http.client import address_of
from judge_eval.llm.options import Options
from judge_eval.providers import entry_named, known_providers
from judge_eval.registry import split_model
from judge_eval.spelling import option

REMOTES: Mapping[str, type[Remote]] = {
    openai.WIRE: OpenAIBatches, openai_responses.WIRE: ResponsesBatches,
    anthropic_messages.WIRE: MessageBatches, gemini.WIRE: GeminiBatches,
}  # fmt: skip
"""The batches of each wire that has any."""


def remote_class(settings: BatchSettings) -> type[Remote]:
    """Return how batches go to the server of a batch's model."""
    entry = known_providers().get(split_model(settings.model)[0])
    wire = entry.wire if entry else openai.WIRE
    if ROUTE in (*settings.options.unsupported, *(entry.unsupported if entry else ())):
        wire = openai_responses.WIRE
    return REMOTES.get(wire, OpenAIBatches)


def remote_of(folder: Folder, given: Options) -> Remote:
    """Return the server at the given base URL, else the trusted one that a batch's folder names."""
    settings = folder.known.settings
    options, (name, model) = settings.options, split_model(settings.model)
    if (base_url := given.server) is None:
        folder.check_host(options.base_url)
    provider = entry_named(name)
    return remote_class(settings)(
        address_of(base_url or options.base_url, provider, model),
        model=model,
        key_env=options.key_env or provider.key_env,
        key_command=given.key_command or provider.key_command,
        key_header=provider.key_header,
        keyless=provider.keyless,
    )


PATIENCE = 60.0
"""Seconds for which a batch is looked for that may have been ordered: servers list it with a delay."""
_SLACK = 600.0  # seconds by which a server's clock may be behind
LOOK = 1.0
"""Seconds between two looks."""


def submit(
    folder: Folder,
    remote: Remote,
    tell: Callable[[str], None] = lambda _: None,
    *,
    patience: float = PATIENCE,
    created: str | None = None,
) -> None:
    """Submit every file of the current round that has no batch yet; `tell` gets a line for each."""
    # Batches are first looked up by their metadata, which name file and round. If an order may have been sent
    # whose answer was lost, its batch is looked for during `patience` seconds (>= 0) before it is ordered
    # again; if it was not found after that, a `TransientError` says so. Where batches carry no metadata,
    # `created` says which batch it was, or `none`.
    if not remote.marks:
        _settle(folder, remote, created)
    current = folder.current
    waiting = [part for part in current.parts if part.batch_id is None]
    if not waiting:
        return
    lost = [part for part in waiting if part.phase == "submitting"]
    batches = _look(folder, remote, lost, patience, tell)
    for part in waiting:
        if known := batches.get(part.name):
            _note(folder, part.name, known[0])
            tell(f"{part.name}: found again as {known[0].id}")
            continue
        with folder.open_part(part) as file:
            file_id = part.file_id or remote.upload(part, file)
        ordering = {"phase": "submitting", "file_id": file_id, "message": "", "ordered": time.time()}
        folder.set_part(part.name, **ordering)
        try:
            with folder.open_part(part) as file:
                batch = remote.create(Order(part, file, file_id, _mark(part, current)))
        except TransientError as error:
            if not error.sent:
                folder.set_part(part.name, phase="exported")
                raise
            again = _look(folder, remote, [part.model_copy(update=ordering)], patience, tell).get(part.name)
            if not again:
                following = "looks for it before it submits again" if remote.marks else "asks which one it is"
                raise TransientError(
                    f"{part.name}: it is not known whether the batch was submitted: {error.detail}; "
                    f"`batch submit` {following}"
                ) from None
            batch = again[0]
        except Exception as error:
            # If the server refused, the file may be gone from it; it is uploaded anew the next time.
            kept = None if isinstance(error, RefusedError) else file_id
            folder.set_part(part.name, phase="exported", file_id=kept)
            raise
        _note(folder, part.name, batch)
        tell(f"{part.name}: {part.requests:,} requests submitted as {batch.id}")


def _settle(folder: Folder, remote: Remote, created: str | None) -> None:
    """Note which batch the first lost order of a round made, or that it made none, as the user says."""
    part = next((part for part in folder.current.parts if part.phase == "submitting"), None)
    if part is None:
        return
    if created == "none":
        folder.set_part(part.name, phase="exported", ordered=None)
        return
    if created is not None:
        _note(folder, part.name, remote.retrieve(created))
        return
    known = {each.batch_id for round_ in folder.rounds for each in round_.parts}
    began = (part.ordered or 0.0) - _SLACK
    listed = [each for each in remote.batches() if each.id not in known and each.created >= began]
    new = ", ".join(f"{each.id} ({each.requests:,} requests)" for each in listed) or "none"
    raise RunError(
        f"{part.name}: it is not known whether its batch of {part.requests:,} requests was created, and this "
        f"server's batches carry no name; created since then: {new}. Give its id, or `none` to create it again, "
        f"as {option('created')}"
    )


def tell_doubles(folder: Folder, remote: Remote, tell: Callable[[str], None]) -> None:
    """Name the batches that repeat the work of another one."""
    batches = _find(folder, remote)
    for part in folder.current.parts:
        for batch in batches[part.name]:
            if part.batch_id not in (None, batch.id) and batch.status not in STOPPED:
                tell(
                    f"{part.name} was ordered twice: {batch.id} ({batch.status}) does the work of {part.batch_id} "
                    f"again; `judge-eval batch cancel {folder.path} {batch.id}` cancels it"
                )


def cancel(
    folder: Folder, remote: Remote, batch_ids: Sequence[str], tell: Callable[[str], None] = lambda _: None
) -> None:
    """Cancel batches of the current round; what they have answered can be fetched."""
    batches = _find(folder, remote)
    known = {batch.id: part for part in folder.current.parts for batch in batches[part.name]}
    known |= {part.batch_id: part for part in folder.current.parts if part.batch_id is not None}
    for batch_id in batch_ids:
        if batch_id not in known:
            raise ConfigError(
                f"{batch_id} is not a batch of this round; there are {', '.join(sorted(known)) or 'none'}"
            )
    for batch_id in dict.fromkeys(batch_ids):
        part = known[batch_id]
        batch = remote.cancel(batch_id)
        if batch_id == part.batch_id:
            _note(folder, part.name, batch)
        tell(f"{part.name}: {batch_id} is {batch.status}")


def refresh(folder: Folder, remote: Remote) -> Round:
    """Update the batches of the current round; one that failed did nothing, so its file is free again."""
    for part in folder.current.parts:
        if part.phase == "submitted" and part.batch_id is not None:
            _note(folder, part.name, remote.retrieve(part.batch_id))
    return folder.current


def fetch(
    folder: Folder, remote: Remote, *, wait: float | None = None, tell: Callable[[str], None] = lambda _: None
) -> Round:
    """Download the replies of the batches that have ended; `tell` gets a line for each file."""
    # `wait`: seconds between requests until all batches have ended; None asks once. A file without all its lines is
    # not taken, as what it lacks would be bought again: its part stays ended, and is fetched the next time.
    faults = []
    while True:
        current = refresh(folder, remote)
        place = folder.place(current.number)
        for part in current.parts:
            if part.phase != "ended":
                continue
            message = _download(remote, part, place)
            if not remote.marks:
                _check_replies(folder, remote, part)
            if fault := "" if message else _fault_of(part, place):
                faults.append(f"{part.name}: {fault}")
                continue
            folder.set_part(part.name, phase="fetched", message=message)
            line = f"{part.name}: {part.status}, {part.completed} of {part.requests} answered"
            tell(f"{line}; {message}" if message else line)
        current = folder.current
        if faults:
            raise RunError(
                f"{'; '.join(faults)}; `batch fetch` tries it again, and `batch import` of the file takes what it has"
            )
        if wait is None or not any(part.phase == "submitted" for part in current.parts):
            return current
        time.sleep(wait)


def _download(remote: Remote, part: Part, place: Path) -> str:
    """Download the replies of a part; return the server's words if a file is gone: what it held is open again."""
    message = ""
    for file_id, suffix in ((part.output_file_id, "output"), (part.error_file_id, "errors")):
        if file_id is not None:
            try:
                remote.download(file_id, place / f"{part.name}.{suffix}")
            except RefusedError as error:
                message = error.detail
    return message


def _fault_of(part: Part, place: Path) -> str:
    """Say what the files of replies lack, by the server's own counts and their last lines; "" if nothing."""
    count = 0
    for suffix in ("output", "errors"):
        path, last = place / f"{part.name}.{suffix}", b""
        if path.is_file():
            with path.open("rb") as file:
                for line in file:
                    count, last = count + bool(line.strip()), line
        if last and not last.endswith(b"\n"):
            try:
                read_json(last)
            except ValueError:
                return f"the last line of {path} is torn"
    expected = part.completed + part.failed
    return "" if count >= expected else f"the server says {expected:,} answers, and its files hold {count:,}"


def _check_replies(folder: Folder, remote: Remote, part: Part) -> None:
    """Check that replies answer requests of a file: the user may have named another batch."""
    place = folder.place(folder.current.number)
    output = place / f"{part.name}.output"
    if not output.is_file():
        return
    if set(answered_keys(output, remote.reply).values()).isdisjoint(request_keys(place / part.name)):
        output.unlink()
        folder.set_part(part.name, phase="submitting", batch_id=None, output_file_id=None)
        raise RunError(f"{part.name}: {part.batch_id} is another batch; `batch submit` asks which one it is")


def _mark(part: Part, round_: Round) -> dict[str, str]:
    return dict(zip(MARKS, (part.digest, str(round_.number)), strict=True))


def _find(folder: Folder, remote: Remote) -> dict[str, list[RemoteBatch]]:
    """List the batches of each file of the current round that did anything, the most advanced first."""
    current = folder.current
    batches: dict[str, list[RemoteBatch]] = {part.name: [] for part in current.parts}
    for batch in remote.batches() if remote.marks else ():
        for part in current.parts:
            if batch.mark == _mark(part, current) and batch.status != "failed":  # nothing was done for a failed one
                batches[part.name].append(batch)
    for listed in batches.values():
        listed.sort(key=lambda b: (b.status != "completed", b.status in STOPPED, -b.completed, b.created))
    return batches


def _look(
    folder: Folder, remote: Remote, lost: Sequence[Part], patience: float, tell: Callable[[str], None]
) -> dict[str, list[RemoteBatch]]:
    """Find the batches of each file; repeat, within limits, for those that may appear later."""
    until = time.monotonic() + (patience if remote.marks else 0.0)
    batches = _find(folder, remote)
    announced = False
    while (missing := [part.name for part in lost if not batches[part.name]]) and time.monotonic() < until:
        if not announced:
            tell(f"{', '.join(missing)}: ordered without an answer; looking for the batch for {patience:g} s")
            announced = True
        time.sleep(min(LOOK, max(0.0, until - time.monotonic())))
        batches = _find(folder, remote)
    return batches


def _note(folder: Folder, name: str, batch: RemoteBatch) -> None:
    if batch.status == "failed":
        nothing = {"phase": "exported", "file_id": None, "batch_id": None, "status": "failed"}
        folder.set_part(name, **nothing, message=batch.message)
        return
    folder.set_part(
        name,
        phase="ended" if batch.status in OVER else "submitted",
        batch_id=batch.id,
        file_id=batch.input_file_id,
        status=batch.status,
        output_file_id=batch.output_file_id,
        error_file_id=batch.error_file_id,
        completed=batch.completed,
        failed=batch.failed,
        message=batch.message,
    )
