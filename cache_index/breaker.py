"""When to try again after a failure: at once refused for a short, doubling time."""

from __future__ import annotations


class Breaker:
    """Closed (calls pass) until `tripped`; then open for 100 ms, doubling to 1 s, until `healed`.
    Times: seconds of the caller's clock. Longer pauses cost more placement quality than they save
    work.
    """

    def __init__(self, first_s: float = 0.1, longest_s: float = 1.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._pause_s = first_s
        self._open_until = 0.0
        self.trips = 0

    def is_open(self, now: float) -> bool:
        return now < self._open_until

    def tripped(self, now: float) -> None:
        self.trips += 1
        self._open_until = now + self._pause_s
        self._pause_s = min(self._longest_s, 2 * self._pause_s)

    def healed(self) -> None:
        self._open_until, self._pause_s = 0.0, self._first_s
