"""The prefix cache and its evictors as one would write them without caring for speed: every
question scans everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Node:
    parent: str | None
    users: int = 1
    last: int = 0
    first: int = 0
    uses: int = 1
    marked: bool = True
    reused: bool = False
    turns: int = 0
    rank: int = 0


class NaiveRule:
    """Told of what happens; `allows` says whether a leaf may be chosen now."""

    def __init__(self, tree: NaiveTree, evictor: Any) -> None:
        self.tree, self.evictor = tree, evictor

    def inserted(self, key: str) -> None: ...

    def hit(self, key: str) -> None: ...

    def evicted(self, key: str) -> None: ...

    def allows(self, victim: str) -> bool:
        return True

    def first(self, keys: list[str], by: Callable[[Node], Any]) -> str:
        return min(keys, key=lambda key: by(self.tree.cached[key]))


@dataclass
class NaiveTree:
    total: int
    rule: NaiveRule = field(init=False)
    cached: dict[str, Node] = field(default_factory=dict)
    clock: int = 0

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
            self.rule.hit(key)

    def take(self, evicted: set[object]) -> None:
        """The pool gave a block and `evicted` (nothing, or one key) went for it."""
        assert bool(evicted) == (len(self.cached) == self.total), "evicted though a block was free"
        for victim in evicted:
            assert isinstance(victim, str) and victim in self.leaves(), f"{victim} is no leaf"
            assert self.rule.allows(victim), f"{victim} must not go now"
            self.rule.evicted(victim)
            del self.cached[victim]

    def commit(self, key: str, parent: str | None) -> None:
        self.cached[key] = Node(parent, first=self.clock + 1)
        self.touch(key)
        self.rule.inserted(key)

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


class LruRule(NaiveRule):
    def allows(self, victim: str) -> bool:
        return victim == self.first(self.tree.leaves(), lambda node: node.last)


class FifoRule(NaiveRule):
    def allows(self, victim: str) -> bool:
        return victim == self.first(self.tree.leaves(), lambda node: node.first)


class LfuRule(NaiveRule):
    def allows(self, victim: str) -> bool:
        return victim == self.first(self.tree.leaves(), lambda node: (node.uses, node.last))


class RltRule(NaiveRule):
    def allows(self, victim: str) -> bool:
        nodes = self.tree.cached
        if all(nodes[key].marked for key in self.tree.leaves()):
            for node in nodes.values():
                node.marked = False
        return not nodes[victim].marked


class ArcRule(NaiveRule):
    """Which side, exactly; within it the least recently used leaf (`exact`) or any."""

    exact = True

    def __init__(self, tree: NaiveTree, evictor: Any) -> None:
        super().__init__(tree, evictor)
        self.target = tree.total / 2
        self.ghosts: list[list[str]] = [[], []]

    def inserted(self, key: str) -> None:
        for side in (0, 1):
            if key not in self.ghosts[side]:
                continue
            # Its place stays taken until it is as old as the cache is large.
            self.ghosts[side][self.ghosts[side].index(key)] = ""
            sizes = [max(1, len(self.ghosts[i])) for i in (0, 1)]
            if side == 0:
                self.target = min(self.tree.total, self.target + max(1, sizes[1] / sizes[0]))
            else:
                self.target = max(0, self.target - max(1, sizes[0] / sizes[1]))
            self.tree.cached[key].reused = True

    def hit(self, key: str) -> None:
        self.tree.cached[key].reused = True

    def allows(self, victim: str) -> bool:
        nodes = self.tree.cached
        assert self.evictor.target == self.target
        sides = [
            [key for key in self.tree.leaves() if nodes[key].reused == bool(s)] for s in (0, 1)
        ]
        fresh = sum(not node.reused for node in nodes.values())
        side = sides[0] if sides[0] and (not sides[1] or fresh > self.target) else sides[1]
        return victim == self.first(side, lambda node: node.last) if self.exact else victim in side

    def evicted(self, key: str) -> None:
        ghosts = self.ghosts[self.tree.cached[key].reused]
        ghosts.append(key)
        del ghosts[: -self.tree.total]


class ArcMixRule(ArcRule):
    exact = False


class S3Rule(NaiveRule):
    def __init__(self, tree: NaiveTree, evictor: Any) -> None:
        super().__init__(tree, evictor)
        self.insertions = self.ticks = 0
        self.gone: list[tuple[str, int]] = []

    def tick(self, node: Node) -> None:
        self.ticks += 1
        node.rank = self.ticks

    def inserted(self, key: str) -> None:
        self.insertions += 1
        node = self.tree.cached[key]
        for entry in [entry for entry in self.gone if entry[0] == key]:
            node.reused = self.insertions - entry[1] <= self.tree.total
            self.gone.remove(entry)
        self.tick(node)

    def hit(self, key: str) -> None:
        node = self.tree.cached[key]
        node.reused, node.turns = True, min(3, node.turns + 1)
        self.tick(node)

    def allows(self, victim: str) -> bool:
        nodes = self.tree.cached
        small = [key for key in self.tree.leaves() if not nodes[key].reused]
        main = [key for key in self.tree.leaves() if nodes[key].reused]
        many = sum(not node.reused for node in nodes.values()) * 10 > self.tree.total
        if small and (many or not main):
            return victim == self.first(small, lambda node: node.rank)
        while nodes[key := self.first(main, lambda node: node.rank)].turns:
            nodes[key].turns -= 1
            self.tick(nodes[key])
        return victim == key

    def evicted(self, key: str) -> None:
        self.gone.append((key, self.insertions))
        del self.gone[: -self.tree.total]


class ShadowRule(NaiveRule):
    """The oldest leaf that the leader does not hold. Asked after the leader made room, so its
    set is the one used.
    """

    def allows(self, victim: str) -> bool:
        leader = self.evictor.shadows[self.evictor.leader]
        outside = [key for key in self.tree.leaves() if key not in leader]
        return victim == self.first(outside, lambda node: node.last)


RULES: dict[str, type[NaiveRule]] = {
    "lru": LruRule,
    "fifo": FifoRule,
    "lfu": LfuRule,
    "random": NaiveRule,
    "rlt": RltRule,
    "arc": ArcRule,
    "arc_mix": ArcMixRule,
    "s3fifo": S3Rule,
    "shadow": ShadowRule,
}
