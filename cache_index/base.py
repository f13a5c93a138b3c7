"""Identities and contracts that workers, routers and the simulator share."""

from __future__ import annotations

from typing import NewType

WorkerId = NewType("WorkerId", str)
RouterId = NewType("RouterId", str)

Epoch = NewType("Epoch", int)
"""One life of a worker's cache: microseconds of its registration, never used twice."""

BlockKey = NewType("BlockKey", bytes)
"""16 bytes that stand for all tokens of a sequence up to and including one full block."""

IndexKey = NewType("IndexKey", int)
"""First 8 bytes of a `BlockKey` as an unsigned integer: what the global index holds."""
