"""Rows as aligned text, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

HIDDEN = frozenset(
    ("busy", "seeds", "lat_p50_range_ms", "blocks", "timeline")
    + ("ttft_quantiles_ms", "latency_quantiles_ms")
)
MAX_ROWS = 400


def print_rows(content: Mapping[str, Any]) -> None:
    """`rows`, and the standing of each policy where there is one."""
    click.echo(table(content.get("rows", [])[:MAX_ROWS]))
    geomean = content.get("geomean")
    if geomean:
        click.echo()
        click.echo(table([{"policy": name, **values} for name, values in geomean.items()]))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns in the order of the first row's keys; numbers to the right."""
    if not rows:
        return "(no rows)"
    columns = [name for name in rows[0] if name not in HIDDEN]
    lines = [columns] + [[_text(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    right = [isinstance(rows[0][name], (int, float)) for name in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if align else cell.ljust(width)
            for cell, width, align in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10 else f"{value:.0f}"
    return "" if value is None else str(value)
