"""What every workload is: a stream of calls whose prompts are chains of block ids.

A block id stands for a whole prefix up to its end (equal id, equal prefix), so that the simulator
needs no tokens; `tokens.py` turns ids into real token ids or text for a live fleet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Open loop: it arrives at `at`. Closed loop: `next` arrives `next.think_s` after
    this one ends, and its `at` only says when it would come if answers took no time to speak of.

    `blocks`: ids of the full blocks of the prompt (the first `prompt_blocks`) and, where a later
    call goes on behind the answer, of prompt and answer together.
    """

    number: int
    at: float
    """Seconds from the start."""
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    prompt_blocks: int
    session: int | None = None
    think_s: float = 0.0
    next: Call | None = None
    dead_from: int | None = None
    """Blocks from this index on are known to the client not to be used again: the session is over,
    or the rest is a one-shot suffix. None: the client declares nothing."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A named stream that can be started again. All prompts have blocks of `block_size` tokens."""

    name: str
    block_size: int
    stream: Callable[[], Iterator[Call]]

    def calls(self) -> Iterator[Call]:
        """First calls of every session, ordered by `at`; later turns hang on them as `next`."""
        return self.stream()

    def flat(self) -> Iterator[Call]:
        """Every call, ordered by `at`, as if nobody waited for answers. Holds one call per open
        session.
        """
        later: list[tuple[float, int, Call]] = []
        for call in self.calls():
            while later and later[0][0] <= call.at:
                yield from _pop(later)
            yield call
            _push(later, call.next)
        while later:
            yield from _pop(later)


def _push(later: list[tuple[float, int, Call]], call: Call | None) -> None:
    if call is not None:
        heapq.heappush(later, (call.at, call.number, call))


def _pop(later: list[tuple[float, int, Call]]) -> Iterator[Call]:
    call = heapq.heappop(later)[2]
    yield call
    _push(later, call.next)


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over a whole workload; tokens and blocks of prompts and known answers."""

    calls: int
    prompt_tokens: int
    output_tokens: int
    distinct_blocks: int
    reused_blocks: int
    """Distinct blocks that two or more calls use: the working set worth caching."""
    endless_hit_rate: float
    """Share of prompt tokens that a cache without bound would hit, calls one after the other."""


def summarize(calls: Iterable[Call], block_size: int) -> Summary:
    """Reads the whole stream."""
    uses: dict[int, int] = {}
    count = prompt = output = hits = 0
    for call in calls:
        count += 1
        prompt += call.prompt_tokens
        output += call.output_tokens
        known = 0
        for block in call.blocks[: call.prompt_blocks]:
            if block not in uses:
                break
            known += 1
        hits += min(known * block_size, call.prompt_tokens - 1)
        for block in call.blocks:
            uses[block] = uses.get(block, 0) + 1
    reused = sum(1 for number in uses.values() if number > 1)
    rate = hits / prompt if prompt else 0.0
    return Summary(count, prompt, output, len(uses), reused, rate)
