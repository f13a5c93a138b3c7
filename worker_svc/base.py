"""What the engine takes and gives: the contract between the gRPC edge and what steps the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cache_index.base import BlockKey
from cache_index.keys import KeySpace
from kvroute.errors import KvrouteError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Validated where it enters; the engine trusts it."""

    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities of one chosen token and of the most likely ones, best first.

    They are the model's own: before temperature, penalties, bias and cuts.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence to generate.

    `tokens` is the prompt, followed by `resumed_tokens` tokens that another worker generated
    already: generation goes on behind them as if it had never been interrupted (they count towards
    `max_tokens`, and are not sent again).
    `dead_from`: a hint that nobody will use the blocks behind this many tokens again
    (`engine.reuse`).
    """

    request_id: int
    tokens: Sequence[int]
    sampling: Sampling
    space: KeySpace
    priority: int = 0
    resumed_tokens: int = 0
    dead_from: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request got its blocks. `cached_tokens` is its prefix hit, counted once."""

    cached_tokens: int
    queue_ms: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a request; after it nothing more is said of it.

    `reason` is "stop", "length", "cancelled" or "error". Times in ms: `prefill_ms` and `decode_ms`
    are the request's shares of its steps, `step_ms` and `batch_size` means over its decode steps.
    """

    reason: str
    stop_reason: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    step_ms: float = 0.0
    batch_size: float = 0.0
    preemptions: int = 0
    error: KvrouteError | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What one step did for one request. New text never ends inside a character nor holds any of a
    stop string.
    """

    request_id: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    admitted: Admitted | None = None
    finished: Finished | None = None


@dataclass(frozen=True, slots=True)
class CacheDelta:
    """What one step did to the cache: `stored` parents before children, `removed` children before
    parents.

    `flushed`: the cache was emptied first; what was known of it is void.
    """

    stored: tuple[BlockKey, ...] = ()
    removed: tuple[BlockKey, ...] = ()
    flushed: bool = False


@dataclass(frozen=True, slots=True)
class StepReport:
    """Handed over once per engine step, from the engine's thread."""

    outputs: tuple[Output, ...] = ()
    delta: CacheDelta = CacheDelta()


Sink = Callable[[StepReport], None]


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A moment of the engine. Blocks: free + cached + locked = total."""

    waiting: int = 0
    running: int = 0
    waiting_tokens: int = 0
    free_blocks: int = 0
    cached_blocks: int = 0
    locked_blocks: int = 0
    total_blocks: int = 0
    steps: int = 0
    evictions: int = 0
    preemptions: int = 0


class EngineClient(Protocol):
    """All methods may be called from any thread and return at once; results go to the sink."""

    def start(self) -> None:
        """Starts the engine's thread. Requests submitted before wait."""

    def submit(self, request: EngineRequest) -> None:
        """Queues a request. A request that can never run gets a `Finished` with reason "error"."""

    def abort(self, request_id: int) -> None:
        """Ends a request within one step, with reason "cancelled". Unknown or finished ids do
        nothing.
        """

    def flush_cache(self) -> None:
        """Drops every cached block that no running request uses; the next delta is `flushed`."""

    def stats(self) -> EngineStats: ...

    def stop(self) -> None:
        """Ends the engine's thread after the current step; requests still there are ended as
        cancelled.
        """
