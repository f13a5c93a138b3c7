"""A profile fitted to service times is the one that made them."""

from __future__ import annotations

from random import Random

import pytest

from kvroute.errors import KvrouteError
from loadtest.live.fit import Probe, fit_profile, least_squares
from loadtest.sim.profile import Profile

TRUE = Profile(
    prefill_ms=0.9, attention_ms=2e-4, step_ms=22.0, idle_step_ms=6.0, decode_ms=1.5, kv_ms=0.002
)


def made(noise: float) -> list[Probe]:
    rng, probes = Random(4), []
    for miss in (64, 128, 256, 512, 1024):
        for hit in (0, 256):
            for batch in (1.0, 2.0, 4.0, 8.0):
                context = hit + miss + 6.0
                prefill = 6.0 + 0.9 * miss + 2e-4 * miss * (hit + miss / 2)
                step = 22.0 + 1.5 * batch + 0.002 * batch * context
                probes.append(
                    Probe(
                        hit,
                        miss,
                        prefill * rng.uniform(1 - noise, 1 + noise),
                        batch,
                        step * rng.uniform(1 - noise, 1 + noise),
                        context,
                    )
                )
    return probes


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-3), (0.02, 0.15)])
def test_the_profile_behind_the_times_is_found(noise: float, within: float) -> None:
    found = fit_profile(made(noise))
    for name in ("prefill_ms", "attention_ms", "step_ms", "decode_ms", "kv_ms"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=within), name


def test_costs_never_become_negative() -> None:
    probes = [Probe(0, miss, 50.0 - 0.01 * miss, 1.0, 20.0, 100.0) for miss in (10, 20, 40)]
    found = fit_profile(probes)
    assert found.prefill_ms > 0 and found.kv_ms > 0


def test_too_few_probes_are_refused() -> None:
    with pytest.raises(KvrouteError, match="three different prompts"):
        fit_profile([Probe(0, 10, 5.0, 1.0, 20.0)] * 5)


def test_least_squares_survives_a_column_that_never_varies() -> None:
    rows = [(1.0, float(x), 0.0) for x in range(5)]
    found = least_squares(rows, [3.0 + 2.0 * x for x in range(5)])
    assert found == pytest.approx([3.0, 2.0, 0.0], abs=1e-5)
