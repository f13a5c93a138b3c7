"""Any benchmark's result for people: a table per list of rows, a line per figure. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

HEAD = ("bench", "commit", "config", "seed", "machine")


def shown(result: Mapping[str, Any]) -> RenderableType:
    """The common keys in one dim line, then everything else by name."""
    machine = result["machine"]
    parts = [f"bench {result['bench']}", f"{machine['cores']} cores", str(machine["cpu"])]
    head = Text(", ".join(part for part in parts if part), style="dim")
    body = {name: value for name, value in result.items() if name not in HEAD}
    return Group(head, *_parts("", body))


def _parts(prefix: str, found: Mapping[str, Any]) -> Iterator[RenderableType]:
    for name, value in found.items():
        title = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _parts(f"{title}.", value)
        elif _is_rows(value):
            yield _table(title, value)
        elif value not in ([], ()):
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield Text(f"{title}: {text}")


def _is_rows(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and len(value) > 0
        and all(isinstance(row, Mapping) for row in value)
    )


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    # Rows need not have the same columns; keep the order in which they first appear.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(title=None if title == "rows" else title, title_justify="left")
    for name in columns:
        text = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(name, justify="left" if text else "right")
    for row in rows:
        table.add_row(*(str(row.get(name, "-")) for name in columns))
    return table
