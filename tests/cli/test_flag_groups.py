"""Flags in groups: written once, spread over the verbs, and the source of the settings' names."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest
import typer
from typer.main import get_command

import judge_eval.cli.flags
from judge_eval.cli.flags.common import KeepingFlags, NumbersFlags, OneRun, Runs
from judge_eval.cli.flags.config import records, settings
from judge_eval.cli.flags.groups import flags_of, only, spread, without
from judge_eval.cli.flags.judging import CachingFlags, CallingFlags, JudgingFlags
from judge_eval.cli.verbs import GROUPS, VERBS, make_app
from judge_eval.data.options import ReadOptions
from judge_eval.judges import Vote
from judge_eval.llm.options import Options, Otel
from judge_eval.registry import MODES
from judge_eval.runs.folder.records import Intervals
from judge_eval.runs.options import OnInvalid, Selection
from judge_eval.settings import setting_of
from judge_eval.stats.calibration import Objective
from judge_eval.study.sample import choose_traces
from tests.support.command import Shell

CLI = Path(judge_eval.cli.flags.__file__).parents[1]


def _groups() -> list[type]:
    collected = []
    for module in pkgutil.iter_modules(judge_eval.cli.flags.__path__, "judge_eval.cli.flags."):
        for value in vars(importlib.import_module(module.name)).values():
            if dataclasses.is_dataclass(value) and getattr(value, "__module__", "") == module.name:
                collected.append(value)
    flags = [group for group in collected if group.__module__ != "judge_eval.cli.flags.groups"]
    return [*flags, *(record for record in records() if record not in flags)]


def _own(group: type) -> list[str]:
    return [name for name in inspect.get_annotations(group) if name in flags_of(group)]


def _commands() -> dict[str, Any]:
    messages: dict[str, Any] = {}
    for name, command in get_command(make_app()).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        messages |= {f"{name} {sub}": each for sub, each in inner.items()} if inner else {name: command}
    return messages


COMMANDS = _commands()
RENAMED = {"base_url", "param", "max_body", "max_traces", "max_chunks", "max_queued", "max_runs"}
"""Keys that are not called as the fields they set."""


def test_every_flag_of_a_group_is_written_once() -> None:
    """No two groups have a field of one name, but for what a group takes over from another."""
    counts = Counter(name for group in _groups() for name in _own(group))
    assert [name for name, count in counts.items() if count > 1] == []


def test_settings_are_the_fields_of_groups() -> None:
    """The settings' names are those of the marked fields of all groups: none is missing, none is added."""
    marked: dict[str, set[str]] = {}
    for group in _groups():
        for name, flag in flags_of(group).items():
            mark = setting_of(flag.annotation)
            if mark is not None and mark.file:
                marked.setdefault(mark.name or name, set()).add(name)
    assert {key: set(names) for key, names in settings().items()} == marked
    assert {key for key, names in marked.items() if names != {key}} == RENAMED


def test_settings_stay() -> None:
    """The keys of `[tool.judge_eval]` are a promise to files that are out there."""
    promised = """model prompt mode judge evidence blank metrics out cache base_url param label href
        tags relevant baseline fail_under max_drop non_inferior interval cluster concurrency timeout
        rpm tpm attempts max_failures max_calls max_tokens max_cost max_reply on_invalid
        max_body max_traces max_chunks max_queued max_runs
        format map corpus list_sep depth records group_by origin otel
        push_every push_grace unsupported undecided gate_on server claims offline confidence warm_prefix"""
    assert set(settings()) == set(promised.split())


def test_every_setting_reaches_a_verb() -> None:
    """Every parameter that a setting sets is one of a verb."""
    parameters = {parameter.name for command in COMMANDS.values() for parameter in command.params}
    assert {name for names in settings().values() for name in names} <= parameters


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_each_flag_once(name: str) -> None:
    """A verb has no two flags of one name, and its help shows each."""
    command = COMMANDS[name]
    words = [word for each in command.params if not each.hidden for word in each.opts if word.startswith("-")]
    assert [word for word, count in Counter(words).items() if count > 1] == []
    context = command.make_context(name, [], resilient_parsing=True)
    with context:
        usage = {parameter.name for parameter in command.get_params(context)}
    assert {parameter.name for parameter in command.params} <= usage


