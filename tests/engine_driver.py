"""Drives an `EngineCore` step by step, as tests want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cache_index.keys import KeySpace
from worker_svc.base import Admitted, EngineRequest, Finished, Sampling, StepReport
from worker_svc.engine.core import EngineCore


class FakeClock:
    """Goes on by 1 ms at every reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Collected:
    """Everything that reports said, by request."""

    def __init__(self, cached: set[bytes] | None = None) -> None:
        """`cached`: what earlier reports of the same core left cached; changed in place."""
        self.tokens: dict[int, list[int]] = {}
        self.text: dict[int, str] = {}
        self.admitted: dict[int, Admitted] = {}
        self.finished: dict[int, Finished] = {}
        self.cached: set[bytes] = set() if cached is None else cached

    def add(self, report: StepReport | None) -> None:
        """Also applies deltas, checking that each is order-safe and net."""
        if report is None:
            return
        for output in report.outputs:
            key = output.request_id
            assert key not in self.finished, "something was said after the end"
            self.tokens.setdefault(key, []).extend(output.token_ids)
            self.text[key] = self.text.get(key, "") + output.text
            if output.admitted is not None:
                assert key not in self.admitted, "admitted twice"
                self.admitted[key] = output.admitted
            if output.finished is not None:
                self.finished[key] = output.finished
        delta = report.delta
        if delta.flushed:
            self.cached.clear()
        assert not set(delta.stored) & set(delta.removed)
        for key_bytes in delta.removed:
            self.cached.remove(key_bytes)
        for key_bytes in delta.stored:
            assert key_bytes not in self.cached
            self.cached.add(key_bytes)


def request(
    request_id: int, tokens: Sequence[int], block_size: int = 16, **sampling: object
) -> EngineRequest:
    space = KeySpace("test", block_size=block_size)
    return EngineRequest(request_id, tokens, Sampling(**sampling), space)  # type: ignore[arg-type]


def run(
    core: EngineCore,
    requests: Sequence[EngineRequest],
    *,
    every: int = 1,
    each_step: Callable[[], None] | None = None,
    cached: set[bytes] | None = None,
    limit: int = 20_000,
) -> Collected:
    """Submits one request every `every` ticks, steps until all is done, checks invariants after
    every step.
    """
    collected = Collected(cached)
    todo = list(requests)
    for tick in range(limit):
        if todo and tick % every == 0:
            core.submit(todo.pop(0))
        collected.add(core.step())
        core.check()
        if each_step is not None:
            each_step()
        if not todo and not core.has_work:
            return collected
    raise AssertionError("the engine never came to an end")
