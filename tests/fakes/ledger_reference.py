"""What the ledger must say at any moment, kept the slow and plain way: every booking by itself."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

from cache_index.costs import Candidate, LedgerState, SlotLoad, price
from cache_index.ledger_codec import Observation
from router_svc.policy.base import Costs

Matrix = list[list[float]]
PREFILL_PRIOR = (1.0, 1.0, 400.0)
DECODE_PRIOR = (100.0, 1.0)
CAP = 1e6


def diagonal(values: tuple[float, ...]) -> Matrix:
    return [[v if i == j else 0.0 for j in range(len(values))] for i, v in enumerate(values)]


def least_squares(
    theta: list[float], P: Matrix, x: list[float], y: float, forget: float
) -> tuple[list[float], Matrix]:
    """One textbook step of recursive least squares, then the cap on the diagonal."""
    size = range(len(x))
    Px = [sum(P[i][j] * x[j] for j in size) for i in size]
    gain = [value / (forget + sum(x[i] * Px[i] for i in size)) for value in Px]
    error = y - sum(theta[i] * x[i] for i in size)
    theta = [theta[i] + gain[i] * error for i in size]
    P = [[(P[i][j] - gain[i] * Px[j]) / forget for j in size] for i in size]
    scale = [math.sqrt(min(1.0, CAP / P[i][i])) for i in size]
    return theta, [[P[i][j] * scale[i] * scale[j] for j in size] for i in size]


@dataclass(slots=True)
class Held:
    """One booking."""

    slot: int
    gen: float
    us: int
    tokens: int
    blocks: int
    waiting: bool = True


@dataclass(slots=True)
class Weights:
    """What is known of one slot's worker: b, a_hit, a_miss, qr, t0, s."""

    theta: list[float]
    prefill: Matrix = field(default_factory=lambda: diagonal(PREFILL_PRIOR))
    decode: Matrix = field(default_factory=lambda: diagonal(DECODE_PRIOR))


@dataclass(frozen=True, slots=True)
class Sums:
    us: int
    outstanding: int
    tokens: int
    blocks: int


class LedgerReference:
    """Sessions, workers and weights. `gens` is read from the server: it depends on its clock."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[int, Held]] = {}
        self.epochs: dict[int, int] = {}
        self.gens: dict[int, float] = {}
        self.weights: dict[int, Weights] = {}
        self.output = [0.0, 0.0]

    def copy(self) -> LedgerReference:
        return copy.deepcopy(self)

    @property
    def alive(self) -> list[int]:
        return sorted(slot for slot, epoch in self.epochs.items() if epoch)

    def sums(self, slot: int) -> Sums:
        held = [
            one
            for bookings in self.sessions.values()
            for one in bookings.values()
            if one.slot == slot and one.gen == self.gens[slot]
        ]
        waiting = [one for one in held if one.waiting]
        return Sums(
            us=sum(one.us for one in waiting),
            outstanding=len(held),
            tokens=sum(one.tokens for one in waiting),
            blocks=sum(one.blocks for one in held),
        )

    def join(self, slot: int, epoch: int, keep: bool) -> None:
        if keep and slot in self.weights:
            theta = self.weights[slot].theta
        else:
            others = [self.weights[other].theta for other in self.alive if other != slot]
            columns = zip(*others, strict=True)
            mean = [sum(column) / len(others) for column in columns] if others else None
            theta = mean or [2, 0, 110, 3.2e-5, 20, 0.3]
        self.weights[slot] = Weights(list(theta))
        self.epochs[slot] = epoch

    def state(self) -> LedgerState:
        slots = {}
        for slot in self.epochs:
            sums = self.sums(slot)
            slots[slot] = SlotLoad(
                alive=bool(self.epochs[slot]),
                epoch=self.epochs[slot],
                gen=self.gens[slot],
                queue_us=sums.us,
                outstanding=sums.outstanding,
                routes=0,
                tokens=sums.tokens,
                blocks=sums.blocks,
                costs=Costs(*self.weights[slot].theta),
            )
        total, weight = self.output
        return LedgerState(slots=slots, mean_output=total / weight if weight else 32.0)

    def costs(
        self, prompt_tokens: int, candidates: list[Candidate]
    ) -> dict[int, tuple[float, float]]:
        """Slot -> (E ms, c ms) of the candidates that are alive."""
        priced = price(self.state(), prompt_tokens, candidates)
        return {entry.candidate.slot: (entry.cost_ms, entry.prefill_ms) for entry in priced}

    def observe(self, seen: Observation) -> None:
        if self.epochs.get(seen.slot) != seen.epoch:
            return
        if seen.output_tokens > 0:
            self.output = [
                self.output[0] * 0.99 + seen.output_tokens,
                self.output[1] * 0.99 + 1,
            ]
        weights = self.weights[seen.slot]
        theta, hit, miss = weights.theta, seen.hit, seen.miss
        attention = theta[3] * max(0.1, theta[2]) / 1000 * miss * (hit + miss / 2)
        if seen.prefill_ms > 0:
            theta[:3], weights.prefill = least_squares(
                theta[:3],
                weights.prefill,
                [1.0, hit / 1000, miss / 1000],
                seen.prefill_ms - attention,
                0.998,
            )
        if seen.step_ms > 0:
            theta[4:], weights.decode = least_squares(
                theta[4:], weights.decode, [1.0, seen.batch_size], seen.step_ms, 0.995
            )
