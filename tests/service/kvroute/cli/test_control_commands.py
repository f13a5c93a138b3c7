"""The commands that look into the control plane, run as a user would against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from cache_index.base import RouterId, WorkerId
from cache_index.commands import close, execute
from cache_index.costs import Candidate
from cache_index.ledger import ServiceTimes
from cache_index.ledger_client import LedgerClient
from cache_index.names import Names
from cache_index.redis_url import client_from_url
from cache_index.registration import Registration
from kvroute.cli.main import run
from tests.fakes.fleet import MODEL, eventually, stored, worker

pytestmark = pytest.mark.usefixtures("restore_logging")

Command = Callable[..., Awaitable[tuple[int, str, str]]]
Start = Callable[[str], Awaitable[Registration]]


@pytest.fixture
def command(valkey: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command against the server; exit code, standard output and error."""

    async def call(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()  # What the workers of the test logged.
        # The command has an event loop of its own; theirs goes on in ours.
        code = await asyncio.to_thread(run, [*args, "--redis-url", valkey])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
async def start(valkey: str) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(name: str) -> Registration:
            made = Registration(valkey, worker=worker(name), lease_s=0.5, flush_s=0.005)
            stack.push_async_callback(made.stop)
            await made.start()
            return made

        yield begin


async def teach(redis_url: str, slot: int, requests: int) -> None:
    """Requests of 1,000 missing tokens at 50 ms."""
    ledger = LedgerClient(redis_url, MODEL, RouterId("r"))
    await ledger.start()
    for _ in range(requests):
        booking = await ledger.book(1000, [Candidate(slot, 0)])
        ledger.finish(booking, ServiceTimes(0, 1000, 50.0, 1.0, 20.0, 12))
    await ledger.peek()  # Behind the settlements: one ordered connection.
    await ledger.stop()


async def test_weights_show_what_was_learned_and_forget_it(
    command: Command, start: Start, valkey: str
) -> None:
    a, _ = await start("a"), await start("b")
    await teach(valkey, a.slot, 30)
    code, out, _ = await command("weights", "--json")
    found = json.loads(out)
    assert (code, found["reset"]) == (0, False)
    (model,) = found["models"]
    assert (model["served_name"], model["mean_output"]) == (MODEL, pytest.approx(12.0))
    learned, other = model["workers"]
    assert (learned["worker_id"], learned["prefills"], learned["decodes"]) == ("a", 30, 30)
    assert (other["worker_id"], other["prefills"]) == ("b", 0)
    assert learned["costs"]["miss_ms"] < other["costs"]["miss_ms"] == 110.0

    code, out, _ = await command("weights")
    assert code == 0
    assert MODEL in out and "30" in out and "110.00" in out

    code, out, _ = await command("weights", "--reset", "--json")
    (model,) = json.loads(out)["models"]
    assert [one["costs"]["miss_ms"] for one in model["workers"]] == [110.0, 110.0]
    assert model["mean_output"] == 32.0


async def test_audit_of_a_fleet_in_order_ends_with_0(command: Command, start: Start) -> None:
    a, b = await start("a"), await start("b")
    a.note(stored(1, 2, 3))
    await eventually(lambda: a.synced and b.synced)
    code, out, err = await command("audit", "--json")
    found = json.loads(out)
    assert (code, err, found["equal"]) == (0, "", True)
    (model,) = found["models"]
    assert [(one["worker"], one["published"]["blocks"]) for one in model["workers"]] == [
        ("a", 3),
        ("b", 0),
    ]
    code, out, _ = await command("audit", "--model", MODEL)
    assert code == 0
    assert "equal" in out


async def test_audit_finds_blocks_that_nobody_published(
    command: Command, start: Start, valkey: str
) -> None:
    a = await start("a")
    a.note(stored(1, 2))
    await eventually(lambda: a.synced)
    client = client_from_url(valkey)
    blocks = Names.of(MODEL).blocks(WorkerId("a"))
    # As many as before, so that the worker's beat sees nothing.
    one = (1).to_bytes(8, "little")
    assert await execute(client, "SREM", blocks, one) == 1
    await execute(client, "SADD", blocks, (9).to_bytes(8, "little"))
    code, out, _ = await command("audit", "--json", "--patience-s", "0.3")
    assert code == 1
    (found,) = json.loads(out)["models"][0]["workers"]
    assert found["difference"] == "the view holds other blocks than were published"
    await close(client)


async def test_audit_finds_a_worker_that_published_something_else_than_it_holds(
    command: Command, start: Start
) -> None:
    a = await start("a")
    a.note(stored(1, 2))
    await eventually(lambda: a.synced)
    a._publisher._truth_digest ^= 5  # As if a change had never been noted for publication.

    async def audit() -> tuple[int, Any]:
        code, out, _ = await command("audit", "--json", "--patience-s", "0")
        return code, json.loads(out)["models"][0]["workers"][0]["difference"]

    async with asyncio.timeout(20):
        while (found := await audit())[0] == 0:  # Until its next beat.
            pass
    assert found == (1, "the worker holds other blocks than it published")


@pytest.mark.parametrize("name", ["weights", "audit"])
async def test_without_any_model_there_is_nothing_to_show(command: Command, name: str) -> None:
    code, out, _ = await command(name)
    assert (code, out) == (0, "no model is served\n")


@pytest.mark.parametrize("name", ["weights", "audit"])
async def test_unknown_model_is_refused_naming_those_there_are(
    command: Command, start: Start, name: str
) -> None:
    await start("a")
    code, _, err = await command(name, "--model", "other")
    assert code == 1
    assert err == f"kvroute: model 'other' is not served; served: {MODEL}\n"


@pytest.mark.parametrize("name", ["weights", "audit"])
def test_no_redis_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--redis-url", "redis://127.0.0.1:1"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("kvroute: Redis at redis://127.0.0.1:1 does not answer")
    assert shown.count("\n") == 1