@pytest.mark.parametrize("name", [*VERBS, *GROUPS])
def test_a_verb_has_the_flags_of_its_groups(name: str) -> None:
    """What typer is given is, in order, what the verb's signature names, each group as its fields."""
    verb = name.replace("-", "_")
    module = importlib.import_module(f"judge_eval.cli.{verb}")
    functions = [getattr(module, verb)] if name in VERBS else [c.callback for c in module.app.registered_commands]
    for function in functions:
        original = inspect.unwrap(function)
        hints = get_type_hints(original, include_extras=True)
        expected: list[str] = []
        configured: list[str] = []
        for parameter in inspect.signature(original).parameters:
            group, *parts = get_args(hints[parameter]) or (hints[parameter],)
            if not dataclasses.is_dataclass(group):
                expected.append(parameter)
                continue
            fields = list(flags_of(group))
            for part in parts:
                fields = [field for field in fields if (field in part.names) is part.taken]
            expected += fields
            left_out = {name for part in parts if not part.taken for name in part.names}
            configured += [
                name
                for name, flag in flags_of(group).items()
                if name not in left_out and (mark := setting_of(flag.annotation)) and (mark.env or mark.file)
            ]
        others = [name for name in configured if name not in expected]
        assert list(inspect.signature(function).parameters) == [*expected, *others]
        assert len(inspect.signature(original).parameters) <= 12


def test_groups_are_gathered_again() -> None:
    """A verb is called with the groups made of the flags, what it leaves out at its default."""
    seen: list[Any] = []

    def verb(
        reading: ReadOptions,
        calling: Annotated[CallingFlags, only("timeout", "cache")],
        keeping: Annotated[KeepingFlags, without("server")],
        n: Annotated[int, typer.Option()] = 3,
    ) -> None:
        seen.extend([reading, calling, keeping, n])

    flat = spread(verb)
    names = list(inspect.signature(flat).parameters)
    shown = [
        *("format", "map", "corpus", "list_sep", "depth", "records", "group_by", "origin", "yes_ids", "keep_words"),
        *("cache", "timeout"),
        *("out", "label", "href", "tags", "resume", "new_if_done", "push_every", "push_grace"),
        "n",
    ]
    assert names[: len(shown)] == shown
    assert {"fleet", "rpm", "max_cost"} < set(names[len(shown) :])
    assert not {"server", "repeat"} & set(names)
    given = {name: parameter.default for name, parameter in inspect.signature(flat).parameters.items()}
    flat(**given | {"depth": 5, "timeout": 2.5, "label": "main", "n": 4, "rpm": 60.0})
    assert seen == [ReadOptions(depth=5), CallingFlags(timeout=2.5, rpm=60.0), KeepingFlags(label="main"), 4]


def _part_of_unknown(calling: Annotated[CallingFlags, only("timeuot")]) -> None: ...


def _left_out_unknown(calling: Annotated[CallingFlags, without("timeuot")]) -> None: ...


def _needed(chosen: Annotated[OneRun, only("out")]) -> None: ...


def _twice(caching: CachingFlags, calling: CallingFlags) -> None: ...


def _beside(runs: Runs, out: Annotated[str, typer.Option()] = "") -> None: ...


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (_part_of_unknown, r"CallingFlags has no field 'timeuot'.*timeout"),
        (_left_out_unknown, r"CallingFlags has no field 'timeuot'.*timeout"),
        (_needed, "OneRun needs run"),
        (_twice, "cache comes twice"),
        (_beside, "out comes twice"),
    ],
)
def test_a_wrong_group_fails_at_import(verb: Callable[..., None], message: str) -> None:
    """A field that a group does not have, one that cannot be left out, a flag given twice: told at once."""
    with pytest.raises(TypeError, match=message):
        spread(verb)


