"""Reads result files: JSON lines, one object per benchmark run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvroute.errors import KvrouteError

Row = dict[str, Any]


class ReportError(KvrouteError):
    """A result file cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run. `kind`: what its rows are: "ablation", "workloads", "single" or "runs"."""

    source: str
    kind: str
    head: Row
    rows: list[Row]

    @property
    def title(self) -> str:
        config = self.head.get("config") or {}
        what = config.get("preset") or config.get("workload") or ""
        return f"{self.head.get('bench', '?')} {what}".strip()


def read_results(paths: Sequence[Path]) -> list[Result]:
    """Every result in `paths`, in order.

    Raises:
        ReportError: a file is missing, holds no result, or a line is no result.
    """
    found: list[Result] = []
    for path in paths:
        before = len(found)
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ReportError(f"{path}: cannot be read: {error}") from None
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("{"):
                found.append(_result(path, number, line))
        if len(found) == before:
            raise ReportError(f"{path}: no result in it (JSON lines with `bench` and `rows`)")
    return found


def _result(path: Path, number: int, line: str) -> Result:
    try:
        head = json.loads(line)
    except ValueError as error:
        raise ReportError(f"{path}:{number}: {error}") from None
    rows = head.get("rows")
    if "bench" not in head or not isinstance(rows, list) or not rows:
        raise ReportError(f"{path}:{number}: no `bench` or no `rows`")
    return Result(f"{path.name}:{number}", _kind(rows[0]), head, rows)


def _kind(row: Row) -> str:
    if "cache_fraction" in row:
        return "single"
    if "ttft_quantiles_ms" in row:
        return "runs"
    return "workloads" if "workload" in row else "ablation"
