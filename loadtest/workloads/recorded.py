"""kvroute's own recordings (`kvroute record`): JSON lines with arrival times, lengths and block
keys, no content.

The first line is a header `{"kvroute_trace": 1, "block_size": B}`; each other line has `at` (s),
`prompt_tokens`, `output_tokens`, `blocks` (keys as hexadecimal text) and optionally `session`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.mooncake import TraceOptions
from loadtest.workloads.trace_lines import Skipped, TraceError, read_lines, whole

VERSION = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as the router saw it. `blocks`: index keys of its full blocks."""

    at: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    session: str = ""


class Recorder:
    """Writes a recording; a router calls `write` when a request ends, so in any order of `at`."""

    def __init__(self, file: TextIO, block_size: int) -> None:
        self._file = file
        self._line({"kvroute_trace": VERSION, "block_size": block_size})

    def write(self, one: Recorded) -> None:
        line: dict[str, object] = {
            "at": round(one.at, 6),
            "prompt_tokens": one.prompt_tokens,
            "output_tokens": one.output_tokens,
            "blocks": [f"{key & (1 << 64) - 1:x}" for key in one.blocks],
        }
        if one.session:
            line["session"] = one.session
        self._line(line)

    def _line(self, fields: dict[str, object]) -> None:
        self._file.write(json.dumps(fields, separators=(",", ":")) + "\n")


def recorded(
    path: Path,
    options: TraceOptions | None = None,
    name: str = "recorded",
    skipped: Skipped | None = None,
) -> Workload:
    """Raises TraceError if the file is no recording."""
    chosen = options or TraceOptions()
    notes = (skipped or Skipped()) if chosen.lenient else None
    return Workload(name, _block_size(path), lambda: _calls(path, chosen, notes))


def _block_size(path: Path) -> int:
    for header in read_lines(path, json.loads, skipped=None):
        if isinstance(header, dict) and header.get("kvroute_trace") == VERSION:
            try:
                return whole(header.get("block_size"), "block_size", 1)
            except ValueError as error:
                raise TraceError(f"{path}:1: {error}") from None
        break
    raise TraceError(f"{path}:1: is no kvroute recording (version {VERSION})")


def _calls(path: Path, options: TraceOptions, skipped: Skipped | None) -> Iterator[Call]:
    lines = read_lines(path, _parse, skipped=skipped, header=True)
    kept = [one for one in lines if one.prompt_tokens <= options.max_prompt]
    # Written as requests ended; replayed as they arrived.
    kept.sort(key=lambda one: one.at)
    for number, one in enumerate(kept[: options.limit]):
        yield Call(
            number,
            one.at * options.stretch,
            one.prompt_tokens,
            one.output_tokens,
            one.blocks,
            len(one.blocks),
        )


def _parse(text: str) -> Recorded:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")
    at = fields["at"]
    if isinstance(at, bool) or not isinstance(at, (int, float)) or at < 0:
        raise ValueError(f"at is {at!r}, not a time in seconds")
    return Recorded(
        float(at),
        whole(fields["prompt_tokens"], "prompt_tokens", 1),
        max(1, whole(fields["output_tokens"], "output_tokens")),
        tuple(int(key, 16) for key in fields["blocks"]),
        str(fields.get("session", "")),
    )
