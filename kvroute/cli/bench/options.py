"""Options and output that the benchmarks share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

WIDTH = 120

json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, as the last line, instead of a table."
)
vs_option = click.option("--vs", default="", metavar="NAME,...", help="Rivals to measure beside.")
redis_option = click.option(
    "--redis-url", default="", metavar="URL", help="Redis or Valkey; empty: an embedded Valkey."
)


def integers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Callback of an option: positive integers, separated by commas."""
    try:
        found = tuple(int(part) for part in value.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise click.BadParameter(
            f"{value!r} must be numbers of 1 or more, separated by commas", ctx, param
        )
    return found


def names(text: str) -> tuple[str, ...]:
    """Of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def emit(result: Mapping[str, Any], as_json: bool) -> None:
    """Prints a benchmark's result."""
    if as_json:
        from kvroute.bench.common import one_line

        click.echo(one_line(result))
        return
    from rich.console import Console

    from kvroute.bench.table import shown

    Console(width=None if sys.stdout.isatty() else WIDTH).print(shown(result))
