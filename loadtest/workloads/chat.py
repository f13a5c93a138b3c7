"""Chat sessions with growing history, shaped like ShareGPT and UltraChat: 2, 4, 6 or 8 turns behind
a few shared system prompts, the next turn sent when the answer has been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from loadtest.workloads.base import Call, Workload
from loadtest.workloads.ids import BlockIds, poisson

ANSWER_S = 4.0
"""Rough time of an answer, used only for the nominal times of later turns."""


@dataclass(frozen=True, slots=True)
class Chat:
    """`rate` of new sessions per second; think times are exponential. `closed`: a turn waits for
    the answer before it; otherwise all turns come at their nominal times.
    """

    sessions: int = 384
    turns: tuple[int, ...] = (2, 4, 6, 8)
    user: tuple[int, ...] = (64, 128, 256, 512, 1024)
    output: tuple[int, int] = (64, 319)
    system: int = 512
    system_prompts: int = 4
    rate: float = 2.0
    think_s: float = 8.0
    closed: bool = True
    block_size: int = 16


def chat(options: Chat, seed: int = 2, name: str = "chat") -> Workload:
    workload = Workload(name, options.block_size, lambda: _sessions(options, seed))
    if options.closed:
        return workload
    return Workload(name, options.block_size, lambda: _opened(workload))


def _sessions(options: Chat, seed: int) -> Iterator[Call]:
    rng, ids = Random(f"chat/{seed}"), BlockIds()
    times = poisson(options.rate, rng)
    number = 0
    for session, at in zip(range(options.sessions), times, strict=False):
        turns = options.turns[session % len(options.turns)]
        yield _session(options, rng, ids, session, at, turns, number)
        number += turns


def _session(
    options: Chat, rng: Random, ids: BlockIds, session: int, at: float, turns: int, number: int
) -> Call:
    """The first call of a session; the others hang on it."""
    size = options.block_size
    shared = options.system // size
    blocks = ids.shared(rng.randrange(options.system_prompts), shared)
    tokens, drafts, think = options.system, [], 0.0
    for _ in range(turns):
        prompt = tokens + rng.choice(options.user)
        output = rng.randint(*options.output)
        blocks += ids.fresh((prompt + output) // size - len(blocks))
        drafts.append((at, think, prompt, output, blocks))
        tokens = prompt + output
        think = rng.expovariate(1.0 / options.think_s)
        at += think + ANSWER_S
    call: Call | None = None
    for turn in reversed(range(turns)):
        at, think, prompt, output, blocks = drafts[turn]
        call = Call(
            number + turn,
            at,
            prompt,
            output,
            blocks,
            prompt // size,
            session=session,
            think_s=think,
            next=call,
            dead_from=shared if turn == turns - 1 else None,
        )
    assert call is not None
    return call


def _opened(workload: Workload) -> Iterator[Call]:
    """Every turn on its own, at its nominal time."""
    for call in workload.flat():
        yield replace(call, next=None)
