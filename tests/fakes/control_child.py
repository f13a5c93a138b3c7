"""A worker or a router of the control plane as a process of its own: `python -m
tests.fakes.control_child`.

    control_child worker URL NAME SEED LEASE_S
    control_child router URL NAME SEED LEASE_S AUDIT_S

Reads one command per line and answers each with one line of JSON. Workers churn a prefix-closed
cache, routers book and end requests, until "quiet". "state" tells the worker's truth, or the
router's view.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any, Protocol

from cache_index.base import BlockKey, RouterId, WorkerId
from cache_index.costs import Candidate
from cache_index.follower import Follower
from cache_index.ledger import Booking
from cache_index.ledger_client import LedgerClient
from cache_index.registration import Registration
from kvroute.errors import Unavailable
from tests.fakes.fleet import MODEL, Delta, block, worker

TICK_S = 0.003
CACHE_BLOCKS = 3000
OPEN_BOOKINGS = 30


class Role(Protocol):
    async def start(self) -> None: ...
    def tick(self) -> None: ...
    def quiet(self) -> None: ...
    def peek(self) -> dict[str, int]: ...
    def state(self) -> dict[str, Any]: ...


class Tree:
    """A random cache: children of cached blocks come, leaves go."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.children: dict[int, int] = {}
        self.parent: dict[int, int] = {}

    def grow(self, count: int) -> tuple[BlockKey, ...]:
        added = []
        known = list(self.children)
        for _ in range(count):
            above = self.rng.choice(known) if known and self.rng.random() < 0.9 else 0
            # Siblings are shared by workers: the key depends on the parent and a small number.
            key = (above * 31 + self.rng.randrange(1, 5)) * 0x9E3779B97F4A7C15 % 2**64
            if key in self.children or len(self.children) >= CACHE_BLOCKS:
                continue
            self.children[key], self.parent[key] = 0, above
            if above:
                self.children[above] += 1
            known.append(key)
            added.append(key)
        return tuple(map(block, added))

    def evict(self, count: int) -> tuple[BlockKey, ...]:
        gone = []
        for _ in range(count):
            leaves = [key for key, below in self.children.items() if not below]
            if not leaves:
                break
            key = self.rng.choice(leaves)
            del self.children[key]
            above = self.parent.pop(key)
            if above:
                self.children[above] -= 1
            gone.append(key)
        return tuple(map(block, gone))

    def clear(self) -> None:
        self.children.clear()
        self.parent.clear()


class WorkerRole:
    def __init__(self, url: str, name: str, seed: int, lease_s: float) -> None:
        self.rng = random.Random(seed)
        self.tree = Tree(self.rng)
        self.link = Registration(url, worker=worker(name), lease_s=lease_s, flush_s=0.005)

    async def start(self) -> None:
        await self.link.start()

    def tick(self) -> None:
        self.link.report_load(1000, 1)
        if self.rng.random() < 0.004:
            self.tree.clear()
            self.link.note(Delta(stored=self.tree.grow(10), flushed=True))
            return
        removed = self.tree.evict(self.rng.randrange(6))
        self.link.note(Delta(removed=removed, stored=self.tree.grow(self.rng.randrange(12))))

    def quiet(self) -> None:
        self.link.report_load(0, 0)

    def peek(self) -> dict[str, int]:
        return {"blocks": self.link.blocks}

    def state(self) -> dict[str, Any]:
        self.link._publisher.check()
        return {
            "epoch": self.link.epoch,
            "synced": self.link.synced,
            "blocks": sorted(self.link._publisher.truth),
        }


class RouterRole:
    def __init__(self, url: str, name: str, seed: int, lease_s: float, audit_s: float) -> None:
        self.rng = random.Random(seed)
        self.follower = Follower(url, MODEL, lease_s=lease_s, audit_s=audit_s)
        self.ledger = LedgerClient(url, MODEL, RouterId(name), session_ttl_s=lease_s, seed=seed)
        self.open: list[Booking] = []
        self.routes = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self.follower.start()
        await self.ledger.start()
        await self.follower.ready.wait()

    def tick(self) -> None:
        if len(self.open) + len(self.tasks) < OPEN_BOOKINGS:
            task = asyncio.create_task(self.book())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        for booking in self.rng.sample(self.open, min(2, len(self.open))):
            if self.rng.random() < 0.5:
                self.ledger.first_token(booking)
            else:
                self.open.remove(booking)
                self.ledger.finish(booking)

    async def book(self) -> None:
        known = list(self.follower.workers.values())
        candidates = [Candidate(record.slot, self.rng.randrange(500)) for record in known]
        if not candidates:
            return
        try:
            booking = await self.ledger.book(1000, candidates, blocks=10)
        except Unavailable:
            booking = self.ledger.book_local(1000, candidates, blocks=10)
        self.open.append(booking)
        self.routes += 1

    def quiet(self) -> None:
        for booking in self.open:
            self.ledger.finish(booking)
        self.open.clear()

    def peek(self) -> dict[str, int]:
        return {"blocks": len(self.follower.view), "routes": self.routes}

    def state(self) -> dict[str, Any]:
        self.quiet()
        self.follower.check()
        view = self.follower.view
        return {
            "stale": self.follower.stale,
            "gaps": self.follower.gaps,
            "resyncs": self.follower.resyncs,
            "open": self.ledger.open_bookings + len(self.tasks),
            "workers": {
                name: {"epoch": record.epoch, "blocks": sorted(view.blocks_of(WorkerId(name)))}
                for name, record in self.follower.workers.items()
            },
        }


def make(arguments: list[str]) -> Role:
    role, url, name, seed, *numbers = arguments
    if role == "worker":
        return WorkerRole(url, name, int(seed), float(numbers[0]))
    return RouterRole(url, name, int(seed), float(numbers[0]), float(numbers[1]))


async def main(arguments: list[str]) -> None:
    role = make(arguments)
    await role.start()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    busy = False

    async def churn() -> None:
        while True:
            if busy:
                role.tick()
            await asyncio.sleep(TICK_S)

    churning = asyncio.create_task(churn())
    print(json.dumps("ready"), flush=True)
    while line := (await reader.readline()).decode().strip():
        answer: object = "ok"
        if line == "busy":
            busy = True
        elif line == "quiet":
            busy = False
            role.quiet()
        elif line == "peek":
            answer = role.peek()
        elif line == "state":
            answer = role.state()
        print(json.dumps(answer), flush=True)
    churning.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
