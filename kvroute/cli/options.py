"""Command-line options made from a settings dataclass, and settings made from the options.

@click.command()
@click_options(RouterSettings, "router")
def command(config: Path | None, **flags: object) -> None:
    settings = from_options(RouterSettings, "router", config, flags)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from kvroute.settings import Setting, describe, load

T = TypeVar("T")
Callback = TypeVar("Callback", bound=Callable[..., Any])

_METAVARS: dict[type, str] = {int: "N", float: "X", str: "TEXT", Path: "PATH", tuple: "A,B,..."}


def click_options(cls: type, section: str) -> Callable[[Callback], Callback]:
    """Decorates a command with one option per setting, and `--config`.

    Values stay text and defaults stay None here: `load` converts and checks what all sources give,
    so that one message lists all mistakes.
    """

    def decorate(callback: Callback) -> Callback:
        options = [_option(one, section) for one in describe(cls)]
        options.append(config_option())
        for option in reversed(options):
            callback = option(callback)
        return callback

    return decorate


def config_option() -> Callable[[Callback], Callback]:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="KVROUTE_CONFIG",
        metavar="FILE",
        help="TOML file with settings.  [env: KVROUTE_CONFIG]",
    )


def from_options(cls: type[T], section: str, config: Path | None, flags: Mapping[str, object]) -> T:
    """The settings that flags, this process's environment and the file give.

    Raises SettingsError with every mistake.
    """
    return load(cls, section, flags=flags, env=os.environ, file=config)


def _option(one: Setting, section: str) -> Callable[[Callback], Callback]:
    help_text = one.help + _default(one) + f"  [env: {one.variable(section)}]"
    if one.kind is bool:
        names = f"{one.flag}/--no-{one.flag.removeprefix('--')}"
        return click.option(names, one.name, default=None, help=help_text)
    metavar = "|".join(one.choices) if one.choices else _METAVARS[one.kind]
    return click.option(one.flag, one.name, default=None, metavar=metavar, help=help_text)


def _default(one: Setting) -> str:
    if one.required:
        return "  [required]"
    if one.secret or one.default in ("", None, ()):
        return ""
    default = one.default
    if isinstance(default, bool):
        default = "on" if default else "off"
    elif isinstance(default, tuple):
        default = ",".join(default)
    return f"  [default: {default}]"