def test_choices_are_those_of_the_library() -> None:
    """A flag's choices are the ones that what it stands for takes."""

    def choices(group: type, field: str) -> set[str]:
        return set(get_args(get_args(flags_of(group)[field].annotation)[0]))

    def verb_choices(verb: str, name: str) -> set[str]:
        function = getattr(importlib.import_module(f"judge_eval.cli.{verb}"), verb)
        return set(get_args(get_args(inspect.signature(function).parameters[name].annotation)[0]))

    def hint(of: Any, name: str) -> set[str]:
        return set(get_args(get_type_hints(of)[name]))

    assert choices(Options, "otel") == set(get_args(Otel))
    assert choices(JudgingFlags, "vote") == set(get_args(Vote))
    modes = next(each for each in choices(JudgingFlags, "mode") if each is not type(None))
    assert get_args(modes) == MODES
    assert choices(Selection, "on_invalid") == set(get_args(OnInvalid))
    assert choices(NumbersFlags, "interval") == hint(Intervals, "method")
    assert verb_choices("calibrate", "objective") == set(get_args(Objective))
    assert verb_choices("sample", "by") == {get_type_hints(choose_traces)["by"], type(None)}


def test_no_verb_imports_another() -> None:
    """A verb's file imports rooms, never another verb."""
    files = {path.stem: [path] for path in CLI.glob("*.py")}
    files |= {name: sorted((CLI / name).glob("*.py")) for name in GROUPS if (CLI / name).is_dir()}
    verbs = files.keys() - {"__init__", "exit_codes", "verbs", "stopping"}
    assert verbs == {name.replace("-", "_") for name in (*VERBS, *GROUPS)}
    for name in verbs:
        text = "".join(path.read_text(encoding="utf-8") for path in files[name])
        others = [other for other in verbs - {name} if re.search(rf"judge_eval\.cli\.{other}[ .]", text)]
        assert others == []


def test_a_text_stands_for_a_list_of_one(tmp_path: Path) -> None:
    """A setting of a flag that repeats may be one text; a server's URL reaches `run`, which takes several."""
    from judge_eval.cli.flags.config import find_config

    path = tmp_path / "judge_eval.toml"
    path.write_text('base_url = "http://a"\nmetrics = "AP@5"\nfail_under = "AP@5=0.7"\n', encoding="utf-8")
    _, values = find_config(tmp_path)
    assert values == {"fleet": ["http://a"], "metrics": ["AP@5"], "fail_under": ["AP@5=0.7"]}


@pytest.mark.slow
def test_a_verb_starts_without_numbers_or_clients() -> None:
    """Showing the version or the help loads neither NumPy nor a client."""
    program = (
        "import sys\nfrom judge_eval.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'openai', 'diskcache', 'tenacity', 'judge_eval.schema'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    for arguments in (["--version"], ["run", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_version_is_shown_without_loading_a_verb() -> None:
    """`--version` loads no verb, and is the same before other words."""
    program = (
        "import sys\nfrom judge_eval.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "from judge_eval.cli.verbs import GROUPS, VERBS\n"
        "loaded = {'judge_eval.cli.' + name.replace('-', '_') for name in (*VERBS, *GROUPS)} & sys.modules.keys()\n"
        "assert not loaded, loaded\n"
    )
    for arguments in (["--version"], ["--version", "run"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("judge-eval ")


def test_a_setting_reaches_only_the_flags_that_are_marked_for_it(tmp_path: Path) -> None:
    """`interval` and `format` in a configuration do not reach flags of that name with another meaning."""
    shell = Shell(tmp_path)
    (tmp_path / "judge_eval.toml").write_text('interval = "bca"\nformat = "ragas"\non_invalid = "skip"\n')
    fetched = shell("batch", "fetch", "nowhere")
    assert "bca" not in fetched.err
    assert "nowhere" in fetched.err
    (tmp_path / "data.jsonl").write_text('{"query": "q", "chunks": ["c"], "reference": "r"}\nnot a trace\n')
    done = shell("run", "data.jsonl", "--format", "ours", "--model", "fake/overlap", "--metrics", "AP@5", "-q")
    assert done.code == 0, done.err
    exported = shell("export", "latest", "-o", "out.csv")
    assert exported.code == 0, exported.err
    converted = shell("convert", "data.jsonl", "--format", "ours", "-o", "again.jsonl")
    assert "skipped" in converted.err
