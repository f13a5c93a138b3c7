"""Sends a workload: open loop at its own times, closed loop behind the answers it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadtest.live.record import Record
from loadtest.live.target import Prompt, Service, Target
from loadtest.workloads.base import Call, Workload
from loadtest.workloads.tokens import token_ids

RESERVED_IDS = 4
FEWEST_IDS = 64
"""Ids at the start of a vocabulary that are often special: never sent."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """`stretch` multiplies arrival and think times; `shrink` divides prompt lengths (one block of
    the workload becomes one block of the model). `concurrency` > 0: closed loop, that many sessions
    at once, whatever the times. `warm_up` calls at the start are sent but not counted.
    """

    stretch: float = 1.0
    shrink: int = 1
    concurrency: int = 0
    limit: int = 0
    warm_up: int = 0
    max_in_flight: int = 4096
    output_cap: int = 0
    hints: bool = False
    seed: int = 0


Progress = Callable[[int, int, int], None]
"""Sent, done, failed."""


class Sender:
    """One run against one target."""

    def __init__(self, target: Target, service: Service, options: SendOptions) -> None:
        self.records: list[Record] = []
        self._target = target
        self._service = service
        self._options = options
        self._room = asyncio.Semaphore(options.max_in_flight)
        self._done = 0
        self._failed = 0
        self._start = 0.0

    async def run(self, workload: Workload, progress: Progress | None = None) -> list[Record]:
        """Every call's record, in order of sending. Returns when the last answer is complete."""
        self._start = time.monotonic()
        if self._options.concurrency:
            await self._closed(workload, progress)
        else:
            await self._open(workload, progress)
        return self.records

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._start

    async def _open(self, workload: Workload, progress: Progress | None) -> None:
        """Calls go out at their times, whether or not earlier ones are answered."""
        async with asyncio.TaskGroup() as group:
            for call in self._first_calls(workload):
                planned = call.at * self._options.stretch
                await asyncio.sleep(max(0.0, planned - self.now()))
                # When this blocks, the next calls are late, and the run says so.
                await self._room.acquire()
                group.create_task(self._session(call, planned, workload.block_size, progress))

    async def _closed(self, workload: Workload, progress: Progress | None) -> None:
        """Each of `concurrency` clients takes the next session when its last one is over."""
        calls = self._first_calls(workload)

        async def client() -> None:
            for call in calls:
                await self._room.acquire()
                await self._session(call, self.now(), workload.block_size, progress)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.concurrency):
                group.create_task(client())

    def _first_calls(self, workload: Workload) -> Iterator[Call]:
        for number, call in enumerate(workload.calls()):
            if self._options.limit and number >= self._options.limit:
                return
            yield call

    async def _session(
        self, first: Call, planned: float, block_size: int, progress: Progress | None
    ) -> None:
        """A call and all that wait for it."""
        try:
            call: Call | None = first
            while call is not None:
                record = Record(call.number, planned, self.now())
                record.warm_up = len(self.records) < self._options.warm_up
                self.records.append(record)
                await self._target.send(self._prompt(call, block_size), record, self.now)
                self._done += 1
                self._failed += bool(record.error)
                if progress is not None:
                    progress(len(self.records), self._done, self._failed)
                call = call.next
                if call is not None:
                    pause = call.think_s * self._options.stretch
                    planned = self.now() + pause
                    await asyncio.sleep(pause)
        finally:
            self._room.release()

    def _prompt(self, call: Call, block_size: int) -> Prompt:
        options = self._options
        size = max(1, block_size // options.shrink)
        count = max(1, call.prompt_tokens // options.shrink)
        shrunk = Call(
            call.number,
            call.at,
            count,
            call.output_tokens,
            call.blocks,
            min(call.prompt_blocks, count // size),
        )
        ids = token_ids(
            shrunk,
            size,
            max(FEWEST_IDS, self._service.vocabulary - RESERVED_IDS),
            options.seed,
            RESERVED_IDS,
        )
        output = max(1, call.output_tokens // options.shrink)
        if options.output_cap:
            output = min(output, options.output_cap)
        if not options.hints:
            return Prompt(ids, output)
        known = call.dead_from is not None
        return Prompt(
            ids,
            output,
            "" if call.session is None else f"s{call.session}",
            ends_session=call.session is not None and known,
            breakpoint=(call.dead_from or 0) * size if known else 0,
        )
