"""Collects stores and removals into net, order-safe deltas.

Example: within one step A is evicted, A and its child B are stored again, B is evicted. Net:
nothing happened to A, and B (unknown before) never was; the delta is empty. Order stays safe
because a block can only be stored while its parent is cached and removed while it has no child:
sorting each side by the time of the *last* event keeps both rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from worker_svc.kv.base import Delta, Key


class DeltaLog:
    """Bounded by the number of keys whose state changed since the last `take`."""

    __slots__ = ("_flushed", "_removed", "_stored")

    def __init__(self) -> None:
        self._stored: dict[Key, None] = {}
        self._removed: dict[Key, None] = {}
        self._flushed = False

    def store(self, key: Key) -> None:
        if key in self._removed:
            del self._removed[key]
        else:
            self._stored[key] = None

    def remove(self, key: Key) -> None:
        if key in self._stored:
            del self._stored[key]
        elif not self._flushed:
            self._removed[key] = None

    def flush(self, remaining: Iterable[Key]) -> None:
        """All that was known is void; `remaining` (parents first) is what is cached now."""
        self._flushed = True
        self._removed.clear()
        self._stored = dict.fromkeys(remaining)

    def take(self) -> Delta:
        """The net change since the last call; starts anew."""
        if not (self._stored or self._removed or self._flushed):
            return _EMPTY
        delta = Delta(tuple(self._stored), tuple(self._removed), self._flushed)
        self._stored, self._removed, self._flushed = {}, {}, False
        return delta


_EMPTY = Delta()
