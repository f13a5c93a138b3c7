"""Mooncake traces: JSON lines with `timestamp` (ms), `input_length`, `output_length` and one
`hash_ids` entry per 512-token block of the prompt (equal id, equal prefix).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.trace_lines import Clock, Skipped, read_lines, whole

BLOCK = 512
COARSE_S = 3.0
"""Mooncake's times are rounded to 3 s: calls of one time stamp are spread over the next 3 s."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """`stretch` multiplies times; longer prompts than `max_prompt` are left out, as are calls after
    the first `limit`. `lenient`: broken lines are skipped and counted instead of refused.
    """

    stretch: float = 1.0
    max_prompt: int = 120_000
    limit: int | None = None
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class _Line:
    at: float
    prompt: int
    output: int
    ids: tuple[int, ...]


def mooncake(
    path: Path,
    options: TraceOptions | None = None,
    name: str = "mooncake",
    skipped: Skipped | None = None,
) -> Workload:
    """The stream raises TraceError when it meets a broken line and the options are strict."""
    chosen = options or TraceOptions()
    notes = (skipped or Skipped()) if chosen.lenient else None
    return Workload(name, BLOCK, lambda: _calls(path, chosen, notes))


def _calls(path: Path, options: TraceOptions, skipped: Skipped | None) -> Iterator[Call]:
    clock, rng = Clock(), Random("mooncake")
    lines = []
    for line in read_lines(path, lambda text: _parse(text, clock), skipped=skipped):
        if line.prompt > options.max_prompt:
            continue
        lines.append((line.at + rng.random() * COARSE_S, line))
        if options.limit is not None and len(lines) >= options.limit:
            break
    lines.sort(key=lambda pair: pair[0])
    known: dict[tuple[int, int], int] = {}
    for number, (at, line) in enumerate(lines):
        full = min(len(line.ids), line.prompt // BLOCK)
        blocks: list[int] = []
        parent = -1
        for block in line.ids[:full]:
            # An id under another parent is another prefix, whatever the trace says.
            parent = known.setdefault((parent, block), len(known))
            blocks.append(parent)
        yield Call(number, at * options.stretch, line.prompt, line.output, tuple(blocks), full)


def _parse(text: str, clock: Clock) -> _Line:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")
    ids = fields["hash_ids"]
    if not isinstance(ids, list):
        raise ValueError("hash_ids is no list")
    prompt = whole(fields["input_length"], "input_length", 1)
    return _Line(
        clock.check(whole(fields["timestamp"], "timestamp") / 1000.0),
        prompt,
        max(1, whole(fields["output_length"], "output_length")),
        tuple(whole(block, "hash_ids") for block in ids),
    )
