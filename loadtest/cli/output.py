"""What the measuring commands share: a progress bar, and where the JSON line goes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kvroute.errors import KvrouteError
from loadtest.sim.grid import Done


class UsageError(KvrouteError):
    """What was asked for makes no sense; the message says what to change."""


def emit(line: str, out: Path | None, as_json: bool) -> None:
    """Appends the JSON line to `out`, and prints it where asked to."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a") as file:
            file.write(line + "\n")
    if as_json:
        click.echo(line)


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The rows' plain values, one column per key of any row; lists and objects are left out."""
    columns = dict.fromkeys(
        name
        for row in rows
        for name, value in row.items()
        if not isinstance(value, (list, tuple, dict))
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@contextmanager
def progress() -> Iterator[Done | None]:
    """A progress bar on a terminal's stderr, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)

        def done(count: int, total: int) -> None:
            bar.update(task, completed=count, total=total or None)

        yield done
