"""The prefix cache as one would write it without caring for speed: every question scans
everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Node:
    parent: str | None
    users: int = 1
    last: int = 0
    first: int = 0
    uses: int = 1
    marked: bool = True


@dataclass
class NaiveTree:
    """`rule(tree, victim)` says whether an evictor may choose this leaf now; it may end a phase."""

    total: int
    rule: Callable[[NaiveTree, str], bool]
    cached: dict[str, Node] = field(default_factory=dict)
    clock: int = 0
    phases: int = 1

    def match(self, keys: list[str]) -> int:
        count = 0
        while count < len(keys) and keys[count] in self.cached:
            count += 1
        return count

    def lock(self, keys: list[str]) -> None:
        for key in keys:
            self.cached[key].users += 1
            self.cached[key].uses += 1
            self.touch(key)

    def take(self, evicted: set[object]) -> None:
        """The pool gave a block and `evicted` (nothing, or one key) went for it."""
        used = len(self.cached)
        assert bool(evicted) == (used == self.total), "evicted though a block was free"
        for victim in evicted:
            assert isinstance(victim, str) and victim in self.leaves(), f"{victim} is no leaf"
            assert self.rule(self, victim), f"{victim} must not go now"
            del self.cached[victim]

    def commit(self, key: str, parent: str | None) -> None:
        self.cached[key] = Node(parent, first=self.clock + 1)
        self.touch(key)

    def release(self, keys: list[str]) -> None:
        for key in reversed(keys):
            self.cached[key].users -= 1
            if not self.cached[key].users:
                self.touch(key)

    def touch(self, key: str) -> None:
        self.clock += 1
        self.cached[key].last = self.clock
        self.cached[key].marked = True

    def locked(self) -> list[str]:
        return [key for key, node in self.cached.items() if node.users]

    def leaves(self) -> list[str]:
        parents = {node.parent for node in self.cached.values()}
        return [key for key, node in self.cached.items() if not node.users and key not in parents]


def _lru(tree: NaiveTree, victim: str) -> bool:
    return victim == min(tree.leaves(), key=lambda key: tree.cached[key].last)


def _rlt(tree: NaiveTree, victim: str) -> bool:
    if all(tree.cached[key].marked for key in tree.leaves()):
        tree.phases += 1
        for node in tree.cached.values():
            node.marked = False
    return not tree.cached[victim].marked


RULES: dict[str, Callable[[NaiveTree, str], bool]] = {"lru": _lru, "rlt": _rlt}
