"""How many requests one key may have open at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from kvroute.errors import Overloaded

ANONYMOUS = "anonymous"


class KeyLimits:
    """Counts open requests by key. Holds as many entries as there are open requests at most."""

    def __init__(self, per_key: int) -> None:
        self._per_key = per_key
        self._open: dict[str, int] = {}

    @property
    def open(self) -> int:
        """Open requests of all keys."""
        return sum(self._open.values())

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Counts one request of `key` while the context is open.

        Raises:
            Overloaded: the key has as many open as it may.
        """
        name = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest() if key else ANONYMOUS
        count = self._open.get(name, 0)
        if count >= self._per_key:
            raise Overloaded(
                f"{count} requests of this key are open, as many as it may have",
                field="http_max_per_key",
                value=count,
                limit=self._per_key,
                retry_after_ms=1000,
            )
        self._open[name] = count + 1
        try:
            yield
        finally:
            left = self._open[name] - 1
            if left:
                self._open[name] = left
            else:
                del self._open[name]

    def check(self) -> None:
        """No key is remembered that has nothing open."""
        assert all(count > 0 for count in self._open.values())
