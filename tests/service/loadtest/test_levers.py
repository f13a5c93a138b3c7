"""What hints and look-ahead locks are worth, and that every evictor hits as in the study."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from loadtest.sim.cells import BY_NAME
from loadtest.sim.fleet import simulate
from loadtest.sim.replay import Replay
from loadtest.sim.single import workload
from loadtest.workloads.base import Call, summarize

STUDY = {
    # workload -> evictor -> token hit rate in % at (25, 50, 75, 90) % of the re-used blocks
    "gsp_random": {
        "lru": (6.0, 12.0, 17.1, 20.1),
        "rlt": (7.1, 13.8, 19.3, 22.6),
        "arc": (10.9, 22.7, 34.6, 41.6),
        "arc_mix": (10.8, 23.1, 35.1, 41.9),
        "random": (9.0, 17.3, 24.2, 27.9),
        "belady": (27.2, 38.2, 44.4, 47.0),
    },
    "gsp_zipf": {
        "lru": (23.6, 29.6, 32.9, 34.2),
        "rlt": (25.1, 30.7, 34.3, 35.9),
        "arc_mix": (33.7, 41.2, 44.3, 45.8),
        "belady": (39.6, 45.5, 47.8, 48.4),
    },
    "chat": {
        "lru": (68.6, 82.7, 82.9, 82.9),
        "rlt": (66.0, 80.5, 82.2, 82.3),
        "arc": (68.3, 82.7, 82.9, 82.9),
        "arc_mix": (68.3, 81.9, 82.4, 82.6),
        "lfu": (36.0, 51.6, 67.8, 77.4),
        "belady": (82.5, 82.9, 82.9, 82.9),
    },
    "loogle": {
        "lru": (26.3, 48.6, 72.6, 84.4),
        "rlt": (25.6, 50.0, 73.4, 84.5),
        "arc_mix": (26.6, 50.4, 72.5, 84.4),
        "fifo": (26.3, 48.6, 72.6, 84.4),
        "belady": (56.9, 75.6, 86.0, 89.1),
    },
    "cyclic": {
        "lru": (0.0, 0.0, 0.0, 0.0),
        "rlt": (0.0, 0.0, 29.2, 62.1),
        "arc": (0.0, 0.0, 2.8, 3.3),
        "arc_mix": (0.0, 8.8, 37.3, 67.0),
        "random": (0.0, 3.4, 47.7, 75.8),
        "s3fifo": (0.0, 0.0, 7.1, 8.5),
        "belady": (23.3, 47.3, 71.0, 85.2),
    },
    "drift": {
        "lru": (30.8, 44.3, 48.0, 48.7),
        "rlt": (33.5, 45.4, 48.3, 48.8),
        "arc_mix": (46.0, 47.9, 49.0, 49.1),
        "belady": (49.1, 49.1, 49.1, 49.1),
    },
}
FRACTIONS = (0.25, 0.5, 0.75, 0.9)


@cache
def calls(name: str) -> tuple[Call, ...]:
    made = workload(name, 1, None)
    assert made is not None
    return tuple(made.flat())


def hit_rate(name: str, evictor: str, fraction: float) -> float:
    blocks = int(summarize(calls(name), 16).reused_blocks * fraction)
    return 100.0 * Replay(calls(name), 16, evictor, blocks).run().hit_rate


def close(name: str, evictor: str, place: int) -> None:
    expected = STUDY[name][evictor][place]
    # Chat and documents draw turns and counts at random; over the study's own seeds LooGLE at 50 %
    # spreads from 48.6 to 52.4.
    within = {"chat": 2.5, "loogle": 4.0}.get(name, 1.5)
    found = hit_rate(name, evictor, FRACTIONS[place])
    assert found == pytest.approx(expected, abs=within), (name, evictor, FRACTIONS[place])


@pytest.mark.parametrize("name", ["cyclic", "chat", "loogle"])
def test_hit_rates_are_the_studys_at_three_quarters(name: str) -> None:
    for evictor in STUDY[name]:
        close(name, evictor, 2)


@pytest.mark.soak
@pytest.mark.parametrize("name", STUDY)
def test_hit_rates_are_the_studys_at_every_size(name: str) -> None:
    for evictor in STUDY[name]:
        for place in range(len(FRACTIONS)):
            close(name, evictor, place)


def test_arc_mix_hits_far_more_than_lru_on_shared_prefixes() -> None:
    assert hit_rate("gsp_random", "arc_mix", 0.5) > 1.6 * hit_rate("gsp_random", "lru", 0.5)


def fleet_hit_rate(cell: str, **options: bool) -> float:
    made = BY_NAME[cell]
    result = simulate(made.workload(1, None), replace(made.fleet, evictor="lru", **options))
    return 100.0 * result.hit_rate


def test_session_ends_as_hints_are_worth_five_points_on_chat() -> None:
    assert fleet_hit_rate("chat", hints=True) > 5.0 + fleet_hit_rate("chat")


def test_look_ahead_locks_are_worth_five_points_on_one_saturated_chat_worker() -> None:
    assert fleet_hit_rate("chat_one", look_ahead=True) > 5.0 + fleet_hit_rate("chat_one")
