"""A verb on the command line: its two help screens, and the hosts that its flags name."""

import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

from typer.core import TyperCommand, TyperOption

from judge_eval.cli.flags.common import nearest_config
from judge_eval.cli.flags.groups import NO_FLAG
from judge_eval.settings import Setting, setting_of
from judge_eval.trust import check_address, name_addresses

MANY = 20
"""With more options than this, `-h` shows those that people use, and `--help` all."""
_SHORT = "judge_eval.short_help"
_CALLED = ("base_url", "fleet", "cache")
"""The options whose addresses get a key or a password."""
_SHOWN = ("server", "href", "label", "tags")
"""The options whose addresses are only printed."""


def _in_one_line(paragraph: str) -> str:
    """Join the lines of a paragraph, which a terminal breaks at its own width; examples stay."""
    return paragraph if paragraph.startswith("Example") else paragraph.replace("\n", " ")


class VerbCommand(TyperCommand):
    """A command whose `-h` shows the usual options alone where it has many."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, and trust the hosts that it names."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_SHORT] = self.is_long and "-h" in args[:place]
        rest = super().parse_args(ctx, args)
        self._check_hosts(ctx)
        return rest

    def make_parser(self, ctx: Any) -> Any:
        """Make the parser of the flags; what only the environment and the configuration set has none."""
        every = self.params
        self.params = [each for each in every if each.name not in self._configured]
        try:
            return super().make_parser(ctx)
        finally:
            self.params = every

    @functools.cached_property
    def _configured(self) -> frozenset[str]:
        hints = getattr(self.callback, "__annotations__", {})
        return frozenset(name for name, hint in hints.items() if NO_FLAG in get_args(hint))

    def _check_hosts(self, ctx: Any) -> None:
        sources = {name: getattr(ctx.get_parameter_source(name), "name", "") for name in ctx.params}
        for name in _CALLED:
            if sources.get(name) in ("COMMANDLINE", "ENVIRONMENT"):
                value = ctx.params[name]
                name_addresses(value if isinstance(value, list | tuple) else [value])
        for name, value in (ctx.default_map or {}).items():
            if sources.get(name) == "DEFAULT_MAP" and name not in _SHOWN:
                check_address(value, nearest_config()[0] or "the configuration")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: of the usual options after `-h`, of all after `--help`."""
        self.help = "\n\n".join(map(_in_one_line, inspect.cleandoc(self.help or "").split("\n\n")))
        if not ctx.meta.get(_SHORT):
            super().format_help(ctx, formatter)
            return
        with self._only_usual(f"{self._shown} options in all: {ctx.command_path} --help"):
            super().format_help(ctx, formatter)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option that shows the help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
            if self.is_long:
                option.help = "-h shows the usual options, --help all."
        return option

    @functools.cached_property
    def is_long(self) -> bool:
        """Whether it has more options than a person reads."""
        return self._shown > MANY

    @property
    def _options(self) -> list[TyperOption]:
        return [each for each in self.params if isinstance(each, TyperOption)]

    @property
    def _shown(self) -> int:
        return sum(not option.hidden for option in self._options)

    @functools.cached_property
    def _settings(self) -> Mapping[str, Setting]:
        hints = getattr(self.callback, "__annotations__", {})
        return {name: setting for name, hint in hints.items() if (setting := setting_of(hint)) is not None}

    def _is_usual(self, option: TyperOption) -> bool:
        """Tell whether `-h` shows an option: the verb's own; of groups those marked, required or short."""
        setting = self._settings.get(option.name or "")
        if setting is None:
            return True
        return setting.common or option.required or any(word[:2] != "--" for word in option.opts)

    @contextmanager
    def _only_usual(self, epilog: str) -> Iterator[None]:
        kept = [(option, option.hidden, option.show_envvar) for option in self._options]
        before, self.epilog = self.epilog, epilog
        for option, hidden, _ in kept:
            option.hidden, option.show_envvar = hidden or not self._is_usual(option), False
        try:
            yield
        finally:
            self.epilog = before
            for option, hidden, shown in kept:
                option.hidden, option.show_envvar = hidden, shown
