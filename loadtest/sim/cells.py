"""The workloads that policies are judged on, each with the fleet it runs on.

Twelve cells of the study in `docs/benchmarks.md`, the paper's calibration point, and held-out cells
whose seeds and shapes no constant was chosen on. Mooncake cells read traces; without them they
generate long chats, and the cell's `note` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from loadtest.sim.options import FleetOptions
from loadtest.sim.profile import Profile
from loadtest.workloads.base import Workload
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.documents import Documents, documents
from loadtest.workloads.gsp import Gsp, gsp
from loadtest.workloads.mooncake import mooncake
from loadtest.workloads.scans import Burst, Drift, burst, drift
from loadtest.workloads.traces import find

CARD = Profile()
FAST_CARD = replace(CARD.faster(2.0), max_running=128)


def _prefill(ms: float) -> Profile:
    return replace(CARD, prefill_ms=ms)


FOUR = FleetOptions(workers=4, blocks=9375)
EIGHT = FleetOptions(workers=8, blocks=2000, profile=FAST_CARD)
HALF_SLOW_4 = (1.0, 1.0, 2.0)
HALF_SLOW_8 = (1.0, 1.0, 1.0, 1.0, 2.0)

Build = Callable[[int, Path | None], Workload]


@dataclass(frozen=True, slots=True)
class Cell:
    """`build(seed, traces)` makes the workload; `trace` names the file it wants, if any."""

    name: str
    build: Build
    fleet: FleetOptions
    trace: str = ""
    held_out: bool = False

    def workload(self, seed: int, traces: Path | None) -> Workload:
        return self.build(seed, traces)

    def note(self, traces: Path | None) -> str:
        """What the cell had to replace, or nothing."""
        if self.trace and find(self.trace, traces) is None:
            return f"{self.trace} is not at hand; long chats are generated instead"
        return ""


def _gsp(name: str, options: Gsp, fleet: FleetOptions = FOUR, shift: int = 0) -> Cell:
    return Cell(name, lambda seed, _: gsp(options, seed + shift, name), fleet, held_out=bool(shift))


def _chat(name: str, options: Chat, fleet: FleetOptions, shift: int = 0) -> Cell:
    return Cell(
        name, lambda seed, _: chat(options, seed + shift, name), fleet, held_out=bool(shift)
    )


def _documents(name: str, options: Documents, fleet: FleetOptions, shift: int = 0) -> Cell:
    return Cell(
        name, lambda seed, _: documents(options, seed + shift, name), fleet, held_out=bool(shift)
    )


def _mooncake(name: str, trace: str, fleet: FleetOptions, held_out: bool = False) -> Cell:
    def build(seed: int, traces: Path | None) -> Workload:
        path = find(trace, traces)
        return mooncake(path, name=name) if path is not None else _long_chat(name, seed)

    return Cell(name, build, fleet, trace, held_out)


def _long_chat(name: str, seed: int) -> Workload:
    options = Chat(
        sessions=1500,
        user=(1024, 2048, 4096, 8192, 16384),
        output=(64, 640),
        system=1024,
        system_prompts=16,
        rate=1.0,
        think_s=30.0,
        block_size=512,
    )
    return chat(options, seed, name)


def _drift(name: str, options: Drift, fleet: FleetOptions, shift: int = 0) -> Cell:
    return Cell(
        name, lambda seed, _: drift(options, seed + shift, name), fleet, held_out=bool(shift)
    )


CELLS = (
    _gsp("gsp_random", Gsp()),
    _gsp("gsp_overload", Gsp(), replace(FOUR, profile=_prefill(0.15))),
    _gsp("gsp_rr", Gsp(order="round_robin")),
    _gsp("gsp_grouped", Gsp(order="grouped")),
    _gsp("gsp_zipf", Gsp(zipf=1.0)),
    _documents("loogle", Documents(), replace(FOUR, blocks=4700)),
    _drift("drift", Drift(), replace(FOUR, blocks=4700, profile=_prefill(0.16))),
    _chat("chat", Chat(), replace(FOUR, blocks=6000, stretch=0.6)),
    _mooncake("moon_conv", "mooncake_conversation", replace(EIGHT, stretch=0.7)),
    _mooncake("moon_synth", "mooncake_synthetic", replace(EIGHT, stretch=0.6)),
    _gsp("gsp_het", Gsp(), replace(FOUR, profile=_prefill(0.09), slowness=HALF_SLOW_4)),
    _mooncake("moon_conv_het", "mooncake_conversation", replace(EIGHT, slowness=HALF_SLOW_8)),
)

PAPER = _gsp("paper", Gsp(), replace(FOUR, blocks=12500, profile=_prefill(0.14)))

# One worker that chat keeps saturated: the queue is long, and look-ahead locks have work to do.
CHAT_ONE = _chat("chat_one", Chat(), replace(FOUR, workers=1, blocks=12000, stretch=2.1))

HELD_OUT = (
    _gsp("held_gsp_8", Gsp(), replace(FOUR, workers=8, blocks=4700, stretch=0.5), 100),
    _gsp("held_gsp_64", Gsp(groups=64, prompts=64), FOUR, 110),
    _gsp("held_zipf_1.2", Gsp(zipf=1.2), FOUR, 120),
    _gsp("held_grouped_64", Gsp(groups=64, prompts=48, order="grouped"), FOUR, 130),
    _documents(
        "held_loogle_60", Documents(documents=60, rate=14.0), replace(FOUR, blocks=3000), 140
    ),
    _chat(
        "held_chat_1_prompt",
        Chat(system_prompts=1, turns=(3, 5, 9)),
        replace(FOUR, blocks=5000, stretch=0.55),
        150,
    ),
    _drift(
        "held_drift_10",
        Drift(hot=10, period=300),
        replace(FOUR, blocks=3000, profile=_prefill(0.16)),
        160,
    ),
    Cell(
        "held_burst",
        lambda seed, _: burst(Burst(), seed + 170, "held_burst"),
        replace(FOUR, blocks=6000),
        held_out=True,
    ),
    _mooncake(
        "held_moon_conv_16", "mooncake_conversation", replace(EIGHT, workers=16, profile=CARD), True
    ),
)

BY_NAME = {cell.name: cell for cell in (*CELLS, PAPER, CHAT_ONE, *HELD_OUT)}
