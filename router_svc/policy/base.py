"""What a routing policy is given, what it answers, and what it may not do.

A policy is pure: no I/O, no clock, no global randomness; it reads only what a real router knows, so
the simulator runs the very same classes. This package imports nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Costs:
    """Learned cost of one worker's time (`docs/algorithms.md`).

    Prefill of `hit + miss = L` tokens takes `base_ms + (hit_ms * hit + miss_ms * miss) / 1000` plus
    attention, `attention * miss_ms / 1000 * miss * (L - miss / 2)` ms; a decode step of n requests
    `step_base_ms + step_ms * n` ms.
    """

    base_ms: float = 2.0
    hit_ms: float = 0.0
    miss_ms: float = 110.0
    attention: float = 3.2e-5
    step_base_ms: float = 20.0
    step_ms: float = 0.3


@dataclass(frozen=True, slots=True)
class Candidate:
    """One worker that could take the request. `hit`: prompt tokens cached there, at most prompt -
    1.
    """

    worker_id: str
    slot: int
    hit: int = 0
    queue_ms: float = 0.0
    """Booked prefill of requests whose first token is not out yet."""
    outstanding: int = 0
    costs: Costs = Costs()
    waiting: int = 0
    """Outstanding requests whose first token is not out yet."""
    queued_tokens: int = 0
    """Prompt tokens that those still have to compute (their misses, as booked)."""
    active_blocks: int = 0
    """KV blocks of all outstanding requests: prompt and expected output."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a policy may know of a request. `reuse`: decayed arrivals of its deepest cached block (n
    in LBGR+).
    """

    prompt_tokens: int
    max_tokens: int = 16
    reuse: float = 0.0
    block_size: int = 16
    prefix_key: int | None = None
    """Stands for the first tokens of the prompt (`hashing.prefix_key`). None: it is too short."""
    now: float = 0.0
    """Seconds on any monotonic clock; the same clock as `Ended.now`."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The candidates, never empty, and what is known of all of them together."""

    candidates: Sequence[Candidate]
    mean_output: float = 32.0
    """Running mean of tokens generated per request."""


@dataclass(frozen=True, slots=True)
class Price:
    """One candidate as the policy sees it; times in ms, hit and miss in tokens. The lowest `cost`
    wins.
    """

    candidate: Candidate
    miss: int
    prefill_ms: float
    decode_ms: float
    miss_weight: float
    cost: float
    load: float = 0.0
    """The policy's own measure of the candidate's load, where it keeps one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice, and why.

    `shortlist` is what the ledger may choose among, atomically and with fresher queues than the
    policy had; a policy that wants its own choice confirmed gives a shortlist of that one.
    """

    chosen: Price
    prices: tuple[Price, ...]
    shortlist: tuple[Price, ...]
    reason: str
    kappa: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A booked request is over. `hit`: prompt tokens it found cached; `failed`: no full answer."""

    request: Request
    price: Price
    now: float
    hit: int = 0
    output_tokens: int = 0
    failed: bool = False


class Policy(Protocol):
    """Chooses a worker. May keep counters of its own; never raises on a fleet that is not empty."""

    name: ClassVar[str]

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        """O(candidates). Ties are broken with `rng`: same calls, same generator, same decisions."""
        ...

    def on_book(self, request: Request, price: Price) -> None:
        """The request was booked on `price.candidate`. O(1); most policies need no such thing."""
        return None

    def on_end(self, ended: Ended) -> None:
        """It is over: called once for every `on_book`. O(1)."""
        return None
