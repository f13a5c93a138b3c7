"""Fake workers and routers under load, each process a few of them: `python -m
tests.fakes.load_child`.

    load_child workers URL PORT...
    load_child router URL NAME SEED RATE SECONDS POLICY(lbgr_plus|random) PORT...

A worker prefills one request after the other and decodes all at once. It stamps each first token
with the machine's monotonic clock; a router measures from that stamp until Redis has confirmed that
the prefill is off the ledger. A router prints one JSON line at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import deque
from itertools import count
from typing import Any

from cache_index.base import RouterId
from cache_index.costs import Candidate
from cache_index.functions import Call
from cache_index.ledger import Booking, ServiceTimes
from cache_index.ledger_client import LedgerClient
from cache_index.registration import Registration
from kvroute.errors import Unavailable
from tests.fakes.fleet import MODEL, worker

PROMPT = (20, 200)
PREFILL_MS_PER_TOKEN = 0.1
DECODE_S = 0.02
LEASE_S = 1.0


class FakeWorker:
    """One serial engine behind a port."""

    def __init__(self, url: str, port: int) -> None:
        self.link = Registration(url, worker=worker(f"w{port}"), lease_s=LEASE_S)
        self.port = port
        self.queue: deque[tuple[int, int, asyncio.StreamWriter]] = deque()
        self.wake = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.outstanding = 0

    async def start(self) -> None:
        await self.link.start()
        await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def run(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.queue:
                number, tokens, peer = self.queue.popleft()
                await asyncio.sleep(tokens * PREFILL_MS_PER_TOKEN / 1000)
                peer.write(f"first {number} {time.monotonic()}\n".encode())
                task = asyncio.create_task(self.decode(number, tokens, peer))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def decode(self, number: int, tokens: int, peer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(DECODE_S)
        self.outstanding -= 1
        self.report()
        peer.write(f"end {number} {tokens * PREFILL_MS_PER_TOKEN}\n".encode())

    async def serve(self, reader: asyncio.StreamReader, peer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            number, tokens = map(int, line.split())
            self.outstanding += 1
            self.queue.append((number, tokens, peer))
            self.report()
            self.wake.set()

    def report(self) -> None:
        queued = sum(tokens for _, tokens, _ in self.queue)
        self.link.report_load(round(queued * PREFILL_MS_PER_TOKEN * 1000), self.outstanding)


class TimedLedger(LedgerClient):
    """Notes how long after its stamp each first token was off the ledger, milliseconds."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        super().__init__(url, MODEL, RouterId(name), session_ttl_s=1.5, seed=seed)
        self.stamps: list[float] = []
        self.told: deque[list[float]] = deque()
        self.delays_ms: list[float] = []

    def first_token_at(self, booking: Booking, stamp: float) -> None:
        self.stamps.append(stamp)
        self.first_token(booking)

    def _build_settle(self) -> Call:
        self.told.append(self.stamps)
        self.stamps = []
        return super()._build_settle()

    def _settled(self, future: asyncio.Future[Any]) -> None:
        super()._settled(future)
        now = time.monotonic()
        if self.told and not future.cancelled() and future.exception() is None:
            self.delays_ms += [1000 * (now - stamp) for stamp in self.told.popleft()]


class FakeRouter:
    """Poisson arrivals, spread by the ledger's choice or by chance (booked in the same way)."""

    def __init__(self, url: str, name: str, seed: int, policy: str) -> None:
        self.ledger = TimedLedger(url, name, seed)
        self.rng = random.Random(seed)
        self.policy = policy
        self.open: dict[int, tuple[Booking, int]] = {}
        self.numbers = count()
        self.peers: list[asyncio.StreamWriter] = []
        self.requests = self.refused = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self, rate: float, seconds: float, ports: list[int]) -> dict[str, Any]:
        await self.ledger.start()
        for port in ports:
            reader, peer = await asyncio.open_connection("127.0.0.1", port)
            self.peers.append(peer)
            self.spawn(self.listen(reader))
        loop = asyncio.get_running_loop()
        start = due = loop.time()
        while due < start + seconds:
            due += self.rng.expovariate(rate)
            await asyncio.sleep(max(0.0, due - loop.time()))
            self.spawn(self.request())
        async with asyncio.timeout(30):
            while self.open:  # noqa: ASYNC110 (answers of other processes)
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        delays = self.ledger.delays_ms
        for task in self.tasks:
            task.cancel()
        await self.ledger.stop()
        return {"requests": self.requests, "refused": self.refused, "delays_ms": delays}

    def spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def request(self) -> None:
        tokens = self.rng.randint(*PROMPT)
        slots = range(len(self.peers))
        chosen = [self.rng.choice(slots)] if self.policy == "random" else slots
        candidates = [Candidate(slot, 0) for slot in chosen]
        self.requests += 1
        try:
            booking = await self.ledger.book(tokens, candidates)
        except Unavailable:
            self.refused += 1
            booking = self.ledger.book_local(tokens, candidates)
        number = next(self.numbers)
        self.open[number] = (booking, tokens)
        self.peers[booking.slot].write(f"{number} {tokens}\n".encode())

    async def listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            kind, number, value = line.split()
            booking, tokens = self.open[int(number)]
            if kind == b"first":
                self.ledger.first_token_at(booking, float(value))
            else:
                del self.open[int(number)]
                service = ServiceTimes(0, tokens, float(value), 0.0, 0.0, 8)
                self.ledger.finish(booking, service if self.rng.random() < 0.2 else None)


async def main(arguments: list[str]) -> None:
    role, url, *rest = arguments
    if role == "workers":
        fakes = [FakeWorker(url, int(port)) for port in rest]
        for fake in fakes:
            await fake.start()  # One after the other: slots in the order of ports.
        await asyncio.gather(*(fake.run() for fake in fakes))
        return
    name, seed, rate, seconds, policy, *ports = rest
    router = FakeRouter(url, name, int(seed), policy)
    result = await router.run(float(rate), float(seconds), list(map(int, ports)))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
