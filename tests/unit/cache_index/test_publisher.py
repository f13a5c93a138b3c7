from __future__ import annotations

import random

import pytest

from cache_index.base import Epoch, IndexKey
from cache_index.publisher import MAX_BATCH, Publisher


class Server:
    """What Redis does with batches, as a plain set."""

    def __init__(self) -> None:
        self.epoch, self.seq, self.blocks = 0, 0, set[IndexKey]()

    def register(self, publisher: Publisher) -> None:
        self.epoch, self.seq, self.blocks = self.epoch + 1, 0, set()
        publisher.registered(Epoch(self.epoch))

    def receive(self, publisher: Publisher, *, reply_lost: bool = False) -> None:
        batch = publisher.next_batch()
        if batch is None:
            return
        if batch.seq == self.seq + 1:
            self.seq = batch.seq
            self.blocks = (self.blocks - set(batch.removed)) | set(batch.added)
            if batch.flush:
                self.epoch, self.seq, self.blocks = self.epoch + 1, 0, set()
            digest: int = 0
            for key in self.blocks:
                digest ^= key
            assert (len(self.blocks), digest) == (batch.count, batch.digest)
        if reply_lost:
            return
        if batch.flush:
            publisher.flushed(Epoch(self.epoch))
        else:
            publisher.confirmed()


def keys(*numbers: int) -> list[IndexKey]:
    return [IndexKey(number) for number in numbers]


def ready() -> tuple[Publisher, Server]:
    publisher, server = Publisher(), Server()
    server.register(publisher)
    return publisher, server


def test_opposite_changes_cancel_and_order_is_kept() -> None:
    publisher, _ = ready()
    publisher.store(keys(1, 2))
    publisher.remove(keys(2))
    publisher.store(keys(3))
    batch = publisher.next_batch()
    assert batch is not None
    assert (batch.added, batch.removed) == ((1, 3), ())


def test_removed_and_stored_again_says_nothing() -> None:
    publisher, server = ready()
    publisher.store(keys(1))
    server.receive(publisher)
    publisher.remove(keys(1))
    publisher.store(keys(1))
    assert publisher.idle
    assert publisher.next_batch() is None


def test_batch_in_flight_is_repeated_unchanged() -> None:
    publisher, server = ready()
    publisher.store(keys(1))
    first = publisher.next_batch()
    server.receive(publisher, reply_lost=True)
    publisher.store(keys(2))
    assert publisher.next_batch() == first
    server.receive(publisher)
    server.receive(publisher)
    assert server.blocks == {1, 2}


def test_large_changes_go_in_bounded_batches_parents_first() -> None:
    publisher, server = ready()
    publisher.store(keys(*range(MAX_BATCH + 5)))
    batch = publisher.next_batch()
    assert batch is not None
    assert batch.added == tuple(range(MAX_BATCH))
    server.receive(publisher)
    server.receive(publisher)
    assert server.blocks == set(publisher.truth)


def test_flush_is_a_new_epoch() -> None:
    publisher, server = ready()
    publisher.store(keys(1, 2))
    server.receive(publisher)
    publisher.flush()
    publisher.store(keys(2))
    batch = publisher.next_batch()
    assert batch is not None and batch.flush
    server.receive(publisher)
    assert (publisher.epoch, publisher.seq, server.blocks) == (2, 0, set())
    server.receive(publisher)
    assert server.blocks == {2}


def test_flush_of_nothing_published_needs_no_epoch() -> None:
    publisher, _ = ready()
    publisher.store(keys(1))
    publisher.flush()
    assert publisher.idle


def test_registering_anew_says_everything_again() -> None:
    publisher, server = ready()
    publisher.store(keys(1, 2))
    server.receive(publisher)
    publisher.remove(keys(2))
    publisher.next_batch()
    server.register(publisher)
    server.receive(publisher)
    assert server.blocks == {1}
    assert publisher.idle


@pytest.mark.parametrize("seed", range(10))
def test_redis_ends_with_the_truth_under_random_faults(seed: int) -> None:
    rng = random.Random(seed)
    publisher, server = ready()
    model: set[IndexKey] = set()
    for _ in range(600):
        action = rng.random()
        some = keys(*(rng.randrange(200) for _ in range(rng.randrange(1, 30))))
        if action < 0.4:
            publisher.store(some)
            model |= set(some)
        elif action < 0.7:
            publisher.remove(some)
            model -= set(some)
        elif action < 0.73:
            publisher.flush()
            model.clear()
        elif action < 0.76:
            server.register(publisher)
        else:
            batch = publisher.next_batch()
            if rng.random() < 0.2 and not (batch and batch.flush):
                # A lost reply to a flush is FENCED next time: registering anew, as above.
                server.receive(publisher, reply_lost=True)
            else:
                server.receive(publisher)
        publisher.check()
        assert set(publisher.truth) == model
    while not publisher.idle:
        server.receive(publisher)
    assert server.blocks == model
