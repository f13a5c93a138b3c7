"""Bytes to and from the ledger's functions; little-endian, layouts in lua/ledger_rows.lua."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cache_index.costs import DEFAULT_OUTPUT, Candidate, LedgerState, SlotLoad
from router_svc.policy.base import Costs

DEAD = 1e300
_CANDIDATE = struct.Struct("<HId")
_ENTRY = struct.Struct("<Hddddd")
_OBSERVATION = struct.Struct("<Hddddddd")
_BOOKED = struct.Struct("<Hdddddd")
_ROW = struct.Struct("<dddddd")
_HEAD = struct.Struct("<dd")
_WEIGHTS = struct.Struct("<dddddd")


@dataclass(frozen=True, slots=True)
class Entry:
    """Load of one slot's generation: what a session holds, or a settlement takes back."""

    slot: int
    gen: float
    us: int
    outstanding: int
    tokens: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Observation:
    """Service times of one request, for the learner; a time of 0 means: no such part."""

    slot: int
    epoch: int
    hit: int
    miss: int
    prefill_ms: float
    batch_size: float
    step_ms: float
    output_tokens: int

    def is_sane(self) -> bool:
        """Nonsense (not finite, negative, over a day) must not reach the shared weights."""
        return all(
            math.isfinite(value) and 0 <= value < 86_400_000
            for value in (
                self.hit,
                self.miss,
                self.prefill_ms,
                self.batch_size,
                self.step_ms,
                self.output_tokens,
            )
        )


@dataclass(frozen=True, slots=True)
class Booked:
    """Reply of `route`."""

    slot: int
    epoch: int
    gen: float
    us: int
    cost_ms: float
    kappa: float
    tokens: int


def pack_candidates(candidates: Iterable[Candidate]) -> bytes:
    return b"".join([_CANDIDATE.pack(entry.slot, entry.hit, entry.weight) for entry in candidates])


def pack_entries(entries: Iterable[Entry]) -> bytes:
    return b"".join(
        [_ENTRY.pack(e.slot, e.gen, e.us, e.outstanding, e.tokens, e.blocks) for e in entries]
    )


def pack_observations(observations: Iterable[Observation]) -> bytes:
    return b"".join(
        [
            _OBSERVATION.pack(
                o.slot,
                o.epoch,
                o.hit,
                o.miss,
                o.prefill_ms,
                o.batch_size,
                o.step_ms,
                o.output_tokens,
            )
            for o in observations
        ]
    )


def unpack_booked(reply: bytes) -> Booked | None:
    """None for anything else than a booking (a refusal)."""
    if len(reply) != _BOOKED.size:
        return None
    slot, epoch, gen, us, cost, kappa, tokens = _BOOKED.unpack(reply)
    return Booked(slot, int(epoch), gen, int(us), cost, kappa, int(tokens))


def unpack_state(reply: Sequence[bytes | int]) -> LedgerState:
    """Reply of `peek`: Q, R, T, number of live routers."""
    queues, rows, weights, routers = reply
    assert isinstance(queues, bytes) and isinstance(rows, bytes) and isinstance(weights, bytes)
    slots: dict[int, SlotLoad] = {}
    for slot, (queue,) in enumerate(struct.iter_unpack("<d", queues)):
        if (slot + 1) * _ROW.size > len(rows):
            break
        epoch, gen, outstanding, routes, tokens, blocks = _ROW.unpack_from(rows, slot * _ROW.size)
        at = _HEAD.size + slot * _WEIGHTS.size
        known = at + _WEIGHTS.size <= len(weights)
        slots[slot] = SlotLoad(
            alive=queue < DEAD,
            epoch=int(epoch),
            gen=gen,
            queue_us=queue if queue < DEAD else 0.0,
            outstanding=int(outstanding),
            routes=int(routes),
            tokens=int(tokens),
            blocks=int(blocks),
            costs=Costs(*_WEIGHTS.unpack_from(weights, at)) if known else Costs(),
        )
    total, weight = _HEAD.unpack_from(weights) if len(weights) >= _HEAD.size else (0.0, 0.0)
    mean = total / weight if weight > 0 else DEFAULT_OUTPUT
    return LedgerState(slots=slots, mean_output=mean, routers=int(routers))
