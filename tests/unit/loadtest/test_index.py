"""What a router believes of a cache, and when."""

from __future__ import annotations

from loadtest.sim.index import EventIndex, HistoryIndex
from loadtest.sim.ledger import Change, Ledger
from worker_svc.kv.base import Delta


def test_events_arrive_late_and_prompts_in_flight_count() -> None:
    index = EventIndex(delay_ms=5.0)
    index.changed(Delta(stored=(1, 2, 3)), 100.0)
    assert index.match((1, 2, 3, 4), 104.9) == 0
    assert index.match((1, 2, 3, 4), 105.0) == 3
    index.sent((1, 2, 3, 4))
    assert index.match((1, 2, 3, 4), 105.0) == 4
    index.changed(Delta(removed=(3,)), 106.0)
    index.computed((1, 2, 3, 4))
    assert index.match((1, 2, 3, 4), 200.0) == 2
    index.changed(Delta(stored=(9,), flushed=True), 200.0)
    assert index.match((1, 2), 300.0) == 0 and index.match((9,), 300.0) == 1


def test_in_flight_knowledge_can_be_switched_off() -> None:
    index = EventIndex(in_flight=False)
    index.sent((1, 2))
    assert index.match((1, 2), 0.0) == 0
    index.computed((1, 2))


def test_history_believes_what_was_sent_and_is_bounded() -> None:
    index = HistoryIndex(capacity=4)
    index.sent((1, 2, 3))
    index.changed(Delta(removed=(3,)), 0.0)
    assert index.match((1, 2, 3), 0.0) == 3
    index.sent((7, 8))
    # The oldest leaf was forgotten, its root is still known.
    assert index.match((1, 2, 3), 0.0) == 2


def test_ledger_shows_own_bookings_at_once_and_others_late() -> None:
    ledger = Ledger(2, routers=2, lag_ms=50.0)
    ledger.change(0, Change(1, outstanding=1, waiting=1, tokens=90, queue_ms=12.5, blocks=7), 10.0)
    assert ledger.rows(0, 10.0)[1].queue_ms == 12.5
    assert ledger.rows(1, 59.0)[1].outstanding == 0
    assert ledger.rows(1, 60.0)[1].outstanding == 1
    ledger.change(0, Change(1, -1, -1, -90, -12.5, -7), 61.0)
    ledger.check_idle()


def test_a_shared_ledger_is_one() -> None:
    ledger = Ledger(1, routers=3)
    ledger.change(2, Change(0, outstanding=1), 0.0)
    assert [ledger.rows(router, 0.0)[0].outstanding for router in range(3)] == [1, 1, 1]
