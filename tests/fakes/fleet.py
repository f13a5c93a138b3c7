"""Builders for workers, deltas and waiting, shared by the control plane's tests."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cache_index.base import BlockKey, IndexKey, WorkerId
from cache_index.fleet import WorkerDescription
from cache_index.identity import ModelIdentity
from cache_index.keys import SCHEME

MODEL = "test-model"


@dataclass(frozen=True, slots=True)
class Delta:
    stored: tuple[BlockKey, ...] = ()
    removed: tuple[BlockKey, ...] = ()
    flushed: bool = False


def identity(**changes: object) -> ModelIdentity:
    fields: dict[str, object] = {"served_name": MODEL, "model_id": "m", "key_scheme": SCHEME}
    return ModelIdentity(**(fields | changes))  # type: ignore[arg-type]


def worker(name: str, **changes: object) -> WorkerDescription:
    return WorkerDescription(
        worker_id=WorkerId(name),
        address=f"127.0.0.1:{len(name)}",
        identity=identity(**changes),
        total_blocks=1000,
    )


def block(number: int) -> BlockKey:
    """A block key whose index key is `number`."""
    return BlockKey(struct.pack("<QQ", number, 0))


def stored(*numbers: int) -> Delta:
    return Delta(stored=tuple(map(block, numbers)))


def removed(*numbers: int) -> Delta:
    return Delta(removed=tuple(map(block, numbers)))


def index(numbers: Iterable[int]) -> set[IndexKey]:
    return {IndexKey(number) for number in numbers}


async def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Waits until `condition()` holds; fails the test after a generous while."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (the condition may be about another process)
            await asyncio.sleep(0.002)
