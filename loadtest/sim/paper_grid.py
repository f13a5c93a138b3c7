"""The paper's own experiments, as cells: four benchmarks at three degrees of sharing, the number of
workers, the request rate, worst-case orders, and cache sizes (arXiv 2601.18999, section 5).

Rates and sizes are those of the calibration point where the paper gives none: 4 workers, 200k
tokens of KV each, 7.1k prompt tokens per second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loadtest.sim.cells import PAPER, Cell
from loadtest.sim.grid import Task
from loadtest.sim.options import FleetOptions
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.documents import Documents, documents
from loadtest.workloads.gsp import Gsp, gsp

FLEET = PAPER.fleet
CHAT_FLEET = replace(FLEET, blocks=6000, stretch=0.6)
SHARING = ("low", "middle", "high")


@dataclass(frozen=True, slots=True)
class System:
    """What is compared: label, policy, evictor, and the index that its code has."""

    label: str
    policy: str
    evictor: str
    index: str = "events"


def systems(default_evictor: str) -> tuple[System, ...]:
    return (
        System("cache_aware@0.5 + lru", "cache_aware", "lru", "history"),
        System("cache_aware@0.3 + lru", "cache_aware@0.3", "lru", "history"),
        System("lbgr + rlt (paper)", "lbgr", "rlt", "history"),
        System(f"lbgr_plus + {default_evictor}", "lbgr_plus", default_evictor),
    )


def _gsp(name: str, options: Gsp, fleet: FleetOptions = FLEET) -> Cell:
    return Cell(name, lambda seed, _: gsp(options, seed, name), fleet)


def _chat(name: str, options: Chat) -> Cell:
    return Cell(name, lambda seed, _: chat(options, seed, name), CHAT_FLEET)


def _documents(name: str, options: Documents) -> Cell:
    return Cell(name, lambda seed, _: documents(options, seed, name), replace(FLEET, blocks=4700))


BENCHMARKS = (
    *(
        _gsp(f"gsp/{level}", Gsp(ratio=ratio))
        for level, ratio in zip(SHARING, (0.25, 0.5, 0.75), strict=True)
    ),
    # ShareGPT: few turns and varied messages; UltraChat: longer dialogues of short messages.
    *(
        _chat(f"sharegpt/{level}", Chat(turns=turns, sessions=sessions))
        for level, turns, sessions in zip(
            SHARING, ((1, 2), (2, 4), (4, 8)), (800, 500, 300), strict=True
        )
    ),
    *(
        _chat(
            f"ultrachat/{level}",
            Chat(turns=turns, user=(32, 64, 128), output=(128, 383), sessions=sessions),
        )
        for level, turns, sessions in zip(
            SHARING, ((2, 3), (4, 6), (8, 10)), (500, 320, 180), strict=True
        )
    ),
    *(
        _documents(f"loogle/{level}", Documents(questions=questions, documents=count))
        for level, questions, count in zip(
            SHARING, ((1, 3), (3, 19), (15, 25)), (600, 160, 90), strict=True
        )
    ),
)

WORKERS = tuple(
    _gsp(
        f"workers/{count}",
        Gsp(rate=3.0 * count, prompts=max(16, 8 * count)),
        replace(FLEET, workers=count),
    )
    for count in (1, 2, 4, 8)
)
RATES = tuple(_gsp(f"rate/{rate}", Gsp(rate=float(rate))) for rate in (6, 9, 12, 15))
ORDERS = tuple(
    _gsp(f"order/{order}", Gsp(order=order)) for order in ("random", "round_robin", "grouped")
)
CACHES = tuple(
    _gsp(f"cache/{tokens // 1000}k", Gsp(), replace(FLEET, blocks=tokens // 16))
    for tokens in (50_000, 100_000, 200_000, 400_000)
)

GRID = {cell.name: cell for cell in (*BENCHMARKS, *WORKERS, *RATES, *ORDERS, *CACHES)}


def paper_tasks(seeds: tuple[int, ...], default_evictor: str) -> list[Task]:
    return [
        Task(cell, system.policy, system.evictor, seed, system.index)
        for cell in GRID
        for system in systems(default_evictor)
        for seed in seeds
    ]
