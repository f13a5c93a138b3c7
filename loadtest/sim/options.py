"""What to simulate: one frozen record per run."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadtest.sim.profile import Profile

INDEXES = ("events", "history")


@dataclass(frozen=True, slots=True)
class Failure:
    """Worker `worker` is lost at `at_s`, with its cache, and back, empty, `down_s` later."""

    worker: int
    at_s: float
    down_s: float = 5.0


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The simulated fleet. `blocks` of KV cache per worker; `slowness` per worker (1: as profiled;
    the last one given counts for the rest).

    `index`: "events" (exact, `index_delay_ms` late, prompts in flight count) or "history" (what the
    router sent, evictions unseen). `ledger_lag_ms`: how late a router sees the others' bookings.
    """

    workers: int = 4
    blocks: int = 9375
    policy: str = "lbgr_plus"
    evictor: str = "lru"
    profile: Profile = field(default_factory=Profile)
    slowness: tuple[float, ...] = (1.0,)
    index: str = "events"
    index_delay_ms: float = 5.0
    in_flight: bool = True
    routers: int = 1
    ledger_lag_ms: float = 0.0
    learning: bool = True
    look_ahead: bool = False
    hints: bool = False
    stretch: float = 1.0
    """Multiplies arrival and think times."""
    failures: tuple[Failure, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        if self.index not in INDEXES:
            raise ValueError(f"unknown index {self.index!r}; known are {', '.join(INDEXES)}")
        if self.workers < 1 or self.routers < 1 or self.blocks < 1 or not self.slowness:
            raise ValueError("workers, routers, blocks and slowness must be at least one")

    def slowness_of(self, worker: int) -> float:
        return self.slowness[min(worker, len(self.slowness) - 1)]
