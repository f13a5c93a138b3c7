"""Reading trace files line by line: gzip or plain, and what happens to lines that are broken."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from kvroute.errors import KvrouteError

T = TypeVar("T")
MAX_KEPT = 100


class TraceError(KvrouteError):
    """A trace cannot be used; the message names file, line and reason."""


@dataclass(slots=True)
class Skipped:
    """What a lenient reader left out: how many lines, and the first messages."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        self.count += 1
        if len(self.messages) < MAX_KEPT:
            self.messages.append(message)


def read_lines(
    path: Path, parse: Callable[[str], T], *, skipped: Skipped | None, header: bool = False
) -> Iterator[T]:
    """Parsed lines of `path`; blank ones are passed over.

    `parse` raises ValueError (or KeyError, TypeError) on a broken line. With `skipped` such lines
    are noted there; without, the first one ends the run.

    Raises:
        TraceError: the file cannot be read, a line is broken, or no line is left.
    """
    found = False
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip() or (header and number == 1):
                    continue
                try:
                    item = parse(line)
                except (ValueError, KeyError, TypeError) as error:
                    message = f"{path}:{number}: {_reason(error)}"
                    if skipped is None:
                        raise TraceError(message) from None
                    skipped.add(message)
                    continue
                found = True
                yield item
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is not UTF-8 text: {error}") from None
    if not found:
        raise TraceError(f"{path}: the trace is empty (no usable line)")


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"field {error.args[0]!r} is missing"
    return str(error)


def whole(value: object, name: str, least: int = 0) -> int:
    """`value` as an integer of at least `least`. Raises ValueError naming the field."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ValueError(f"{name} is {value!r}, not a whole number")
    if value < least:
        raise ValueError(f"{name} is {value}, less than {least}")
    return int(value)


class Clock:
    """Checks that times never go back. Raises ValueError when one does."""

    def __init__(self) -> None:
        self._last: float | None = None

    def check(self, now: float) -> float:
        if self._last is not None and now < self._last:
            raise ValueError(f"time goes back, from {self._last} to {now}")
        self._last = now
        return now
