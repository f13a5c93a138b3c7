"""One request on its way through the engine: its tokens, its blocks, its text, its times."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from cache_index.base import BlockKey
from cache_index.keys import KeyChain
from kvroute.errors import KvrouteError
from kvroute.tokens import pack_tokens
from worker_svc.base import EngineRequest, Finished
from worker_svc.engine.base import Pick
from worker_svc.text.detokenizer import Decode
from worker_svc.text.stream import TextStream

_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Accepted:
    """What one more token meant: text that may be sent now, and how the sequence ended, if it
    did.
    """

    text: str = ""
    reason: str | None = None
    stop_reason: str = ""


@dataclass(slots=True)
class Times:
    """Milliseconds and counts for `Finished`."""

    arrived: float = 0.0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    steps: int = 0
    steps_ms: float = 0.0
    batches: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """`tokens[:computed]` have K/V in the blocks of `table`; the first `committed` of these blocks
    are cached.
    """

    request: EngineRequest
    tokens: list[int]
    prompt_tokens: int
    text: TextStream
    eos: frozenset[int]
    chain: KeyChain
    order: int = 0
    computed: int = 0
    committed: int = 0
    table: list[int] = field(default_factory=list)
    cached_tokens: int | None = None
    preemptions: int = 0
    times: Times = field(default_factory=Times)
    _chained: int = 0

    @classmethod
    def of(
        cls, request: EngineRequest, decode: Decode | None, eos: frozenset[int], order: int
    ) -> Sequence:
        """A sequence that has seen nothing but its prompt; `resume` adds what was generated
        elsewhere.
        """
        prompt_tokens = len(request.tokens) - request.resumed_tokens
        prompt = list(request.tokens[:prompt_tokens])
        return cls(
            request=request,
            tokens=prompt,
            prompt_tokens=prompt_tokens,
            text=TextStream(decode, prompt, request.sampling.stop),
            eos=_NOTHING if request.sampling.ignore_eos else eos,
            chain=request.space.chain(),
            order=order,
        )

    def resume(self) -> Accepted:
        """Takes the resumed tokens as if generated here; their text was sent by whoever generated
        them.

        Returns how the sequence ended, if the last of them ended it. O(resumed tokens).
        """
        accepted = Accepted()
        for token in self.request.tokens[self.prompt_tokens :]:
            accepted = self.accept(token)
            if accepted.reason is not None:
                break
        return Accepted(reason=accepted.reason, stop_reason=accepted.stop_reason)

    @property
    def pending(self) -> int:
        """Known tokens without K/V; at least 1, and 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def completion_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def keys(self) -> list[BlockKey]:
        """Keys of all full blocks of `tokens`."""
        if len(self.tokens) > self._chained:
            self.chain.extend(pack_tokens(self.tokens[self._chained :]))
            self._chained = len(self.tokens)
        return self.chain.keys

    def pick(self) -> Pick:
        """The question for the next token."""
        sampling = self.request.sampling
        early = self.completion_tokens < sampling.min_tokens
        banned = self.eos | sampling.stop_token_ids if early else _NOTHING
        return Pick(sampling, self.tokens, self.prompt_tokens, banned)

    def accept(self, token: int) -> Accepted:
        """Appends a generated token. The text of a stop token or stop string is never sent."""
        self.tokens.append(token)
        sampling = self.request.sampling
        made = self.completion_tokens
        if made > sampling.min_tokens and (token in sampling.stop_token_ids or token in self.eos):
            return Accepted(self.text.finish().text, "stop", str(token))
        part = self.text.push(token, armed=made >= sampling.min_tokens)
        if part.stop is not None:
            return Accepted(part.text, "stop", part.stop)
        if made < sampling.max_tokens:
            return Accepted(part.text)
        rest = self.text.finish()
        if rest.stop is not None:
            return Accepted(part.text + rest.text, "stop", rest.stop)
        return Accepted(part.text + rest.text, "length")

    def spent(self, share_ms: float, step_ms: float, batch: int, *, decoding: bool) -> None:
        """Books a step: this sequence's share of it, and the step itself when it generated."""
        times = self.times
        if not decoding:
            times.prefill_ms += share_ms
            return
        times.decode_ms += share_ms
        times.steps += 1
        times.steps_ms += step_ms
        times.batches += batch

    def finished(
        self, reason: str, stop_reason: str = "", error: KvrouteError | None = None
    ) -> Finished:
        times, steps = self.times, max(1, self.times.steps)
        return Finished(
            reason=reason,
            stop_reason=stop_reason,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens or 0,
            completion_tokens=self.completion_tokens,
            queue_ms=times.queue_ms,
            prefill_ms=times.prefill_ms,
            decode_ms=times.decode_ms,
            step_ms=times.steps_ms / steps,
            batch_size=times.batches / steps,
            preemptions=self.preemptions,
            error=error,
        )


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` positions."""
    return -(-tokens // block_size)


def total_blocks(sequence: Sequence, block_size: int) -> int:
    """Blocks at its longest: the last token it may generate needs no K/V."""
    known: Seq[int] = sequence.request.tokens
    left = sequence.request.sampling.max_tokens - sequence.request.resumed_tokens
    return blocks_for(len(known) + max(1, left) - 1, block_size)
