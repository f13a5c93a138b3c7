from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cache_index.audit import Audit
from cache_index.base import Epoch, IndexKey, WorkerId
from cache_index.events import Delta, Event, Gone, Registered, Updated, parse
from cache_index.fleet import WorkerRecord
from cache_index.replica import Mark, Outcome, Replica
from cache_index.view import IndexView
from tests.fakes.fleet import identity, worker

A, B = WorkerId("a"), WorkerId("b")
ONE, TWO = IndexKey(1), IndexKey(2)


def record(name: WorkerId = A, epoch: int = 10, slot: int = 0, seq: int = 0) -> WorkerRecord:
    return WorkerRecord(name, "host:1", Epoch(epoch), slot, seq, identity(), 100, False, ())


def delta(seq: int, *added: IndexKey, removed: tuple[IndexKey, ...] = (), epoch: int = 10) -> Delta:
    return Delta(A, Epoch(epoch), seq, added, removed)


def replica() -> Replica:
    """Worker a in epoch 10 with block 1 at sequence 1."""
    made = Replica(IndexView())
    made.apply(Registered(record()))
    made.apply(delta(1, ONE))
    return made


def blocks(of: Replica) -> set[IndexKey]:
    return of.view.blocks_of(A)


CHANGES: list[tuple[Event, Callable[[Replica], bool]]] = [
    (Registered(record(epoch=11)), lambda r: blocks(r) == set() and r.workers[A].epoch == 11),
    (Registered(record(B, slot=1)), lambda r: r.workers.keys() == {A, B}),
    (Updated(replace(record(), draining=True)), lambda r: r.workers[A].draining),
    (delta(2, TWO), lambda r: blocks(r) == {ONE, TWO} and r.workers[A].seq == 2),
    (delta(2, removed=(ONE,)), lambda r: blocks(r) == set()),
    (Gone(A, Epoch(10)), lambda r: not r.workers and not r.view.match([ONE])),
]


@pytest.mark.parametrize(("event", "changed"), CHANGES)
def test_every_event_type_changes_the_view_and_only_once(
    event: Event, changed: Callable[[Replica], bool]
) -> None:
    made = replica()
    assert not changed(made)
    assert made.apply(event) is Outcome.APPLIED
    assert changed(made)
    if not isinstance(event, Updated):
        assert made.apply(event) is Outcome.DUPLICATE
    assert changed(made)
    made.check()


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (delta(1, TWO), Outcome.DUPLICATE),
        (delta(3, TWO), Outcome.RESYNC),
        (delta(2, TWO, epoch=9), Outcome.DUPLICATE),
        (delta(2, TWO, epoch=11), Outcome.RESYNC),
        (Delta(B, Epoch(10), 1, (TWO,), ()), Outcome.RESYNC),
        (Registered(record(epoch=9)), Outcome.DUPLICATE),
        (Updated(replace(record(epoch=9), draining=True)), Outcome.DUPLICATE),
        (Updated(replace(record(epoch=11), draining=True)), Outcome.RESYNC),
        (Gone(A, Epoch(9)), Outcome.DUPLICATE),
        (Gone(B, Epoch(10)), Outcome.DUPLICATE),
    ],
)
def test_event_out_of_order_changes_nothing(event: Event, outcome: Outcome) -> None:
    made = replica()
    assert made.apply(event) is outcome
    assert made.workers == {A: record(seq=1)}
    assert blocks(made) == {ONE}


def test_event_of_another_tier_advances_the_sequence_only() -> None:
    made = replica()
    assert made.apply(replace(delta(2, TWO), tier=1)) is Outcome.APPLIED
    assert (blocks(made), made.workers[A].seq) == ({ONE}, 2)


def test_worker_that_takes_a_slot_ends_its_former_owner() -> None:
    made = replica()
    made.apply(Registered(record(B, epoch=12)))
    assert made.workers.keys() == {B}
    made.check()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"w": b"a", b"e": b"1", b"k": b"d", b"s": b"1", b"a": b"123"},
        {b"w": b"a", b"e": b"1", b"k": b"d", b"s": b"1", b"a": b"1" * 8 * 9000, b"r": b""},
        {b"w": b"a", b"e": b"1", b"k": b"r", b"d": b"not json"},
        {b"w": b"a", b"e": b"one", b"k": b"x"},
        {b"w": b"a", b"e": b"1", b"k": b"y"},
    ],
)
def test_malformed_entry_is_no_event(fields: dict[bytes, bytes]) -> None:
    assert parse(fields) is None


def test_entry_whose_value_names_another_epoch_is_no_event() -> None:
    value = f'{{"slot":0,"epoch":"2","worker":{worker("a").to_json()}}}'.encode()
    assert parse({b"w": b"a", b"e": b"1", b"k": b"r", b"d": value}) is None
    assert parse({b"w": b"a", b"e": b"2", b"k": b"r", b"d": value}) is not None


def mark(seq: int = 1, digest: int = 1, beats: int = 0, epoch: int = 10) -> Mark:
    return Mark(Epoch(epoch), seq, beats, 1, digest)


@pytest.mark.parametrize(
    ("where", "behind"),
    [
        (mark(), False),
        (mark(seq=2), True),
        (mark(epoch=11, seq=0), True),
        (mark(digest=5), True),
        (mark(seq=0, digest=9), False),  # Read before the last event was applied.
        (mark(epoch=9, seq=7), False),
    ],
)
def test_audit_finds_what_is_behind_or_differs(where: Mark, behind: bool) -> None:
    made = replica()
    found = Audit(made).compare({A: record()}, {A: where}, now=0.0)
    assert (A in found.resync) is behind


def test_audit_drops_the_dead_and_names_them_for_reaping() -> None:
    made = replica()
    found = Audit(made).compare({A: record()}, {A: None}, now=0.0)
    assert found.expired == (record(),)
    assert not made.workers


def test_workers_lost_with_the_data_are_kept_for_their_grace() -> None:
    made = replica()
    audit = Audit(made)
    audit.missing({A: 5.0})
    audit.compare({}, {A: None}, now=4.0)
    assert made.workers
    audit.compare({}, {A: None}, now=5.0)
    assert not made.workers


def test_worker_that_came_back_after_the_marks_were_read_stays() -> None:
    made = replica()
    made.apply(Registered(record(epoch=20)))
    Audit(made).compare({A: record(epoch=10)}, {A: None}, now=0.0)
    assert made.workers[A].epoch == 20


def test_suspect_comes_back_only_with_a_sign_of_life() -> None:
    made = replica()
    audit = Audit(made)
    made.drop(A)
    audit.suspect(A)
    registry = {A: record()}
    assert audit.compare(registry, {A: mark(beats=3)}, 0.0).resync == ()
    assert audit.compare(registry, {A: mark(beats=3)}, 1.0).resync == ()
    assert audit.compare(registry, {A: mark(beats=4)}, 2.0).resync == (A,)


def test_description_that_was_missed_is_taken_from_the_registry() -> None:
    made = replica()
    before = made.version
    Audit(made).compare({A: replace(record(), draining=True)}, {A: mark()}, 0.0)
    assert made.workers[A].draining and made.workers[A].seq == 1
    assert made.version == before + 1
