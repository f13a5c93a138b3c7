"""Traces in the form of Qwen-Bailian's: JSON lines with `chat_id`, `parent_chat_id` (-1 for a first
turn), `timestamp` (s), `input_length`, `output_length`, `turn` and 16-token `hash_ids`.

Sessions are closed loops: a turn follows the end of the one it names as parent, after the time that
lay between them in the trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.mooncake import TraceOptions
from loadtest.workloads.trace_lines import Clock, Skipped, read_lines, whole

BLOCK = 16


@dataclass(frozen=True, slots=True)
class _Turn:
    chat: int
    parent: int
    at: float
    prompt: int
    output: int
    ids: tuple[int, ...]


def bailian(
    path: Path,
    options: TraceOptions | None = None,
    name: str = "bailian",
    skipped: Skipped | None = None,
) -> Workload:
    chosen = options or TraceOptions()
    notes = (skipped or Skipped()) if chosen.lenient else None
    return Workload(name, BLOCK, lambda: _calls(path, chosen, notes))


def _calls(path: Path, options: TraceOptions, skipped: Skipped | None) -> Iterator[Call]:
    clock = Clock()
    turns: dict[int, _Turn] = {}
    follower: dict[int, int] = {}
    for turn in read_lines(path, lambda text: _parse(text, clock), skipped=skipped):
        if turn.prompt > options.max_prompt:
            continue
        turns[turn.chat] = turn
        if turn.parent in turns:
            # One branch goes on from a parent; others start sessions of their own.
            follower.setdefault(turn.parent, turn.chat)
        if options.limit is not None and len(turns) >= options.limit:
            break
    chained = set(follower.values())
    number = 0
    for turn in turns.values():
        if turn.chat in chained:
            continue
        session = [turn]
        while (after := follower.get(session[-1].chat)) is not None:
            session.append(turns[after])
        yield _session(session, options, number)
        number += len(session)


def _session(turns: list[_Turn], options: TraceOptions, number: int) -> Call:
    call: Call | None = None
    for place in reversed(range(len(turns))):
        turn = turns[place]
        full = min(len(turn.ids), turn.prompt // BLOCK)
        think = turn.at - turns[place - 1].at if place else 0.0
        call = Call(
            number + place,
            turn.at * options.stretch,
            turn.prompt,
            turn.output,
            turn.ids[:full],
            full,
            session=turns[0].chat,
            think_s=think * options.stretch,
            next=call,
        )
    assert call is not None
    return replace(call, think_s=0.0)


def _parse(text: str, clock: Clock) -> _Turn:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")
    at = fields["timestamp"]
    if isinstance(at, bool) or not isinstance(at, (int, float)) or at < 0:
        raise ValueError(f"timestamp is {at!r}, not a time in seconds")
    return _Turn(
        whole(fields["chat_id"], "chat_id"),
        whole(fields["parent_chat_id"], "parent_chat_id", -1),
        clock.check(float(at)),
        whole(fields["input_length"], "input_length", 1),
        max(1, whole(fields["output_length"], "output_length")),
        tuple(whole(block, "hash_ids") for block in fields["hash_ids"]),
    )
