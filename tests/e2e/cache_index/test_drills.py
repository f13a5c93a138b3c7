"""Failure drills with real processes: views equal the workers' truth afterwards, the ledger is
zero.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from cache_index.base import WorkerId
from cache_index.commands import execute
from cache_index.embedded import EmbeddedServer, _version_ok, _wheel_binary
from tests.fakes.control_fleet import NAMES, ControlFleet

LEASE_S = 0.5
pytestmark = pytest.mark.asyncio(loop_scope="module")


def redis_binary() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found and _version_ok(Path(found)) else None


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["valkey", "redis"])
async def processes(request: pytest.FixtureRequest) -> AsyncIterator[ControlFleet]:
    binary = _wheel_binary() if request.param == "valkey" else redis_binary()
    if binary is None:
        pytest.skip(f"no {request.param}-server here")
    async with EmbeddedServer(binary=binary) as server, ControlFleet(server) as fleet:
        yield fleet


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(processes: ControlFleet) -> ControlFleet:
    """Two workers and two routers, busy, with something to lose."""
    await processes.start(*sorted({"w0", "w1", "r0", "r1"} - processes.children.keys()))
    await processes.all("busy")
    await asyncio.sleep(0.2)
    states = await processes.all("peek")
    assert all(state["blocks"] > 0 for state in states.values()), states
    return processes


async def restart_redis(fleet: ControlFleet, *, keep: bool) -> None:
    """Kills it and starts it again, with its last dump or with nothing."""
    await fleet.server.kill()
    if not keep:
        (fleet.server.directory / "dump.rdb").unlink(missing_ok=True)
    await fleet.server.start()


async def test_churn_with_a_router_that_comes_in_the_middle(fleet: ControlFleet) -> None:
    await fleet.start("r2")
    await fleet.children["r2"].ask("busy")
    await asyncio.sleep(0.2)
    await fleet.converges()
    assert (await fleet.children["r2"].ask("peek"))["routes"] > 0
    await fleet.kill("r2")


async def test_router_killed_with_open_bookings(fleet: ControlFleet) -> None:
    await fleet.kill("r1")
    await fleet.converges()
    await fleet.start("r1")
    await fleet.converges()


async def test_worker_killed_and_two_routers_reap_it_at_once(fleet: ControlFleet) -> None:
    await fleet.kill("w1")
    await fleet.converges()
    assert await execute(fleet.client, "HKEYS", NAMES.registry) == [b"w0"]
    assert not [key for key in await execute(fleet.client, "KEYS", "*") if b":w:w1:" in key]


async def test_worker_restarted_while_its_old_process_is_paused(fleet: ControlFleet) -> None:
    old = fleet.children.pop("w1")
    old.signal(signal.SIGSTOP)
    await fleet.start("w1")
    await fleet.children["w1"].ask("busy")
    old.signal(signal.SIGCONT)  # Fenced; it takes its name back by registering anew, once.
    await asyncio.sleep(0.1)
    await old.kill()
    await fleet.converges()


async def test_worker_cut_off_for_longer_than_its_lease(fleet: ControlFleet) -> None:
    fleet.children["w0"].signal(signal.SIGSTOP)
    await asyncio.sleep(3 * LEASE_S)
    fleet.children["w0"].signal(signal.SIGCONT)
    await fleet.converges()


async def test_router_paused_for_longer_than_its_session(fleet: ControlFleet) -> None:
    fleet.children["r0"].signal(signal.SIGSTOP)
    await asyncio.sleep(2 * LEASE_S)
    fleet.children["r0"].signal(signal.SIGCONT)
    await fleet.converges()


async def test_redis_paused(fleet: ControlFleet) -> None:
    assert fleet.server.pid is not None
    os.kill(fleet.server.pid, signal.SIGSTOP)
    await asyncio.sleep(2 * LEASE_S)
    os.kill(fleet.server.pid, signal.SIGCONT)
    await fleet.converges()


async def test_redis_lost_with_all_data(fleet: ControlFleet) -> None:
    await restart_redis(fleet, keep=False)
    await asyncio.sleep(0.1)
    await fleet.converges()


async def test_redis_back_with_all_data(fleet: ControlFleet) -> None:
    await execute(fleet.client, "CONFIG", "SET", "appendonly", "yes")
    await execute(fleet.client, "CONFIG", "SET", "appendfsync", "always")
    async with asyncio.timeout(10):
        while not await is_written(fleet):  # noqa: ASYNC110 (the server's own background work)
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    before = await epochs(fleet)
    await fleet.server.kill()
    fleet.server._options = ("--appendonly", "yes")
    await fleet.server.start()
    await fleet.converges()
    assert await epochs(fleet) == before  # Nobody had to register anew.
    fleet.server._options = ()
    await execute(fleet.client, "CONFIG", "SET", "appendonly", "no")


async def is_written(fleet: ControlFleet) -> bool:
    found = dict(await execute(fleet.client, "INFO", "persistence"))
    return found.get("aof_enabled") == 1 and found.get("aof_rewrite_in_progress") == 0


async def epochs(fleet: ControlFleet) -> dict[str, bytes]:
    """Of the workers, as Redis knows them; a flush is a new epoch, so none may be due."""
    await fleet.all("quiet")
    await fleet.converges()
    names = sorted(name for name in fleet.children if name.startswith("w"))
    return {n: await execute(fleet.client, "HGET", NAMES.meta(WorkerId(n)), "e") for n in names}


async def test_redis_rolled_back_to_an_older_dump(fleet: ControlFleet) -> None:
    await execute(fleet.client, "SAVE")
    await asyncio.sleep(0.2)
    await restart_redis(fleet, keep=True)
    await fleet.converges()


async def fuzz(fleet: ControlFleet, rng: random.Random, rounds: int) -> None:
    """Each round: everybody busy, up to three faults at once, then peace and comparison."""
    for number in range(rounds):
        await fleet.all("busy")
        for fault in rng.sample(FAULTS, rng.randint(1, 3)):
            await asyncio.sleep(rng.random() * 0.1)
            await fault(fleet, rng)
        try:
            await fleet.converges()
        except AssertionError as error:
            raise AssertionError(f"round {number}: {error}") from error


async def pause(fleet: ControlFleet, rng: random.Random) -> None:
    child = fleet.children[rng.choice(sorted(fleet.children))]
    child.signal(signal.SIGSTOP)
    await asyncio.sleep(rng.choice([0.05, 1.5 * LEASE_S]))
    child.signal(signal.SIGCONT)


async def replace(fleet: ControlFleet, rng: random.Random) -> None:
    name = rng.choice(sorted(fleet.children))
    await fleet.kill(name)
    await fleet.start(name)
    await fleet.children[name].ask("busy")


async def pause_redis(fleet: ControlFleet, rng: random.Random) -> None:
    assert fleet.server.pid is not None
    os.kill(fleet.server.pid, signal.SIGSTOP)
    await asyncio.sleep(rng.choice([0.15, 1.2 * LEASE_S]))
    os.kill(fleet.server.pid, signal.SIGCONT)


async def lose_data(fleet: ControlFleet, rng: random.Random) -> None:
    await restart_redis(fleet, keep=False)


async def roll_back(fleet: ControlFleet, rng: random.Random) -> None:
    await execute(fleet.client, "SAVE")
    await asyncio.sleep(rng.random() * 0.1)
    await restart_redis(fleet, keep=True)


async def trim(fleet: ControlFleet, rng: random.Random) -> None:
    await execute(fleet.client, "XTRIM", NAMES.events, "MAXLEN", rng.randrange(3))


async def delete_some_key(fleet: ControlFleet, rng: random.Random) -> None:
    keys = [k for k in await execute(fleet.client, "KEYS", "*") if not k.endswith(SUMS)]
    if keys:
        await execute(fleet.client, "DEL", rng.choice(sorted(keys)))


async def lose_functions(fleet: ControlFleet, rng: random.Random) -> None:
    await execute(fleet.client, "FUNCTION", "FLUSH")


SUMS = (b":Q", b":R", b":T", b":P", b":Z", b":B", b"kvroute:models")
"""One column of the ledger without the others is no fault that Redis has."""

Fault = Callable[[ControlFleet, random.Random], Awaitable[None]]
FAULTS: list[Fault] = [
    pause, replace, pause_redis, lose_data, roll_back, trim, delete_some_key, lose_functions
]  # fmt: skip


async def test_all_faults_at_once_never_leave_a_difference(fleet: ControlFleet) -> None:
    await fuzz(fleet, random.Random(4), 20)


@pytest.mark.soak
async def test_all_faults_at_once_never_leave_a_difference_for_long(fleet: ControlFleet) -> None:
    await fuzz(fleet, random.Random(5), 500)
