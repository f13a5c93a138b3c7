"""Entries of the event stream (written by lua/index.lua), parsed into typed events.

Fields: w worker, e epoch, s sequence, k kind (r registered, u updated, d delta, x gone), d registry
value, a and r packed little-endian uint64 keys added and removed, t tier. Whatever does not parse
becomes None: a stranger's write must never stop a follower.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cache_index.base import Epoch, IndexKey, WorkerId
from cache_index.fleet import WorkerRecord

MAX_KEYS = 8192
"""Keys that one delta may add, and remove; a publisher sends half as many."""
DEVICE_TIER = 0
"""Blocks in the memory of the accelerator: the only tier published today."""
_KEY_BYTES = 8


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker starts a new epoch with an empty cache (registration, or a flush)."""

    record: WorkerRecord


@dataclass(frozen=True, slots=True)
class Updated:
    """A worker's description changed within its epoch."""

    record: WorkerRecord


@dataclass(frozen=True, slots=True)
class Delta:
    """`removed` (children first) goes before `added` (parents first)."""

    worker: WorkerId
    epoch: Epoch
    seq: int
    added: Sequence[IndexKey]
    removed: Sequence[IndexKey]
    tier: int = DEVICE_TIER


@dataclass(frozen=True, slots=True)
class Gone:
    """A worker withdrew, or its lease ran out."""

    worker: WorkerId
    epoch: Epoch


Event = Registered | Updated | Delta | Gone


def pack_keys(keys: Sequence[IndexKey]) -> bytes:
    """Little-endian uint64 each."""
    return struct.pack(f"<{len(keys)}Q", *keys)


def unpack_keys(packed: bytes) -> list[IndexKey]:
    """Raises ValueError when the length is no multiple of 8 or over `MAX_KEYS` keys."""
    count, rest = divmod(len(packed), _KEY_BYTES)
    if rest or count > MAX_KEYS:
        raise ValueError(f"{len(packed)} bytes are not at most {MAX_KEYS} keys of 8 bytes")
    return cast(list[IndexKey], list(struct.unpack(f"<{count}Q", packed)))


def parse(fields: Mapping[bytes, bytes]) -> Event | None:
    """The event of one stream entry, or None if it is malformed or oversized."""
    try:
        worker = WorkerId(fields[b"w"].decode())
        epoch = Epoch(int(fields[b"e"]))
        kind = fields[b"k"]
        if kind == b"d":
            return Delta(
                worker=worker,
                epoch=epoch,
                seq=int(fields[b"s"]),
                added=unpack_keys(fields[b"a"]),
                removed=unpack_keys(fields[b"r"]),
                tier=int(fields.get(b"t", b"0")),
            )
        if kind == b"x":
            return Gone(worker, epoch)
        if kind in (b"r", b"u"):
            record = WorkerRecord.from_json(worker, fields[b"d"])
            if record.epoch != epoch:
                return None
            return Registered(record) if kind == b"r" else Updated(record)
    except (KeyError, ValueError):
        pass
    return None
