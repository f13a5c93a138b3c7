"""The load board gives the shortlist that reading the whole fleet would give."""

from __future__ import annotations

from collections import Counter
from random import Random

from router_svc.policy.base import Candidate, Fleet, Request
from router_svc.policy.board import LoadBoard
from router_svc.policy.cost import priced
from router_svc.policy.lbgr_plus import LbgrPlus
from router_svc.policy.shortlist import SIZE, shortlist


def test_same_shortlist_as_reading_everybody_over_many_changes() -> None:
    rng, board = Random(3), LoadBoard(Random(4))
    workers: dict[str, Candidate] = {}
    for step in range(3000):
        name = f"w{rng.randrange(60)}"
        if rng.random() < 0.15:
            workers.pop(name, None)
            board.remove(name)
        else:
            one = Candidate(name, step, queue_ms=rng.uniform(0, 500), outstanding=rng.randrange(9))
            workers[name] = one
            board.put(one)
        # Distinct hits: equal ones are chosen among at random.
        lengths = rng.sample(range(1, 2000), len(workers))
        pairs = zip(workers, lengths, strict=True)
        hits = {w: length for w, length in pairs if rng.random() < 0.1}
        fleet = board.fleet(hits, 32.0)
        if not workers:
            assert fleet is None
            continue
        assert fleet is not None
        everybody = [
            Candidate(w, c.slot, hits.get(w, 0), c.queue_ms, c.outstanding)
            for w, c in workers.items()
        ]
        expected = shortlist(everybody, rng)
        with_hits = sum(one.hit > 0 for one in everybody)
        if with_hits >= SIZE // 2 or len(everybody) <= SIZE:
            key = Candidate.__dict__["worker_id"].__get__
            assert {key(one) for one in fleet.candidates} == {key(one) for one in expected}
        assert len(fleet.candidates) == min(SIZE, len(workers))
        assert min(one.queue_ms for one in fleet.candidates) == min(
            one.queue_ms for one in everybody
        )
    board.check()


def test_lbgr_plus_decides_as_on_the_whole_fleet() -> None:
    rng = Random(5)
    for _ in range(300):
        board = LoadBoard(Random(6))
        workers = [
            Candidate(f"w{i}", i, queue_ms=rng.uniform(0, 900), outstanding=rng.randrange(6))
            for i in range(200)
        ]
        for one in workers:
            board.put(one)
        hits = {one.worker_id: rng.randrange(1, 1000) for one in rng.sample(workers, 6)}
        fleet = board.fleet(hits, 32.0)
        assert fleet is not None
        everybody = Fleet(
            [
                Candidate(w.worker_id, w.slot, hits.get(w.worker_id, 0), w.queue_ms, w.outstanding)
                for w in workers
            ]
        )
        decision = LbgrPlus().choose(Request(1024), fleet, rng)
        reference = LbgrPlus().choose(Request(1024), everybody, rng)
        assert decision.chosen == reference.chosen and decision.kappa == reference.kappa
        kappa, _ = priced(Request(1024), everybody, ())
        assert kappa == decision.kappa


def test_equally_loaded_workers_take_turns() -> None:
    board, rng = LoadBoard(Random(7)), Random(8)
    for i in range(100):
        board.put(Candidate(f"w{i:03d}", i))
    seen: Counter[str] = Counter()
    for _ in range(2000):
        fleet = board.fleet({}, 32.0)
        assert fleet is not None
        chosen = LbgrPlus().choose(Request(64), fleet, rng).chosen.candidate.worker_id
        seen[chosen] += 1
    assert len(seen) == 100 and max(seen.values()) < 60


def test_stale_entries_do_not_pile_up_and_the_gone_never_return() -> None:
    board = LoadBoard(Random(9))
    for step in range(5000):
        board.put(Candidate(f"w{step % 10}", step % 10, queue_ms=float(step)))
    board.check()
    for i in range(9):
        board.remove(f"w{i}")
    board.remove("never there")
    fleet = board.fleet({"w3": 500}, 32.0)
    assert fleet is not None and [one.worker_id for one in fleet.candidates] == ["w9"]
    assert len(board) == 1
