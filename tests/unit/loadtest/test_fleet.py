"""Whole runs: nothing is lost, the same seed gives the same numbers, and nobody sees the future."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from loadtest.sim.fleet import Simulation, simulate
from loadtest.sim.options import Failure, FleetOptions
from loadtest.sim.profile import Profile, ProfileError, load_profile, save_profile
from loadtest.sim.router import UnknowableError
from loadtest.workloads.base import Workload, summarize
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.gsp import Gsp, gsp
from router_svc.policy.base import Decision, Fleet, Policy, Request
from router_svc.policy.lbgr_plus import LbgrPlus
from router_svc.policy.registry import POLICIES

FLEET = FleetOptions(workers=3, blocks=600)


def small(seed: int = 1, order: str = "random") -> Workload:
    return gsp(Gsp(groups=12, prompts=12, lengths=(256, 512, 1024), order=order, rate=20.0), seed)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_answers_every_call_and_books_to_zero(policy: str) -> None:
    simulation = Simulation(small(), replace(FLEET, policy=policy))
    result = simulation.run()
    simulation.check()
    assert (result.calls, result.refused) == (144, 0)
    assert 0.0 <= result.hit_rate <= summarize(small().flat(), 16).endless_hit_rate
    assert all(a <= b for a, b in zip(result.ttft_ms, result.latency_ms, strict=True))


@pytest.mark.parametrize("evictor", ["lru", "rlt"])
def test_same_seed_same_numbers(evictor: str) -> None:
    options = replace(FLEET, evictor=evictor)
    assert simulate(small(), options) == simulate(small(), options)
    assert simulate(small(2), options) != simulate(small(), options)


def test_known_numbers_on_any_machine() -> None:
    result = simulate(small(), replace(FLEET, evictor="rlt", blocks=350))
    assert result.calls == 144
    assert round(result.hit_rate, 6) == 0.427269
    assert round(result.latency(0.5), 3) == 104.869


def test_affinity_beats_blind_spreading() -> None:
    blind = simulate(small(), replace(FLEET, policy="round_robin"))
    ours = simulate(small(), FLEET)
    assert ours.hit_rate > 1.2 * blind.hit_rate
    assert ours.latency(0.5) < blind.latency(0.5)


def test_closed_loop_turns_follow_answers() -> None:
    workload = chat(Chat(sessions=20, user=(64, 128), output=(8, 16), rate=5.0, think_s=1.0))
    result = simulate(workload, replace(FLEET, blocks=2000))
    assert result.calls == sum(1 for _ in workload.flat()) == 100
    assert result.hit_rate > 0.5


def test_hints_free_what_is_over() -> None:
    workload = chat(Chat(sessions=60, user=(64, 128, 256), rate=4.0, think_s=4.0))
    options = replace(FLEET, blocks=700)
    assert simulate(workload, replace(options, hints=True)).hit_rate > (
        simulate(workload, options).hit_rate
    )


def test_routers_with_stale_ledgers_do_worse_than_with_a_shared_one() -> None:
    workload = gsp(Gsp(groups=24, prompts=24, lengths=(1024, 2048), rate=30.0), 2)
    options = replace(FLEET, blocks=1500, routers=4)
    shared = simulate(workload, options)
    stale = simulate(workload, replace(options, ledger_lag_ms=2000.0))
    assert stale.calls == shared.calls == 576
    assert stale.ttft(0.95) > shared.ttft(0.95)


def test_a_lost_worker_loses_no_request() -> None:
    options = replace(FLEET, failures=(Failure(1, 2.0, 1.5), Failure(0, 4.0, 1.0)))
    simulation = Simulation(small(), options)
    result = simulation.run()
    simulation.check()
    assert result.calls == 144 and result.retried > 0


def test_all_workers_lost_at_once_only_delays() -> None:
    failures = tuple(Failure(number, 2.0, 3.0) for number in range(3))
    result = simulate(small(), replace(FLEET, failures=failures))
    assert result.calls == 144
    assert max(result.ttft_ms) > 2000.0


def test_too_long_for_every_worker_is_refused_and_counted() -> None:
    result = simulate(small(), replace(FLEET, blocks=40))
    assert result.refused == 48 and result.calls == 96


class Cheat(Policy):
    """Asks how long the answer will be."""

    name = "cheat"

    def choose(self, request: Request, fleet: Fleet, rng: Random) -> Decision:
        assert request.output_tokens < 100  # type: ignore[attr-defined]
        return LbgrPlus().choose(request, fleet, rng)


def test_a_policy_that_asks_for_the_unknowable_is_refused() -> None:
    simulation = Simulation(small(), FLEET, Cheat)
    with pytest.raises(UnknowableError, match=r"cheat asks for Request\.output_tokens"):
        simulation.run()


def test_profiles_read_back_and_refuse_nonsense(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "profile.json"
    save_profile(Profile().faster(2.0), path)
    assert load_profile(path) == Profile().faster(2.0)
    for text, said in (("[]", "fields"), ('{"prefill_ms": -1}', "positive"), ("{", "no profile")):
        path.write_text(text)
        with pytest.raises(ProfileError, match=said):
            load_profile(path)


def test_unknown_index_is_refused() -> None:
    with pytest.raises(ValueError, match="events, history"):
        FleetOptions(index="tree")
