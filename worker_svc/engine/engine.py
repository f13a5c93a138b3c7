"""The engine's thread: takes commands, steps the core, hands each step's report to the sink."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

import structlog

from worker_svc.base import EngineRequest, EngineStats, Sink, StepReport
from worker_svc.engine.base import Runner
from worker_svc.engine.core import EngineCore
from worker_svc.engine.options import EngineOptions
from worker_svc.text.tokenizer import TextService

_SWITCH_S = 0.0005

_log = structlog.get_logger(__name__)


class Engine:
    """Serves `worker_svc.base.EngineClient`. The sink is called from the engine's thread and must
    return at once.

    The core's queue bounds what waits (`max_queue`): a request over it is refused by the next
    report.
    """

    def __init__(
        self, runner: Runner, text: TextService | None, options: EngineOptions, sink: Sink
    ) -> None:
        decode = text.decode if text is not None and text.available else None
        self._core = EngineCore(runner, decode, options, time.monotonic)
        self._sink = sink
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._stats = self._core.stats()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the thread. Requests submitted before wait."""
        # Python's default of 5 ms makes the event loop beside this thread wait as long (measured:
        # p99 3.9 ms, 0.7 ms so).
        sys.setswitchinterval(_SWITCH_S)
        self._thread.start()

    def submit(self, request: EngineRequest) -> None:
        self._command(lambda: self._core.submit(request))

    def abort(self, request_id: int) -> None:
        self._command(lambda: self._core.abort(request_id))

    def flush_cache(self) -> None:
        self._command(self._core.flush_cache)

    def stats(self) -> EngineStats:
        """As of the last step."""
        return self._stats

    def stop(self) -> None:
        """Returns once the thread has ended. Not to be called from the sink."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _command(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        self._wake.set()

    def _loop(self) -> None:
        core = self._core
        while not self._stopping:
            if not core.has_work and not self._commands:
                self._wake.wait()
            # Cleared before the queue is read: a command put in meanwhile sets it again.
            self._wake.clear()
            self._take_commands()
            self._hand_over(core.step())
        self._take_commands()
        self._hand_over(core.stop())

    def _take_commands(self) -> None:
        while self._commands:
            command = self._commands.popleft()
            try:
                command()
            except Exception:
                _log.error("an engine command failed", traceback=traceback.format_exc())

    def _hand_over(self, report: StepReport | None) -> None:
        self._stats = self._core.stats()
        if report is None:
            return
        try:
            self._sink(report)
        except Exception:
            # A broken receiver must not stop everybody else's streams.
            _log.error("the engine's sink failed", traceback=traceback.format_exc())
