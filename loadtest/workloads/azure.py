"""Azure LLM inference traces 2023 (Azure Public Dataset, Microsoft, CC-BY 4.0): arrival times and
lengths, no prefix identity, so that no prompt shares anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.ids import BlockIds
from loadtest.workloads.mooncake import TraceOptions
from loadtest.workloads.trace_lines import Clock, Skipped, read_lines, whole


def azure(
    path: Path,
    options: TraceOptions | None = None,
    name: str = "azure",
    block_size: int = 16,
    skipped: Skipped | None = None,
) -> Workload:
    chosen = options or TraceOptions()
    notes = (skipped or Skipped()) if chosen.lenient else None
    return Workload(name, block_size, lambda: _calls(path, chosen, block_size, notes))


def _calls(
    path: Path, options: TraceOptions, block_size: int, skipped: Skipped | None
) -> Iterator[Call]:
    clock, ids, number = Clock(), BlockIds(), 0
    start: float | None = None
    lines = read_lines(path, lambda text: _parse(text, clock), skipped=skipped, header=True)
    for at, prompt, output in lines:
        start = at if start is None else start
        if prompt > options.max_prompt:
            continue
        if options.limit is not None and number >= options.limit:
            return
        blocks = ids.fresh(prompt // block_size)
        when = (at - start) * options.stretch
        yield Call(number, when, prompt, max(1, output), blocks, len(blocks), dead_from=0)
        number += 1


def _parse(text: str, clock: Clock) -> tuple[float, int, int]:
    """`2023-11-16 18:15:46.6805900,374,44` -> seconds, prompt tokens, output tokens."""
    fields = text.strip().split(",")
    if len(fields) != 3:
        raise ValueError(f"has {len(fields)} fields, not 3 (TIMESTAMP,ContextTokens,...)")
    whole_seconds, _, fraction = fields[0].partition(".")
    at = datetime.fromisoformat(whole_seconds + "+00:00").timestamp() + float(f"0.{fraction or 0}")
    prompt = whole(float(fields[1]), "ContextTokens", 1)
    return clock.check(at), prompt, whole(float(fields[2]), "GeneratedTokens")
