"""The engine's thread: commands from any thread, one report per step, an end for everything."""

from __future__ import annotations

import queue
import threading

from tests.engine_driver import Collected, request
from tests.fake_runner import FakeRunner, expected
from worker_svc.base import StepReport
from worker_svc.engine.engine import Engine
from worker_svc.engine.options import EngineOptions

OPTIONS = EngineOptions(blocks=64, block_size=4, max_batch_tokens=32, max_running=8)
PATIENCE = 30.0


class Harness:
    """An engine with a queue behind it."""

    def __init__(self) -> None:
        self.reports: queue.Queue[StepReport] = queue.Queue()
        self.engine = Engine(FakeRunner(), None, OPTIONS, self.reports.put)
        self.got = Collected()

    def wait_for(self, *ids: int) -> None:
        while not set(ids) <= set(self.got.finished):
            self.got.add(self.reports.get(timeout=PATIENCE))

    def __enter__(self) -> Harness:
        self.engine.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.engine.stop()


def test_requests_from_many_threads_are_answered() -> None:
    with Harness() as harness:
        threads = [
            threading.Thread(
                target=harness.engine.submit, args=(request(i, [i + 1] * 9, 4, max_tokens=8),)
            )
            for i in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        harness.wait_for(*range(12))
        for i in range(12):
            assert harness.got.tokens[i] == expected([i + 1] * 9, 8)


def test_abort_and_flush_reach_a_busy_and_an_idle_engine() -> None:
    with Harness() as harness:
        harness.engine.submit(request(1, [5] * 9, 4, max_tokens=200))
        harness.engine.abort(1)
        harness.wait_for(1)
        assert harness.got.finished[1].reason == "cancelled"
        harness.engine.flush_cache()
        report = harness.reports.get(timeout=PATIENCE)
        assert report.delta.flushed


def test_stop_cancels_what_is_left_and_ends_the_thread() -> None:
    harness = Harness()
    harness.engine.submit(request(1, [5] * 9, 4, max_tokens=200))
    with harness:
        pass
    while not harness.reports.empty():
        harness.got.add(harness.reports.get())
    assert harness.got.finished[1].reason == "cancelled"
    assert harness.engine.stats().locked_blocks == 0


def test_a_sink_that_raises_stops_nobody() -> None:
    seen: list[int] = []
    done = threading.Event()

    def sink(report: StepReport) -> None:
        for output in report.outputs:
            seen.extend(output.token_ids)
            if output.finished is not None:
                done.set()
        raise RuntimeError("receiver is broken")

    engine = Engine(FakeRunner(), None, OPTIONS, sink)
    engine.start()
    engine.submit(request(1, [5] * 9, 4, max_tokens=8))
    assert done.wait(PATIENCE)
    engine.stop()
    assert seen == expected([5] * 9, 8)
