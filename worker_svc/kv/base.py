"""Contracts of the block bookkeeping. Standard library only, so that the simulator runs the very
same classes.

A *block* is a small integer, the index of a page in the K/V tensors. A cached block has a *key*
that stands for all tokens up to its end; its *parent* is the cached block right before it. A *leaf*
is a cached block that no request uses and that no cached block has as parent: only leaves are ever
evicted, so a cache is always prefix-closed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Key: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Delta:
    """Net change of the set of cached keys since the last delta.

    `stored` has parents before children, `removed` children before parents, and no key is in both:
    applying all of `removed` and then all of `stored` (or the other way round) keeps the receiver's
    set prefix-closed at every point. `flushed`: forget everything first; `stored` then names all
    that is cached.
    """

    stored: tuple[Key, ...] = ()
    removed: tuple[Key, ...] = ()
    flushed: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Blocks by state; `free + cached + locked == total`. `leaves` are those of `cached` that could
    go right now.
    """

    free: int
    cached: int
    locked: int
    total: int
    leaves: int


class InvariantError(AssertionError):
    """`check()` found the bookkeeping inconsistent: a fault of ours, never of the caller."""


def require(holds: bool, what: str) -> None:
    """Raises `InvariantError` unless `holds`."""
    if not holds:
        raise InvariantError(what)


class Evictor(Protocol):
    """Chooses which leaf goes. Told of every event; never looks at the tree; every event O(1) or
    O(log n).

    Between `insert` (or `leaf_off`) and `leaf_on` a block is locked or has cached children, and is
    not a candidate. Accesses of one request come in chain order (parents first), its releases in
    reverse.
    """

    def insert(self, block: int, key: Key, parent: int | None) -> None:
        """A new block is cached; it is in use."""

    def hit(self, block: int) -> None:
        """A request re-uses a cached block. It is not a leaf now."""

    def release(self, block: int) -> None:
        """The last request that used the block let go of it. Counts as an access (the time of use
        ends now).
        """

    def leaf_on(self, block: int) -> None:
        """The block became a candidate."""

    def leaf_off(self, block: int) -> None:
        """The block is no candidate any more: it is used again."""

    def pop(self) -> int | None:
        """Takes the victim out of the candidates and forgets it. None: there is no candidate."""

    def remove(self, block: int) -> None:
        """Forgets a candidate that goes for a reason other than this evictor's choice."""

    def __len__(self) -> int:
        """Number of candidates."""

    def check(self) -> None:
        """Raises `InvariantError` when the bookkeeping is inconsistent. O(blocks)."""
