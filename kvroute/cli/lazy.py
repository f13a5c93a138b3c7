"""Groups of commands whose modules are imported on first use.

Summaries stand in the group, so that its `--help` reads no other file.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: the module that holds it as `command`, and its line in the help."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """`@click.group(cls=LazyGroup, entries=COMMANDS)`."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = importlib.import_module(entry.module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Suggestions come from the entries; click's own way would import every command.
        import difflib

        if args and args[0] not in self._entries and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._entries, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._entries.items()])
