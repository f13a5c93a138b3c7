"""The server side of a ledger drill: workers that come and go, old copies, and the comparison."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from redis import Redis

from cache_index.base import Epoch
from cache_index.functions import Call
from cache_index.index_calls import IndexCalls
from cache_index.ledger_codec import DEAD
from cache_index.names import Names
from tests.fakes.ledger_reference import LedgerReference

NAMES = Names.of("drill")


@dataclass(frozen=True, slots=True)
class Backup:
    """An old copy of all keys, and of the truth at that time."""

    keys: dict[bytes, bytes]
    truth: LedgerReference


class LedgerServer:
    """One Redis, and the reference that says what must be in it."""

    def __init__(self, client: Redis, seed: int, workers: int) -> None:
        self.client = client
        self.rng = random.Random(seed)
        self.truth = LedgerReference()
        self.calls = IndexCalls(NAMES)
        self.happened: Counter[str] = Counter()
        self.epochs = count(int(time.time() * 1e6))
        self.epoch_of: dict[int, int] = {}
        self.backup: Backup | None = None
        client.flushall()
        for slot in range(workers):
            self.join(slot, keep=False)

    def call(self, call: Call) -> Any:
        return cast(Any, self.client).execute_command(*call.command())

    def read_gens(self) -> None:
        rows = cast(bytes, self.client.get(NAMES.rows) or b"")
        for slot in range(len(rows) // 48):
            self.truth.gens[slot] = struct.unpack_from("<d", rows, slot * 48 + 8)[0]

    def join(self, slot: int, keep: bool) -> None:
        epoch = self.epoch_of[slot] = next(self.epochs)
        call = self.calls.join(slot, Epoch(epoch), keep_weights=keep)
        assert self.call(call) == b"OK"
        assert self.call(call) == b"OK"
        self.truth.join(slot, epoch, keep)
        self.read_gens()

    def leave(self, slot: int) -> None:
        if self.truth.epochs[slot] and len(self.truth.alive) > 2:
            assert self.call(self.calls.leave(slot, Epoch(self.epoch_of[slot]))) == 1
            self.truth.epochs[slot] = 0
            self.read_gens()
            self.happened["leave"] += 1

    def zombie(self, slot: int) -> None:
        assert self.call(self.calls.leave(slot, Epoch(12345))) == 0
        if self.truth.epochs[slot]:
            assert self.call(self.calls.join(slot, Epoch(12345), keep_weights=True)) == b"FENCED"

    def idle_beats(self, slot: int) -> None:
        for _ in range(self.rng.choice([1, 1, 6])):
            reply = self.call(self.calls.wbeat(slot, Epoch(self.epoch_of[slot]), 0, 0))
            if reply == b"FENCED":
                assert not self.truth.epochs[slot]
                return
            sums = self.truth.sums(slot)
            assert reply[:2] == [sums.us, sums.outstanding]
            if reply[2]:
                self.read_gens()
                self.happened["idle clear"] += 1

    def save(self) -> None:
        keys = {key: self.client.dump(key) for key in cast("list[bytes]", self.client.keys())}
        self.backup = Backup(cast("dict[bytes, bytes]", keys), self.truth.copy())

    def roll_back(self) -> None:
        """As a failover to a replica that lagged: workers notice, and join again."""
        if self.backup is None:
            return
        self.client.flushall()
        for key, value in self.backup.keys.items():
            self.client.restore(key, 0, value)
        self.truth = self.backup.truth.copy()
        for slot in sorted(self.epoch_of):
            if self.truth.epochs.get(slot) != self.epoch_of[slot]:
                self.join(slot, keep=True)
        self.happened["roll back"] += 1

    def lose_data(self) -> None:
        self.client.flushall()
        self.truth, self.backup = LedgerReference(), None
        for slot in sorted(self.epoch_of):
            self.join(slot, keep=False)
        self.happened["data lost"] += 1

    def check(self) -> None:
        """Every sum equals the reference, exactly."""
        queues = cast(bytes, self.client.get(NAMES.queues))
        rows = cast(bytes, self.client.get(NAMES.rows))
        for slot, epoch in self.truth.epochs.items():
            us = struct.unpack_from("<d", queues, slot * 8)[0]
            _, _, outstanding, _, tokens, blocks = struct.unpack_from("<6d", rows, slot * 48)
            if not epoch:
                assert (us, outstanding, tokens, blocks) == (DEAD, 0, 0, 0)
                continue
            sums = self.truth.sums(slot)
            expected = (sums.us, sums.outstanding, sums.tokens, sums.blocks)
            assert (us, outstanding, tokens, blocks) == expected, f"slot {slot} is off"

    def check_weights(self) -> None:
        stored = cast(bytes, self.client.get(NAMES.weights))
        found = list(struct.unpack_from("<dd", stored))
        expected = list(self.truth.output)
        for slot in self.truth.weights:
            found += struct.unpack_from("<6d", stored, 16 + slot * 48)
            expected += self.truth.weights[slot].theta
        for have, want in zip(found, expected, strict=True):
            assert abs(have - want) <= 1e-6 * max(1.0, abs(want)), "weights are off"
